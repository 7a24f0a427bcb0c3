// Cases of quantize: the integer chains.
#include "cases/integer_fills.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

using namespace integer_fills;

Options affine(const char* mapping, const char* qmin, const char* qmax, const char* block) {
  return {{"chain", "int_affine"}, {"mapping", mapping}, {"qmin", qmin},
          {"qmax", qmax},          {"block", block},     {"dequant", "1"}};
}

Options in_pairs(Options options) {
  options.set("packed", "1");
  return options;
}

Options with_f32_scales(Options options) {
  options.set("scale", "f32");
  return options;
}

const std::vector<Options> kChains = {
    affine("symmetric", "-128", "127", "1x0"),
    in_pairs(affine("symmetric", "-8", "7", "1x32")),
    with_f32_scales(affine("symmetric", "-8", "7", "1x32")),
    affine("symmetric", "-8", "7", "0x0"),
    affine("no_clipping", "-8", "7", "1x32"),
    affine("asymmetric", "-128", "127", "1x0"),
    with_f32_scales(affine("asymmetric", "-8", "7", "1x32")),
    {{"chain", "int_tinygemm"}, {"block", "1x32"}, {"dequant", "1"}},
    {{"chain", "int8_rowwise"}},
};

Sizes matrix(std::int64_t M, std::int64_t K) { return {{"M", M, {}}, {"K", K, {}}}; }

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const std::string mapping = c.options.get("mapping", "");
  if (tensor == "zero_point" && (mapping == "symmetric" || mapping == "no_clipping"))
    return "symmetric: every zero point is zero";
  if (trivial == "other_seed" && (tensor == "scale" || tensor == "zero_point") &&
      (c.dtype == Dtype::BF16 || c.options.get("block", "") == "0x0"))
    return "one number of 8 bits a group: the extremes of two seeds agree now and then";
  return "";
}

const Register everything{CaseSet{
    .op = "quantize",
    .what = "Integer chains on noise",
    .lane = Lane::Smoke,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal},
    .options = kChains,
    .exempt = exempt,
}};

const Register probes{CaseSet{
    .op = "quantize",
    .what = "Integer chains at ties, one-sided groups, zero groups and lower bounds, bit for bit",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kTies, kOddTies, kPositive, kNegative, kZeros, kTiny, kAlternating},
    .options = kChains,
}};

const Register scales{CaseSet{
    .op = "quantize",
    .what = "Ties under the scales of many rows: where x/s and x (1/s) part",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(24, 96)},
    .dtypes = {Dtype::F32},
    .fills = {kOddTies},
    .options = {{{"chain", "int8_rowwise"}}},
}};

const Register shapes{CaseSet{
    .op = "quantize",
    .what = "Integer chains over many shapes and seeds",
    .lane = Lane::Long,
    .check = Check::Exact,
    .sizes = {matrix(1, 32), matrix(7, 96), matrix(33, 160), matrix(128, 2048)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kHeavyTail, kOddTies, kNegative},
    .options = kChains,
    .seeds = {0, 1},
}};

const Register no_gradient{Explanation{
    .op = "quantize",
    .direction = "backward",
    .kernel = "quantize.int_*",
    .hole = "the kernel has no backward",
    .why = "codes have no gradient; that of fake quantisation belongs to the op fake_quantize"}};

}  // namespace
}  // namespace parity
