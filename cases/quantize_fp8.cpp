// Cases of the FP8 chains: scales of tensors, rows, columns and tiles at the corners of their
// amaxes, elements on and beside the midpoints of e4m3 and e5m2.
#include <algorithm>
#include <cmath>

#include "cases/quantize_fills.hpp"
#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

using namespace quantize_fills;

// The delayed chain's state: amaxes of earlier steps, and the scale that they gave.
bool is_state(const RowDraw& d, std::span<double> out) {
  if (d.spec.name == "scale") {
    out[0] = 37.5;
    return true;
  }
  if (d.spec.name != "history") return false;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1.5 + static_cast<double>(i * 5 % 7);
  return true;
}

Dtype element_of(const Case& c) {
  return c.options.get("elem", "e4m3") == "e5m2" ? Dtype::E5M2 : Dtype::E4M3;
}

std::int64_t place(const RowDraw& d, std::size_t i) {
  return d.first + static_cast<std::int64_t>(i);
}

void draw_noise(const RowDraw& d, std::span<double> out) {
  if (!is_state(d, out)) draw_normal(d, out);
}

// Rows of sizes far apart: a scale of the wrong row or axis shows.
void draw_uneven(const RowDraw& d, std::span<double> out) {
  if (is_state(d, out)) return;
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::ldexp(out[i], static_cast<int>(d.row % 5) * 3 - static_cast<int>(i % 3));
}

// An amax of max exactly: the scale is 1 (in chains that divide by the amax), and elements lie on
// the midpoints of the format, or an ulp beside.
void midpoints(const RowDraw& d, std::span<double> out, bool beside, double size = 1) {
  if (is_state(d, out)) return;
  if (d.spec.role == Role::Cotangent) return draw_normal(d, out);
  const Dtype elem = element_of(d.problem);
  const double max = format(elem).max_finite;
  const auto top = static_cast<std::int64_t>(encode(elem, max));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t at = place(d, i);
    const auto code = static_cast<std::uint64_t>(at * 5 % top);
    double x = (decode(elem, code) + decode(elem, code + 1)) / 2;
    if (beside) x *= at % 2 == 0 ? 1 + ulp(d) : 1 - ulp(d) / 2;
    out[i] = (at / 3 % 2 == 0 ? x : -x) * size;
  }
  out[d.row % 2 == 0 ? 0 : out.size() - 1] = max * size;
}
void draw_ties(const RowDraw& d, std::span<double> out) { midpoints(d, out, false); }
void draw_beside_ties(const RowDraw& d, std::span<double> out) { midpoints(d, out, true); }
// The quotient by 3 is a midpoint exactly, the product with its reciprocal is not.
void draw_thirds(const RowDraw& d, std::span<double> out) { midpoints(d, out, false, 3); }

void draw_nothing(const RowDraw& d, std::span<double> out) {
  if (!is_state(d, out)) std::ranges::fill(out, 0.0);
}

// Rows that are zero, tiny, at the floor 1e-12, and ordinary.
void draw_floors(const RowDraw& d, std::span<double> out) {
  if (is_state(d, out)) return;
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  const double size[] = {0, 1e-13, 1e-12, 1, 1e-39};
  const double row = size[d.row % 5];
  for (double& x : out) x = std::clamp(x, -3.0, 3.0) / 3 * row;
  out[out.size() / 2] = row;
}

// Numbers of thousands, a NaN among those of row 1: a cast without saturation gives NaN beyond 464.
void draw_large(const RowDraw& d, std::span<double> out) {
  if (is_state(d, out)) return;
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 4096;
  if (d.row == 1) out[3] = std::nan("");
}

void draw_far_below(const RowDraw& d, std::span<double> out) {
  if (is_state(d, out)) return;
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = i == 0 ? 24
                    : std::ldexp(std::clamp(out[i], -2.0, 2.0),
                                 -static_cast<int>(place(d, i) * 11 % 71));
}

