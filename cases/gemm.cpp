// Cases of gemm: real products under their bound, exact probes, and the bits of matrix units.
#include <deque>
#include <string>

#include "cases/gemm_fills.hpp"
#include "harness/registry.hpp"

namespace parity::gemm_cases {
namespace {

using enum Dtype;

Sizes sizes(std::int64_t M, std::int64_t N, std::int64_t K) {
  return {{"M", M, {}}, {"N", N, {}}, {"K", K, {}}};
}
Sizes with(Sizes s, const char* letter, std::int64_t extent) {
  s.set({letter, extent, {}});
  return s;
}

// ---- real products

const Register plain{CaseSet{
    .op = "gemm",
    .what = "Products",
    .lane = Lane::Smoke,
    .sizes = {sizes(12, 20, 256), sizes(7, 17, 93)},  // 93: a tail of every instruction
    .dtypes = {F32, BF16, F16},
    .fills = {kNormal},
    .options = {{{"out", "bf16"}}},
}};

const Register several{CaseSet{
    .op = "gemm",
    .what = "Groups and tiles",
    .lane = Lane::Smoke,
    .sizes = {with(sizes(33, 12, 64), "G", 4), with(sizes(8, 16, 48), "T", 3)},
    .dtypes = {BF16},
    .fills = {kNormal},
}};

const Register fp8{CaseSet{
    .op = "gemm",
    .what = "FP8 with its scales",
    .lane = Lane::Smoke,
    .sizes = {sizes(12, 20, 256)},
    .dtypes = {E4M3, E5M2},
    .fills = {kNormal},
    .options = {{{"scale", "row"}, {"out", "bf16"}},
                {{"scale", "row"}, {"alpha", "1"}, {"w", "e5m2"}},
                {{"scale", "tensor"}, {"result_scale", "1"}, {"out", "e4m3"}}},
}};

const Register blocks{CaseSet{
    .op = "gemm",
    .what = "MX operands",
    .lane = Lane::Smoke,
    .sizes = {sizes(12, 20, 192)},
    .dtypes = {E4M3, E5M2, E3M2, E2M3, E2M1},
    .fills = {kNormal},
    .options = {{{"scale", "mx"}, {"alpha", "1"}}},
}};

const Register nvfp4{CaseSet{
    .op = "gemm",
    .what = "NVFP4 operands",
    .lane = Lane::Smoke,
    .sizes = {sizes(12, 20, 192)},
    .dtypes = {E2M1},
    .fills = {kNormal},
    .options = {{{"scale", "nvfp4"}, {"alpha", "1"}}},
}};

const Register longer{CaseSet{
    .op = "gemm",
    .what = "Longer sums",
    .lane = Lane::Full,
    .sizes = {sizes(8, 12, 2048)},
    .dtypes = {F32, BF16},
    .fills = {kNormal, kWide},
    .options = {{}, {{"scale", "row"}, {"out", "bf16"}}},
}};

// At greater K the bound of an accumulator of 10 or 13 bits is more than the sum.
const Register narrow{CaseSet{
    .op = "gemm",
    .what = "Sums in accumulators of few bits",
    .lane = Lane::Full,
    .sizes = {sizes(16, 24, 128)},
    .dtypes = {F16, E4M3, E5M2},
    .fills = {kNormal},
    .options = {{}, {{"scale", "row"}, {"out", "bf16"}}},
    .seeds = {0, 1},
}};

// ---- exact probes

const Register exact{CaseSet{
    .op = "gemm",
    .what = "Small integers, scales that are powers of two",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(12, 20, 256), with(sizes(33, 12, 64), "G", 4)},
    .dtypes = {F32, BF16, F16, E4M3, E5M2, E2M1},
    .fills = {kIntegers},
    .options = {{{"c", "1"}, {"alpha", "1"}, {"result_scale", "1"}}},
}};

const Register exact_scales{CaseSet{
    .op = "gemm",
    .what = "Small integers under scales of rows",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(12, 20, 256)},
    .dtypes = {E4M3},
    .fills = {kIntegers},
    .options = {{{"scale", "row"}, {"alpha", "1"}, {"result_scale", "1"}}, {{"scale", "tensor"}}},
}};

const Register exact_nvfp4{CaseSet{
    .op = "gemm",
    .what = "Small integers under block scales of e4m3",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(12, 20, 256)},
    .dtypes = {E2M1},
    .fills = {kIntegers},
    .options = {{{"scale", "nvfp4"}, {"alpha", "1"}}},
}};

