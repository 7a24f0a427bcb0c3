// Cases of the MX chains: block amaxes at the edges where scale modes part, elements on and beside
// midpoints of their format, every scale byte.
#include <algorithm>
#include <cmath>

#include "cases/quantize_fills.hpp"
#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

using namespace quantize_fills;

constexpr std::int64_t kBlock = 32;

// The element format that a case quantises to: chains of one format have their own.
Dtype element_of(const Case& c) {
  const std::string chain = c.options.get("chain", "");
  if (chain.starts_with("mxfp4") ||
      (chain == "mx_compressed_tensors" && !c.options.map().contains("elem")))
    return Dtype::E2M1;
  const std::string elem = c.options.get("elem", "e4m3");
  if (elem == "int8" || elem == "bfloat16") return Dtype::E4M3;
  return parse_dtype(elem);
}

std::int64_t place(const RowDraw& d, std::size_t i) {
  return d.first + static_cast<std::int64_t>(i);
}
std::int64_t block_of(const RowDraw& d, std::size_t i) { return place(d, i) / kBlock; }
// One element of each block, another one from block to block, has the block's amax.
bool is_amax(const RowDraw& d, std::size_t i) {
  return place(d, i) % kBlock == block_of(d, i) * 7 % kBlock;
}
double signed_by(std::int64_t at, double x) { return at / 3 % 2 == 0 ? x : -x; }

// Midpoints between codes under power-of-two scales; `beside`: an ulp to either side of them.
void midpoints(const RowDraw& d, std::span<double> out, bool beside) {
  const Dtype elem = element_of(d.problem);
  const double max = format(elem).max_finite;
  const auto top = static_cast<std::int64_t>(encode(elem, max));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t at = place(d, i);
    const auto code = static_cast<std::uint64_t>((at * 5 + block_of(d, i)) % top);
    double x = (decode(elem, code) + decode(elem, code + 1)) / 2;
    if (beside) x *= at % 2 == 0 ? 1 + ulp(d) : 1 - ulp(d) / 2;
    if (is_amax(d, i)) x = max;
    out[i] = std::ldexp(signed_by(at, x), static_cast<int>(block_of(d, i) % 13) - 6);
  }
}
void draw_ties(const RowDraw& d, std::span<double> out) { midpoints(d, out, false); }
void draw_beside_ties(const RowDraw& d, std::span<double> out) { midpoints(d, out, true); }

// Block amaxes at max 2^k, at a power of two, where EVEN turns, each also an ulp to either side,
// over the exponents of f32.
void draw_scale_edges(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  const Dtype elem = element_of(d.problem);
  const Format& f = format(elem);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i);
    const int turn = elem == Dtype::E4M3 && block % 2 == 0 ? 2 : f.mantissa_bits + 1;
    const double kinds[] = {f.max_finite, 1, 2 - std::ldexp(1.0, -turn)};
    double amax = kinds[block % 3];
    if (block / 3 % 3 == 1) amax *= 1 + ulp(d);
    if (block / 3 % 3 == 2) amax *= 1 - ulp(d) / 2;
    const int exponent = static_cast<int>(block * 29 % 240) - 125 - std::ilogb(amax);
    const double x =
        is_amax(d, i) ? signed_by(block, amax) : std::clamp(out[i] / 4, -1.0, 1.0) * amax / 2;
    out[i] = std::ldexp(x, exponent);
  }
}

// A power of two for every scale byte that FLOOR reaches, fractions of it beside.
void draw_every_byte(const RowDraw& d, std::span<double> out) {
  const Dtype elem = element_of(d.problem);
  const int up = std::ilogb(format(elem).max_finite);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int exponent = std::min(static_cast<int>(block_of(d, i) % 256) - 127 + up, 127);
    const double fraction = static_cast<double>(place(d, i) * 37 % 64) / 64;
    out[i] = std::ldexp(is_amax(d, i) ? 1 : signed_by(place(d, i), fraction), exponent);
  }
}

