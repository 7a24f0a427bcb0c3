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

using quantize_fills::draw_normal;
using quantize_fills::ulp;

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

Options mx(const char* elem, const char* mode, bool swizzle = false) {
  Options o{{"chain", "mx_torchao"}, {"elem", elem}, {"mode", mode}, {"dequant", "1"}};
  if (swizzle) o.set("swizzle", "1");
  return o;
}
Options release(const char* elem, const char* mode) {
  return {{"chain", "mx_torchao_018"}, {"elem", elem}, {"mode", mode}, {"dequant", "1"}};
}
Options microxcaling(const char* elem, const char* round) {
  return {{"chain", "mx_microxcaling"}, {"elem", elem}, {"round", round}};
}

const std::vector<Options> kTorchao = {mx("e4m3", "floor"), mx("e4m3", "rceil"), mx("e4m3", "even"),
                                       mx("e5m2", "rceil"), mx("e3m2", "floor"), mx("e2m1", "ceil"),
                                       mx("e2m1", "rceil")};
const std::vector<Options> kRelease = {release("e4m3", "floor"), release("e4m3", "rceil"),
                                       release("e2m1", "even"), release("e5m2", "ceil")};
const std::vector<Options> kOthers = {
    {{"chain", "mx_compressed_tensors"}, {"elem", "e2m1"}, {"dequant", "1"}},
    {{"chain", "mx_compressed_tensors"}, {"elem", "e4m3"}, {"dequant", "1"}},
    {{"chain", "mx_compressed_tensors"}, {"elem", "e2m3"}, {"dequant", "1"}},
    {{"chain", "mxfp4_te_pow2"}},
    {{"chain", "mxfp4_fouroversix"}, {"dequant", "1"}},
    {{"chain", "mxfp4_modelopt"}, {"dequant", "1"}},
    {{"chain", "mxfp8_modelopt"}, {"dequant", "1"}}};
const std::vector<Options> kMicroxcaling = {
    microxcaling("e4m3", "nearest"), microxcaling("e2m1", "even"), microxcaling("int8", "floor"),
    microxcaling("int8", "even"), microxcaling("e3m2", "nearest")};

std::vector<Options> joined(std::vector<Options> a, const std::vector<Options>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Sizes matrix(std::int64_t M, std::int64_t K) { return {{"M", M, {}}, {"K", K, {}}}; }

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const bool scales = tensor.starts_with("scale") || tensor == "decode_scale";
  if (scales && trivial == "other_seed" && c.fill == "outlier")
    return "a few scales of powers of two: two seeds may agree on them";
  if (scales && (trivial == "mean" || trivial == "copy" || trivial == "other_seed"))
    return "one or two powers of two serve nearly every block of normal values";
  return "";
}

const std::vector<Fill> kNoise = {quantize_fills::normal(), quantize_fills::negative()};
const std::vector<Fill> kProbes = {kTies,
                                   kBesideTies,
                                   kScaleEdges,
                                   kFarBelow,
                                   kLargest,
                                   quantize_fills::negative_zeros(),
                                   quantize_fills::one_nan(),
                                   quantize_fills::one_inf(),
                                   quantize_fills::zeros(),
                                   quantize_fills::least()};
constexpr std::string_view kKernels = "quantize.mx_*";
// Chains that no kernel runs: their cases are for the reference and its mutants, and one kernel
// says that it has no such chain.
constexpr std::string_view kNoKernel = "quantize.mx_plain";

