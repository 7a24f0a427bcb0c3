// Cases of the block-scaled GEMM kernels of Blackwell (kernels/blackwell), on a device or emulated:
// the bits of the matrix unit, over what tiles, stages, swizzles and scale layouts can get wrong.
#include "cases/gemm_fills.hpp"
#include "harness/registry.hpp"

namespace parity::gemm_cases {
namespace {

using enum Dtype;

Sizes sizes(std::int64_t M, std::int64_t N, std::int64_t K) {
  return {{"M", M, {}}, {"N", N, {}}, {"K", K, {}}};
}

CaseSet bits_of(const char* what, const char* kernels, std::vector<Sizes> sizes,
                std::vector<Dtype> dtypes, std::vector<Fill> fills, std::vector<Options> options) {
  return {.op = "gemm",
          .what = what,
          .lane = Lane::Smoke,
          .sizes = std::move(sizes),
          .dtypes = std::move(dtypes),
          .fills = std::move(fills),
          .options = std::move(options),
          .kernels = kernels,
          .zero_share = 0.95,
          .zero_share_why =
              "products below a subnormal vanish, and rows of -0 are there for what "
              "becomes of them"};
}

// Four stages of K and a part of a fifth (the three that a kernel has come around again), a part of
// a step, and tiles with a tail of rows and of columns.
const std::vector<Sizes> kFp4 = {sizes(5, 19, 1088), sizes(131, 13, 320), sizes(3, 133, 192)};
const std::vector<Sizes> kFp8 = {sizes(5, 19, 544), sizes(131, 13, 160), sizes(3, 133, 96)};
const std::vector<Fill> kFills = {kCancellation, kAccumulator, kSpecials};

Options of(const char* bits, const char* scale, const char* c, const char* w) {
  Options o{{"bits", bits}, {"scale", scale}};
  if (*c != 0) o.set("c", c);
  if (*w != 0) o.set("w", w);
  return o;
}

constexpr const char* kTensorFp4 = "sm_100.tcgen05.mxf4nvf4";
constexpr const char* kTensorFp8 = "sm_100.tcgen05.mxf8f6f4";
constexpr const char* kWarpFp4 = "sm_120.mma.mxf4nvf4";
constexpr const char* kWarpFp8 = "sm_120.mma.mxf8f6f4";

const Register tensor_fp4{bits_of("Bits of tcgen05 NVFP4 kernels", "gemm.sm100_nvfp4_*", kFp4,
                                  {E2M1}, kFills, {of(kTensorFp4, "nvfp4", "1", "")})};
const Register tensor_fp8{bits_of("Bits of tcgen05 MXFP8 kernels", "gemm.sm100_mxfp8_*", kFp8,
                                  {E4M3, E5M2}, kFills, {of(kTensorFp8, "mx", "1", "e5m2")})};
const Register warp_fp4{bits_of("Bits of mma.sync NVFP4 kernels", "gemm.sm120_nvfp4_*", kFp4,
                                {E2M1}, kFills, {of(kWarpFp4, "nvfp4", "1", "")})};
const Register warp_fp8{bits_of("Bits of mma.sync MXFP8 kernels", "gemm.sm120_mxfp8_*", kFp8,
                                {E4M3, E5M2}, kFills, {of(kWarpFp8, "mx", "1", "e5m2")})};

}  // namespace
}  // namespace parity::gemm_cases