const Fill kNoise{"normal", "the usual case", draw_noise};
const Fill kUneven{"uneven", "rows and columns of sizes far apart", draw_uneven};
const Fill kTies{"ties", "x midway between codes under a scale of 1", draw_ties, true};
const Fill kBesideTies{"beside_ties", "x an ulp beside the midpoints", draw_beside_ties, true};
const Fill kThirds{"thirds", "midpoints times 3: division tells them", draw_thirds, true};
const Fill kNothing{"nothing", "amax 0 after steps that were not", draw_nothing, true};
const Fill kFloors{"floors", "rows of zeros and about the least amax", draw_floors, true};
const Fill kNanBesideLarge{"nan_beside_large", "unsaturated casts beside a NaN amax", draw_large,
                           true};
const Fill kFarBelow{"far_below", "elements far below every code", draw_far_below, true};
const Fill kCorners{"corners", "ties, floors, NaN, infinity, zeros of both signs, a row each",
                    in_turn<draw_ties, draw_large, draw_beside_ties, draw_thirds, draw_far_below,
                            draw_floors, draw_floors, draw_floors, draw_floors, draw_floors,
                            draw_nan, draw_infinity, draw_negative_zeros, draw_least>,
                    true};
const Fill kGrid{"grid", "ties, and what lies beside or far below, under one scale of 1",
                 in_turn<draw_ties, draw_beside_ties, draw_far_below, draw_negative_zeros>, true};
const std::vector<Fill> kOneScale = {kGrid, kThirds, kFloors, kNanBesideLarge, zeros(), least()};
const std::vector<Fill> kAll = {
    kNoise,          kUneven,   kTies,    kBesideTies,      kThirds,      kFloors,
    kNanBesideLarge, kFarBelow, kNothing, negative(),       heavy_tail(), outlier(),
    one_nan(),       one_inf(), zeros(),  negative_zeros(), least()};

Options torchao(const char* elem, const char* granularity, bool pow2 = false) {
  Options o{
      {"chain", "fp8_torchao"}, {"elem", elem}, {"granularity", granularity}, {"dequant", "1"}};
  return pow2 ? with(std::move(o), "pow2", "1") : o;
}
Options blockwise(const char* function) {
  return {{"chain", "fp8_torchao_blockwise"}, {"function", function}};
}

const Options kTensor = torchao("e4m3", "tensor");
const std::vector<Options> kTorchao = {kTensor,
                                       torchao("e4m3", "row"),
                                       torchao("e4m3", "column"),
                                       torchao("e4m3", "row", true),
                                       torchao("e5m2", "tensor"),
                                       torchao("e5m2", "row", true)};
const std::vector<Options> kRows = {{{"chain", "fp8_torchao_affine"}, {"granularity", "row"}},
                                    {{"chain", "fp8_modelopt_fake"}, {"granularity", "row"}}};
const std::vector<Options> kTensors = {
    {{"chain", "fp8_torchao_affine"}, {"granularity", "tensor"}, {"lb", "1e-12"}},
    {{"chain", "fp8_te_current_scaling"}, {"transpose", "1"}},
    {{"chain", "fp8_te_current_scaling"}, {"elem", "e5m2"}, {"pow2", "1"}},
    {{"chain", "fp8_te_current_scaling"}, {"pow2", "1"}, {"eps", "1e-6"}},
    {{"chain", "fp8_modelopt_fake"}, {"granularity", "tensor"}}};
const std::vector<Options> kDelayed = {
    {{"chain", "fp8_te_delayed"}, {"margin", "1"}},
    {{"chain", "fp8_te_delayed"}, {"algo", "most_recent"}, {"elem", "e5m2"}}};
const std::vector<Options> kOthers = joined(kRows, joined(kTensors, kDelayed));

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const bool few = tensor.starts_with("scale") || tensor.starts_with("amax") ||
                   tensor == "inverse_scale" || tensor == "history_next";
  if (few && (trivial == "mean" || trivial == "copy")) return "one scale, or a few powers of two";
  if (trivial == "other_seed" && few &&
      (c.options.flag("pow2") || c.dtype == Dtype::BF16 || tensor != "scale_next"))
    return "scales of powers of two, or given with the case: two seeds may agree";
  return "";
}

constexpr std::string_view kKernels = "quantize.fp8_*";
// Chains that no kernel runs: their cases are for the reference and its mutants, and one kernel
// says that it has no such chain.
constexpr std::string_view kNoKernel = "quantize.fp8_plain";