const Register everything{CaseSet{
    .op = "quantize",
    .what = "torchao's MX on noise, with all of its outputs",
    .lane = Lane::Smoke,
    .sizes = {matrix(4, 128)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = kNoise,
    .options = kTorchao,
    .kernels = kKernels,
    .exempt = exempt,
}};

const Register everything_else{CaseSet{
    .op = "quantize",
    .what = "The other MX chains on noise",
    .lane = Lane::Smoke,
    .sizes = {matrix(4, 128)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = kNoise,
    .options = joined(kRelease, joined(kOthers, kMicroxcaling)),
    .kernels = kNoKernel,
    .exempt = exempt,
}};

const Register probes{CaseSet{
    .op = "quantize",
    .what = "torchao's MX: ties, edges and corners, bit for bit",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(3, 192)},
    .dtypes = {Dtype::F32},
    .fills = kProbes,
    .options = kTorchao,
    .kernels = kKernels,
}};

const Register narrow_probes{CaseSet{
    .op = "quantize",
    .what = "torchao's MX of bf16: ties, edges and corners",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(3, 192)},
    .dtypes = {Dtype::BF16},
    .fills = {kTies, kScaleEdges, quantize_fills::one_nan(), quantize_fills::least()},
    .options = {mx("e4m3", "rceil"), mx("e2m1", "ceil"), mx("e2m3", "even")},
    .kernels = kKernels,
}};

const Register other_probes{CaseSet{
    .op = "quantize",
    .what = "The other MX chains: ties, edges and corners, bit for bit",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(3, 192)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = kProbes,
    .options = joined(kRelease, kOthers),
    .kernels = kNoKernel,
}};

const Register values_only{CaseSet{
    .op = "quantize",
    .what = "microxcaling: ties and edges; log2 of bf16",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(3, 192)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kTies, kBesideTies, kScaleEdges, quantize_fills::one_nan(), quantize_fills::one_inf(),
              quantize_fills::least()},
    .options = joined(kMicroxcaling, {microxcaling("bfloat16", "even")}),
    .kernels = kNoKernel,
}};

const Register bytes{CaseSet{
    .op = "quantize",
    .what = "MX: every scale byte, decoded and inverted; 128x4 scales",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(16, 512)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kEveryByte},
    .options = {mx("e4m3", "floor", true),
                mx("e2m1", "rceil", true),
                release("e4m3", "floor"),
                {{"chain", "mxfp4_fouroversix"}, {"dequant", "1"}}},
}};

const Register release_bytes{CaseSet{
    .op = "quantize",
    .what = "torchao 0.18.0 MX: every scale byte",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(16, 512)},
    .dtypes = {Dtype::F32},
    .fills = {kEveryByte},
    .options = {release("e4m3", "floor"), release("e4m3", "rceil")},
    .kernels = kNoKernel,
}};

const Register shapes{CaseSet{
    .op = "quantize",
    .what = "MX: rows and columns of 128x4 tiles, blocks of other lengths",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(130, 160), matrix(33, 96)},
    .dtypes = {Dtype::BF16},
    .fills = {quantize_fills::heavy_tail()},
    .options = {mx("e4m3", "rceil", true), mx("e2m1", "floor", true)},
    .kernels = kKernels,
}};

const Register wide{CaseSet{
    .op = "quantize",
    .what = "MX: every format and mode, many seeds and shapes",
    .lane = Lane::Long,
    .check = Check::Exact,
    .sizes = {matrix(1, 32), matrix(129, 224)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), quantize_fills::heavy_tail(), quantize_fills::outlier(),
              kScaleEdges, kTies, kBesideTies, quantize_fills::least()},
    .options = {mx("e4m3", "floor"), mx("e4m3", "ceil"), mx("e4m3", "even"), mx("e4m3", "rceil"),
                mx("e5m2", "floor"), mx("e5m2", "ceil"), mx("e5m2", "even"), mx("e5m2", "rceil"),
                mx("e2m3", "floor"), mx("e2m3", "ceil"), mx("e2m3", "even"), mx("e2m3", "rceil"),
                mx("e3m2", "floor"), mx("e3m2", "ceil"), mx("e3m2", "even"), mx("e3m2", "rceil"),
                mx("e2m1", "floor"), mx("e2m1", "ceil"), mx("e2m1", "even"), mx("e2m1", "rceil")},
    .kernels = kKernels,
}};

const Register forward_only{Explanation{
    .op = "quantize",
    .direction = "backward",
    .kernel = "quantize.mx_*",
    .hole = "the kernel has no backward",
    .why = "fake quantisation to MX is straight through: the gradient is the cotangent itself"}};

}  // namespace
}  // namespace parity