// Elements from 2^-1 to 2^-70 of their block's amax.
void draw_far_below(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = is_amax(d, i) ? 24
                           : std::ldexp(std::clamp(out[i], -2.0, 2.0),
                                        -static_cast<int>(place(d, i) * 11 % 71));
}

// The largest numbers: an amax that rounds to 2^128.
void draw_largest(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = is_amax(d, i) ? signed_by(block_of(d, i), 0x1.F0p127)
                           : std::ldexp(std::clamp(out[i] / 4, -1.0, 1.0), 126);
}

const Fill kTies{"ties", "x midway between codes, scales powers of two", draw_ties, true};
const Fill kBesideTies{"beside_ties", "x an ulp beside the midpoints", draw_beside_ties, true};
const Fill kScaleEdges{"scale_edges", "amaxes where a scale turns, and an ulp beside",
                       draw_scale_edges, true};
const Fill kEveryByte{"every_byte", "every scale byte, exact elements", draw_every_byte, true};
const Fill kFarBelow{"far_below", "elements far below every code", draw_far_below, true};
const Fill kLargest{"largest", "amax near 2^128", draw_largest, true};
const Fill kCorners{
    "corners", "ties, edges of scales, NaN, infinity, zeros of both signs, a row each",
    in_turn<draw_ties, draw_beside_ties, draw_scale_edges, draw_far_below, draw_largest,
            draw_negative_zeros, draw_nan, draw_infinity, draw_zeros, draw_least, draw_negative>,
    true};
const std::vector<Fill> kAll = {normal(),    heavy_tail(), outlier(),        negative(), kTies,
                                kBesideTies, kScaleEdges,  kFarBelow,        kLargest,   kEveryByte,
                                one_nan(),   one_inf(),    negative_zeros(), zeros(),    least()};

Options mx(const char* elem, const char* mode, bool swizzle = false) {
  Options o{{"chain", "mx_torchao"}, {"elem", elem}, {"mode", mode}, {"dequant", "1"}};
  return swizzle ? with(std::move(o), "swizzle", "1") : o;
}
Options release(const char* elem, const char* mode) {
  return {{"chain", "mx_torchao_018"}, {"elem", elem}, {"mode", mode}, {"dequant", "1"}};
}
Options microxcaling(const char* elem, const char* round) {
  return {{"chain", "mx_microxcaling"}, {"elem", elem}, {"round", round}};
}

const std::vector<Options> kTorchao = {mx("e4m3", "floor"), mx("e4m3", "rceil"), mx("e4m3", "even"),
                                       mx("e5m2", "rceil"), mx("e3m2", "floor"), mx("e2m3", "even"),
                                       mx("e2m1", "ceil"),  mx("e2m1", "rceil")};
const Options kFourOverSix{{"chain", "mxfp4_fouroversix"}, {"dequant", "1"}};
const std::vector<Options> kOthers = {
    release("e4m3", "floor"),
    release("e4m3", "rceil"),
    release("e2m1", "even"),
    release("e5m2", "ceil"),
    {{"chain", "mx_compressed_tensors"}, {"elem", "e2m1"}, {"dequant", "1"}},
    {{"chain", "mx_compressed_tensors"}, {"elem", "e4m3"}, {"dequant", "1"}},
    {{"chain", "mx_compressed_tensors"}, {"elem", "e2m3"}, {"dequant", "1"}},
    {{"chain", "mxfp4_te_pow2"}},
    kFourOverSix,
    {{"chain", "mxfp4_modelopt"}, {"dequant", "1"}},
    {{"chain", "mxfp8_modelopt"}, {"dequant", "1"}},
    microxcaling("e4m3", "nearest"),
    microxcaling("e2m1", "even"),
    microxcaling("int8", "floor"),
    microxcaling("int8", "even"),
    microxcaling("e3m2", "nearest")};