const Register exact_mx{CaseSet{
    .op = "gemm",
    .what = "Small integers under block scales of e8m0",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(12, 20, 256)},
    .dtypes = {E4M3, E5M2, E3M2, E2M3, E2M1},
    .fills = {kIntegers},
    .options = {{{"scale", "mx"}, {"alpha", "1"}}},
}};

const Register equal_anyway{
    Explanation{.op = "gemm",
                .kernel = "gemm.emulated.*",
                .why = "every case of theirs has bits=<schedule>, and demands equality already"}};

// ---- the bits of matrix units

// A kernel of a GPU that promises such bits gets them by a set of its own.
struct Promise {
  const char* schedule;
  const char* of;
  std::vector<Dtype> dtypes;
  std::vector<Options> options = {};  // beside bits
};

// The first type of a promise meets every fill that shows how terms are aligned and where a format
// ends; the others the one that shows most. The long lane has all.
std::vector<Register> sets(const std::vector<Promise>& promises) {
  static std::deque<std::string> names;  // case sets point into it
  std::vector<Register> registered;
  for (const Promise& promise : promises) {
    const std::string& kernel =
        names.emplace_back(std::string("gemm.emulated.") + promise.schedule);
    CaseSet set{.op = "gemm",
                .sizes = {sizes(6, 21, 320)},
                .options = promise.options,
                .kernels = kernel,
                .zero_share = 0.95,
                .zero_share_why =
                    "products below a subnormal vanish, and rows of -0 are there "
                    "for what becomes of them"};
    for (Options& o : set.options) o.set("bits", promise.schedule);
    const auto add = [&](Lane lane, const char* which, std::vector<Dtype> dtypes,
                         std::vector<Fill> fills) {
      set.what = names.emplace_back(std::string("Bits of ") + promise.schedule + ", " + promise.of +
                                    which);
      set.lane = lane;
      set.dtypes = std::move(dtypes);
      set.fills = std::move(fills);
      registered.emplace_back(set);
    };
    add(Lane::Smoke, "", {promise.dtypes.front()}, {kEdges, kAccumulator, kZeros, kSpecials});
    if (promise.dtypes.size() > 1) add(Lane::Smoke, ": where they end", promise.dtypes, {kEdges});
    add(Lane::Long, ": every fill", promise.dtypes,
        {kCancellation, kWide, kEdges, kAccumulator, kSubnormals, kZeros, kSpecials});
  }
  return registered;
}

const std::vector<Register> bits = sets({
    {"sm_90.wgmma", "16 bits", {BF16, F16}, {{{"c", "1"}}}},
    {"sm_90.wgmma", "tf32", {F32}, {{{"c", "1"}}}},
    {"sm_90.wgmma", "fp8", {E4M3, E5M2}, {{{"c", "1"}}, {{"c", "1"}, {"w", "e5m2"}}}},
    {"sm_90.wgmma.f16", "fp8 and f16", {F16, E4M3}, {{{"c", "1"}, {"out", "f16"}}}},
    {"sm_90.wgmma.slice128", "fp8 promoted to f32", {E4M3, E5M2}, {{}}},
    {"sm_90.mma", "16 bits and fp8", {BF16, F16, E4M3, E5M2}, {{{"c", "1"}}}},
    {"sm_90.mma.k8.nearest.slice64", "rounded tf32, split K", {F32}, {{}}},
    {"sm_80.mma", "16 bits and tf32", {BF16, F16, F32}, {{{"c", "1"}}}},
    {"sm_89.mma", "fp8", {E4M3, E5M2}, {{{"c", "1"}}}},
    {"sm_100.tcgen05", "16 bits and tf32", {BF16, F16, F32}, {{{"c", "1"}}}},
    {"sm_100.tcgen05", "8, 6 and 4 bits", {E4M3, E5M2, E3M2, E2M3, E2M1}, {{{"c", "1"}}}},
    {"sm_100.tcgen05.mxf8f6f4",
     "e8m0 scales",
     {E4M3, E5M2, E3M2, E2M3, E2M1},
     {{{"scale", "mx"}, {"c", "1"}}}},
    {"sm_100.tcgen05.mxf4", "e8m0 scales", {E2M1}, {{{"scale", "mx"}, {"c", "1"}}}},
    {"sm_100.tcgen05.mxf4nvf4", "e4m3 scales", {E2M1}, {{{"scale", "nvfp4"}, {"c", "1"}}}},
    {"sm_120.mma", "6 bits", {E3M2, E2M3}, {{{"c", "1"}}}},
    {"sm_120.mma.mxf4nvf4", "e4m3 scales", {E2M1}, {{{"scale", "nvfp4"}}}},
});

}  // namespace
}  // namespace parity::gemm_cases
