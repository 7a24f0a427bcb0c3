// Cases of fake_quantize: values, masks and straight-through gradients, bit for bit.
#include "cases/integer_fills.hpp"
#include "cases/quantize_fills.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

using namespace integer_fills;
using quantize_fills::matrix;

Options intx(const char* config) { return {{"chain", "int_fake_quant"}, {"config", config}}; }

const std::vector<Options> kChains = {
    intx("int4_g32_sym"),
    intx("int4_channel_sym"),
    intx("int8_token_asym"),
    intx("uint4_g32_asym"),
    intx("int4_g32_sym_inputscale"),
    intx("cachemask"),
    {{"chain", "int4_weight_fake_quant"}, {"acts", "bf16"}},
    {{"chain", "int4_weight_fake_quant"}, {"acts", "fp8"}},
};
const std::vector<Options> kPairs = {{{"chain", "int_8da4w"}}};

Sizes pair(std::int64_t M, std::int64_t K, std::int64_t N) {
  return {{"M", M, {}}, {"K", K, {}}, {"N", N, {}}};
}

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  if (tensor == "zero_point" && c.options.get("config", "").find("asym") == std::string::npos)
    return "symmetric: every zero point is zero";
  if (tensor == "zero_point" && c.options.get("config", "").starts_with("uint"))
    return "data around zero: the truncated zero point of a group is zero";
  if (tensor == "mask") return "the source's mask is all ones";
  if (tensor == "prepare_equals_convert") return "one flag, always set";
  if (tensor == "grads/x" && trivial == "copy")
    return "inside the range the straight-through gradient is the cotangent";
  if (trivial == "other_seed" && c.dtype == Dtype::BF16 &&
      (tensor.ends_with("scale") || tensor.ends_with("zero_point")))
    return "one number of 8 bits a group: the extremes of two seeds agree now and then";
  return "";
}

constexpr std::string_view kWhyZeros =
    "unsigned groups with the zero point 0 map all that is negative to zero, and mask it";

const Register everything{CaseSet{
    .op = "fake_quantize",
    .what = "Integer fake quantisers on noise",
    .lane = Lane::Smoke,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16},
    .fills = {kNormal},
    .options = kChains,
    .exempt = exempt,
    .zero_share = 0.60,
    .zero_share_why = kWhyZeros,
}};

const Register corners{CaseSet{
    .op = "fake_quantize",
    .what = "Ties, clipped ends, one-sided and zero groups: values and masks bit for bit",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(16, 96)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kCorners},
    .options = kChains,
}};

const Register prepared{CaseSet{
    .op = "fake_quantize",
    .what = "What training prepares is what conversion stores",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {pair(16, 96, 16)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kCorners},
    .options = kPairs,
}};

const Register wide{CaseSet{
    .op = "fake_quantize",
    .what = "Many shapes and seeds",
    .lane = Lane::Long,
    .check = Check::Exact,
    .sizes = {matrix(1, 32), matrix(7, 96), matrix(64, 1024)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kHeavyTail, kTies, kOddTies, kPositive, kNegative, kZeros, kTiny},
    .options = kChains,
    .seeds = {0, 1},
}};

const Register wide_pairs{CaseSet{
    .op = "fake_quantize",
    .what = "Prepared and converted: every fill",
    .lane = Lane::Long,
    .check = Check::Exact,
    .sizes = {pair(4, 64, 16)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kOddTies, kPositive, kNegative, kZeros},
    .options = kPairs,
}};

const Register no_kernel{Explanation{
    .op = "fake_quantize",
    .hole = "no kernel takes this dtype",
    .why =
        "it is eager element-wise code where it is used, held here to torchao's stored bits; "
        "kernels of "
        "the same chains are judged as quantize, and one from elsewhere comes in by run --exec"}};

}  // namespace
}  // namespace parity