std::vector<Options> every_mode() {
  std::vector<Options> all;
  for (const char* elem : {"e4m3", "e5m2", "e2m3", "e3m2", "e2m1"})
    for (const char* mode : {"floor", "ceil", "even", "rceil"}) all.push_back(mx(elem, mode));
  return all;
}

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const bool scales = tensor.starts_with("scale") || tensor == "decode_scale";
  if (scales && trivial == "other_seed" && c.fill == "outlier")
    return "a few scales of powers of two: two seeds may agree on them";
  if (scales && (trivial == "mean" || trivial == "copy" || trivial == "other_seed"))
    return "one or two powers of two serve nearly every block of normal values";
  return "";
}

constexpr std::string_view kKernels = "quantize.mx_*";
// Chains that no kernel runs: their cases are for the reference and its mutants, and one kernel
// says that it has no such chain.
constexpr std::string_view kNoKernel = "quantize.mx_plain";

const Register everything{noise({
    .what = "torchao's MX on noise, with all of its outputs",
    .sizes = {matrix(4, 128)},
    .options = {mx("e4m3", "rceil"), mx("e2m1", "ceil")},
    .kernels = kKernels,
    .exempt = exempt,
})};

const Register everything_else{noise({
    .what = "The other MX chains on noise",
    .sizes = {matrix(4, 128)},
    .dtypes = {Dtype::BF16},
    .options = kOthers,
    .kernels = kNoKernel,
    .exempt = exempt,
})};

const Register corners{smoke_probes({
    .what = "torchao's MX: ties, edges and corners, bit for bit",
    .sizes = {matrix(11, 512)},
    .fills = {kCorners},
    .options = kTorchao,
    .kernels = kKernels,
})};

const Register other_corners{smoke_probes({
    .what = "The other MX chains: ties, edges and corners, bit for bit",
    .sizes = {matrix(11, 512)},
    .fills = {kCorners},
    .options = joined(kOthers, {microxcaling("bfloat16", "even")}),
    .kernels = kNoKernel,
})};

const Register bytes{smoke_probes({
    .what = "MX: every scale byte, decoded and inverted; 128x4 scales",
    .sizes = {matrix(16, 512)},
    .dtypes = {Dtype::F32},
    .fills = {kEveryByte},
    .options = {mx("e4m3", "floor", true), mx("e2m1", "rceil", true)},
    .kernels = kKernels,
})};

const Register other_bytes{smoke_probes({
    .what = "The other MX chains: every scale byte",
    .sizes = {matrix(16, 512)},
    .dtypes = {Dtype::F32},
    .fills = {kEveryByte},
    .options = {release("e4m3", "floor"), release("e4m3", "rceil"), kFourOverSix},
    .kernels = kNoKernel,
})};

const Register shapes{smoke_probes({
    .what = "MX: rows and columns of 128x4 tiles",
    .sizes = {matrix(130, 160)},
    .dtypes = {Dtype::BF16},
    .fills = {heavy_tail()},
    .options = {mx("e2m1", "floor", true)},
    .kernels = kKernels,
})};

const Register wide{long_probes({
    .what = "MX: every format and mode, every fill",
    .sizes = {matrix(33, 96)},
    .fills = kAll,
    .options = every_mode(),
    .kernels = kKernels,
})};

const Register many_shapes{long_probes({
    .what = "MX: every format and mode, short and ragged matrices",
    .sizes = {matrix(1, 32), matrix(129, 224)},
    .fills = {heavy_tail(), kScaleEdges},
    .options = every_mode(),
    .kernels = kKernels,
})};

const Register wide_others{long_probes({
    .what = "The other MX chains: every fill",
    .sizes = {matrix(16, 512)},
    .fills = kAll,
    .options = joined(kOthers, {microxcaling("bfloat16", "even")}),
    .kernels = kNoKernel,
})};

const Register forward_only{Explanation{
    .op = "quantize",
    .direction = "backward",
    .kernel = "quantize.mx_*",
    .hole = "the kernel has no backward",
    .why = "fake quantisation to MX is straight through: the gradient is the cotangent itself"}};

}  // namespace
}  // namespace parity
