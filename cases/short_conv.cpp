// Cases and bound of short_conv.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

void noise(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  if (d.spec.name == "weight" || d.spec.name == "bias")
    for (double& w : out) w /= 2;
}

// Inputs up to +-60: SiLU at both ends.
void wide(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.name == "x" || d.spec.name == "initial_state")
    for (double& x : out) x *= 20;
}

// Integers small enough that every sum is exact in any order, in bf16 too.
void integers(const RowDraw& d, std::span<double> out) {
  const std::int64_t largest = d.spec.role == Role::Cotangent ? 1 : 2;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(
        d.rng.integer(static_cast<std::uint64_t>(d.first) + i, -largest, largest));
}

Size tokens(std::int64_t n) { return {"T", n, {}}; }
Size packed(std::vector<std::int64_t> parts) {
  std::int64_t sum = 0;
  for (const std::int64_t n : parts) sum += n;
  return {"T", sum, std::move(parts)};
}
Sizes sizes(std::int64_t B, Size T, std::int64_t D) {
  return {{"B", B, {}}, std::move(T), {"D", D, {}}, {"W", 4, {}}};
}

const Fill kNormal{"normal", "the usual case", noise};
const Fill kWide{"wide", "both ends of SiLU", wide};
const Fill kIntegers{"integers", "sums without rounding", integers, true};
const Options kPlain{{"bias", "1"}};
const Options kStates{{"h0", "1"}, {"dht", "1"}};

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  if (c.sizes.get("W", 4) == 1 && (tensor == "grads/initial_state"))
    return "a filter of one tap reads no state, so its gradient is zero";
  if (trivial != "copy") return "";
  // Sequences shorter than the filter hand their state on: some slots are copies by definition.
  if (tensor == "final_state" || tensor == "grads/initial_state")
    return "slots that outlive a short sequence are copies of the state";
  return "";
}

const Register usual{CaseSet{
    .op = "short_conv",
    .what = "Sequences long and short, packed and not",
    .lane = Lane::Smoke,
    .sizes = {sizes(2, tokens(21), 5),
              sizes(1, packed({3, 0, 1, 17}), 70)},  // 70: a second block of channels
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kWide},
    .options = {kPlain, kStates},
    .exempt = exempt,
}};

const Register short_ones{CaseSet{
    .op = "short_conv",
    .what = "Sequences around the length of the filter: which slot of the state is which token",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(2, tokens(1), 3), sizes(2, tokens(2), 3), sizes(2, tokens(3), 3),
              sizes(1, tokens(4), 3), sizes(1, tokens(5), 3), sizes(1, packed({1, 2, 0, 3, 5}), 3),
              sizes(1, tokens(40), 66)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kIntegers},
    .options = {{{"act", "none"}, {"bias", "1"}, {"h0", "1"}, {"dht", "1"}},
                {{"act", "none"}, {"state", "1"}}},
}};

const Register more{CaseSet{
    .op = "short_conv",
    .what = "Many tokens and channels, other filters",
    .lane = Lane::Full,
    .sizes = {sizes(1, tokens(512), 5),
              sizes(1, packed({64, 1, 63, 2, 3, 30}), 70),
              {{"B", 2, {}}, {"T", 33, {}}, {"D", 8, {}}, {"W", 1, {}}},
              {{"B", 2, {}}, {"T", 33, {}}, {"D", 8, {}}, {"W", 7, {}}}},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kWide},
    .options = {kPlain, kStates, {{"act", "none"}}},
    .seeds = {0, 1},
    .exempt = exempt,
}};

Bound bound(const Case&, const Contract& contract, const TensorSpec&) {
  return {.kind = BoundKind::Estimated,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
          .accumulate = contract.accumulate,
          .why =
              "the companion counts roundoffs: W + 1 of the taps' sum, carried through |silu'| <= "
              "1.1 and |silu''| <= 0.5, 5 "
              "of a sigmoid and of 1 - s (libm within 2 ulp is an estimate), 9 sqrt(n) of sums "
              "over n tokens (Higham and Mary 2019) "
              "(Higham, 2nd ed., 3.1). One final rounding."};
}

const Register definition{BoundDef{.op = "short_conv", .bound = bound}};

}  // namespace
}  // namespace parity
