// Cases of vision_scatter: runs and merges, images at both ends of a row, padding on either side.
#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

void normal(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Every sum is exact in any order and dtype.
void integers(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(
        d.rng.integer(static_cast<std::uint64_t>(d.first) + i, std::int64_t{-7}, std::int64_t{7}));
}

Sizes rows(std::int64_t B, std::int64_t T) {
  return {{"B", B, {}}, {"T", T, {}}, {"D", 24, {}}, {"V", 9, {}}};
}
Sizes merged(std::int64_t B, std::int64_t T, std::int64_t S) {
  Sizes sizes = rows(B, T);
  sizes.set({"S", S, {}});
  return sizes;
}

const Fill kNormal{"normal", "which row lands where, and takes whose gradient", normal};
const Fill kIntegers{"integers", "sums over repeated tokens are exact", integers, true};

const Options kRuns{{"counts", "3+2+3+1"}, {"layout", "t2i3t3i2t2+i3t8i1"}};
const Options kLeft{{"counts", "3+2+4"}, {"form", "merge"}, {"layout", "t1i1t3i1t2+p2t3i1t2"}};
const Options kRight{{"counts", "3+2"}, {"form", "merge"}, {"layout", "t2i1t5+i1t5p2"}};
const Options kReleased{
    {"counts", "3+2"}, {"form", "merge"}, {"layout", "t2i1t5+i1t5p2"}, {"rightpad_bug", "1"}};

constexpr std::string_view kZeros =
    "slots of padding, and the rows of the table that only padding and placeholders have";

std::string_view exempt(const Case&, std::string_view tensor, std::string_view trivial) {
  const bool integer = tensor == "attention_mask" || tensor == "labels" ||
                       tensor == "position_ids" || tensor == "positions";
  return integer && trivial == "other_seed" ? "follows from the layout, whatever the seed" : "";
}

const Register runs{CaseSet{
    .op = "vision_scatter",
    .what = "Runs of placeholders as long as their features",
    .lane = Lane::Smoke,
    .sizes = {rows(2, 12)},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {kNormal},
    .options = {kRuns},
    .exempt = exempt,
    .zero_share = 0.45,
    .zero_share_why = kZeros,
}};

const Register merges_left{CaseSet{
    .op = "vision_scatter",
    .what = "One placeholder an image; the shorter row is padded on the left",
    .lane = Lane::Smoke,
    .sizes = {merged(2, 8, 11)},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {kNormal},
    .options = {kLeft},
    .exempt = exempt,
    .zero_share = 0.45,
    .zero_share_why = kZeros,
}};

const Register merges_right{CaseSet{
    .op = "vision_scatter",
    .what = "The same padded on the right, and as the released code places it",
    .lane = Lane::Smoke,
    .sizes = {merged(2, 8, 10)},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {kNormal},
    .options = {kRight, kReleased},
    .exempt = exempt,
    .zero_share = 0.45,
    .zero_share_why = kZeros,
}};

const Register exact{CaseSet{
    .op = "vision_scatter",
    .what = "Integers: one bit apart is a failure",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {rows(2, 12)},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {kIntegers},
    .options = {kRuns},
    .exempt = exempt,
    .zero_share = 0.45,
    .zero_share_why = kZeros,
}};

}  // namespace
}  // namespace parity
