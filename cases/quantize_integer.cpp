// Cases of quantize: the integer chains and NF4.
#include <cmath>

#include "cases/integer_fills.hpp"
#include "cases/quantize_fills.hpp"
#include "harness/kernel.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

using namespace integer_fills;
using quantize_fills::long_probes;
using quantize_fills::matrix;
using quantize_fills::noise;
using quantize_fills::smoke_probes;
using quantize_fills::with;

Options affine(const char* mapping, const char* qmin, const char* qmax, const char* block) {
  return {{"chain", "int_affine"}, {"mapping", mapping}, {"qmin", qmin},
          {"qmax", qmax},          {"block", block},     {"dequant", "1"}};
}

Options in_pairs(Options options) { return with(std::move(options), "packed", "1"); }
Options with_f32_scales(Options options) { return with(std::move(options), "scale", "f32"); }

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

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const std::string mapping = c.options.get("mapping", "");
  if (tensor == "zero_point" && (mapping == "symmetric" || mapping == "no_clipping"))
    return "symmetric: every zero point is zero";
  if (trivial == "other_seed" && (tensor == "scale" || tensor == "zero_point") &&
      (c.dtype == Dtype::BF16 || c.options.get("block", "") == "0x0"))
    return "one number of 8 bits a group: the extremes of two seeds agree now and then";
  return "";
}

const Register everything{noise({
    .what = "Integer chains on noise",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16},
    .options = kChains,
    .exempt = exempt,
})};

const Register wide_noise{noise({
    .what = "Integer chains on noise in f32",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32},
    .options = {kChains[0], kChains[1], kChains[5]},
    .exempt = exempt,
})};

const Register corners{smoke_probes({
    .what = "Integer chains at ties, one-sided groups, zero groups and lower bounds, bit for bit",
    .sizes = {matrix(16, 96)},
    .fills = {kCorners},
    .options = kChains,
})};

// Table entries times a power of two, midpoints of them, an amax in every block.
void draw_quantiles(const RowDraw& d, std::span<double> out) {
  constexpr double kTorchao[] = {-1,     -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0,
                                 0.0796, 0.1609,  0.2461,  0.3379,  0.4407,  0.5626,  0.7230,  1};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t k = (i * 7 + static_cast<std::size_t>(d.row)) % 15;
    const double x = i % 3 == 0 ? kTorchao[k] : (kTorchao[k] + kTorchao[k + 1]) / 2;
    const auto block = static_cast<int>(i / 64 + static_cast<std::size_t>(d.row));
    out[i] = std::ldexp(i % 64 == 5 ? 1 : x, block % 5);
    if (d.row % 2 == 1) out[i] *= 3;  // where x / amax and x (1 / amax) part
  }
}
const Fill kQuantiles{"quantiles", "x on and between the entries of NF4", draw_quantiles, true};

const std::vector<Options> kNf4 = {
    {{"chain", "nf4"}, {"table", "torchao"}},
    {{"chain", "nf4"}, {"scaler_block", "0"}},
    {{"chain", "nf4"}, {"table", "torchao"}, {"block", "32"}, {"scaler_block", "128"}}};

const Register nf4{smoke_probes({
    .what = "NF4: entries of its table, what lies between them, amaxes quantised again",
    .sizes = {matrix(64, 256)},
    .fills = {kNormal, kQuantiles},
    .options = kNf4,
    .kernels = "quantize.int_plain",
})};

const Register wide{long_probes({
    .what = "Integer chains: every fill",
    .sizes = {matrix(4, 64)},
    .fills = {kNormal, kTies, kOddTies, kPositive, kNegative, kZeros, kTiny, kAlternating},
    .options = kChains,
})};

const Register shapes{long_probes({
    .what = "Integer chains over many shapes",
    .sizes = {matrix(1, 32), matrix(7, 96), matrix(33, 160), matrix(128, 2048)},
    .fills = {kHeavyTail, kOddTies},
    .options = kChains,
})};

const Register no_gradient{Explanation{
    .op = "quantize",
    .direction = "backward",
    .kernel = "quantize.int_*",
    .hole = "the kernel has no backward",
    .why = "codes have no gradient; that of fake quantisation belongs to the op fake_quantize"}};

}  // namespace
}  // namespace parity