const Register everything{noise({
    .what = "torchao's dynamic FP8 on noise, with all of its outputs",
    .sizes = {matrix(4, 64)},
    .fills = {kUneven},
    .options = {kTensor, torchao("e4m3", "column"), torchao("e5m2", "row", true)},
    .kernels = kKernels,
    .exempt = exempt,
})};

const Register everything_else{noise({
    .what = "The other FP8 chains on noise",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16},
    .fills = {kNoise},
    .options = kOthers,
    .kernels = kNoKernel,
    .exempt = exempt,
})};

const Register corners{smoke_probes({
    .what = "torchao's dynamic FP8: ties, edges and corners, bit for bit",
    .sizes = {matrix(14, 64)},
    .fills = {kCorners},
    .options = kTorchao,
    .kernels = kKernels,
})};

const Register other_corners{smoke_probes({
    .what = "The other FP8 chains by rows: ties, edges and corners",
    .sizes = {matrix(14, 64)},
    .fills = {kCorners},
    .options = kRows,
    .kernels = kNoKernel,
})};

const Register tensors{smoke_probes({
    .what = "torchao's FP8 under one scale: ties, edges and corners, each in a tensor of its own",
    .sizes = {matrix(5, 64)},
    .dtypes = {Dtype::F32},
    .fills = kOneScale,
    .options = {kTensor},
    .kernels = kKernels,
})};

const Register other_tensors{smoke_probes({
    .what = "The other FP8 chains under one scale",
    .sizes = {matrix(5, 64)},
    .dtypes = {Dtype::F32},
    .fills = kOneScale,
    .options = kTensors,
    .kernels = kNoKernel,
})};

const Register state{smoke_probes({
    .what = "FP8 by a scale of earlier steps: corners of the amax, of the history and of the cast",
    .sizes = {{{"M", 5, {}}, {"K", 64, {}}, {"N", 6, {}}}},
    .dtypes = {Dtype::F32},
    .fills = {kTies, kNanBesideLarge, kUneven, kNothing},
    .options = kDelayed,
    .kernels = kNoKernel,
})};

const Register gradients{noise({
    .what = "Float8 fake quantisation: the gradient through e4m3 and through the scale",
    .sizes = {matrix(4, 64)},
    .fills = {kNoise},
    .options = {with(kRows[0], "grad", "1"), with(kTensors[0], "grad", "1")},
    .kernels = kNoKernel,
    .exempt = exempt,
})};

const Register tiles{smoke_probes({
    .what = "FP8 under rows and columns of 128",
    .sizes = {matrix(128, 128)},
    .fills = {kCorners},
    .options = {blockwise("lhs"), blockwise("rhs")},
    .kernels = kKernels,
})};

const Register square_tiles{smoke_probes({
    .what = "FP8 under tiles of 128x128",
    .sizes = {matrix(128, 256)},
    .dtypes = {Dtype::BF16},
    .fills = {kUneven, one_nan()},
    .options = {blockwise("weight")},
    .kernels = kKernels,
})};

const Register wide{long_probes({
    .what = "FP8: every fill",
    .sizes = {matrix(5, 64)},
    .fills = kAll,
    .options = kTorchao,
    .kernels = kKernels,
})};

const Register shapes{long_probes({
    .what = "FP8: many seeds and shapes",
    .sizes = {matrix(1, 16), matrix(129, 272)},
    .fills = {kUneven, heavy_tail(), outlier()},
    .options = kTorchao,
    .seeds = {0, 1},
    .kernels = kKernels,
})};

const Register wide_others{long_probes({
    .what = "The other FP8 chains: every fill",
    .sizes = {matrix(5, 64)},
    .fills = kAll,
    .options = kOthers,
    .kernels = kNoKernel,
})};

const Register wide_tiles{long_probes({
    .what = "FP8 under tiles of 128: several tiles",
    .sizes = {matrix(128, 128), matrix(256, 384)},
    .fills = {kNoise, kUneven, kFloors, kTies, kBesideTies, one_nan(), one_inf()},
    .options = {blockwise("lhs"), blockwise("rhs"), blockwise("weight")},
    .kernels = kKernels,
})};

const Register forward_only{Explanation{
    .op = "quantize",
    .direction = "backward",
    .kernel = "quantize.fp8_*",
    .hole = "the kernel has no backward",
    .why =
        "the chains that the kernel runs hand gradients straight through: the cotangent itself"}};

}  // namespace
}  // namespace parity
