// Cases of quantize: chains A and B, on inputs at which a wrong order of operations, a wrong
// rounding or a wrong layout shows; the op's bound.
#include "cases/nvfp4_fills.hpp"
#include "cases/quantize_fills.hpp"
#include "harness/kernel.hpp"

namespace parity {
namespace {

using namespace quantize_fills;
using nvfp4_fills::beyond;
using nvfp4_fills::corners;
using nvfp4_fills::edges;

// What is asked of each chain.
const Options kTe{{"chain", "nvfp4_te"}, {"swizzle", "1"}, {"ste", "1"}};
const Options kAo{{"chain", "nvfp4_ao_te"}, {"swizzle", "1"}};
const Options kB1{{"chain", "nvfp4_torchao_b1"}, {"swizzle", "1"}, {"dequant", "1"}, {"ste", "1"}};
const Options kB2{{"chain", "nvfp4_torchao_b2"},
                  {"swizzle", "1"},
                  {"dequant", "1"},
                  {"dequant_f32", "1"},
                  {"ste", "1"}};
const Options kTransposed{{"chain", "nvfp4_te"}, {"transpose", "1"}, {"dequant", "1"}};

// The 128x4 layout of a few rows is nearly all padding, and zeros would pass for it.
Options without_swizzle(Options options) { return with(std::move(options), "swizzle", "0"); }

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const bool of_codes =
      tensor == "codes" || tensor.starts_with("dequant") || tensor.starts_with("grads/");
  if (trivial == "other_seed" && !of_codes &&
      (c.fill == "outlier" || c.sizes["M"] * c.sizes["K"] <= 16))
    return "one element, or the only block, fixes every amax that the scales depend on; the codes "
           "differ";
  const bool one_number = tensor == "tensor_scale" || tensor.starts_with("amax");
  if (trivial == "other_seed" && one_number && c.dtype == Dtype::BF16)
    return "one number of 8 bits: the maxima of two seeds agree now and then";
  if (tensor == "grads/x" && trivial == "copy")
    return "the straight-through gradient is a copy of the cotangent";
  if (trivial == "mean" && one_number) return "one number is its own mean";
  return "";
}

const std::vector<Options> kChains = {kTe, kAo, kB1, kB2};
const std::vector<Options> kPlain = {without_swizzle(kTe), without_swizzle(kAo),
                                     without_swizzle(kB1), without_swizzle(kB2)};

const Register everything{noise({
    .what = "Every chain on noise, with all of its outputs",
    .sizes = {matrix(3, 80)},  // 80: the last four scales of a row are padded
    .options = kPlain,
    .exempt = exempt,
})};

const Register all_corners{smoke_probes({
    .what = "Ties, edges and corners, bit for bit",
    .sizes = {matrix(8, 256)},
    .fills = {corners()},
    .options = kChains,
})};

const Register all_edges{smoke_probes({
    .what = "Numbers around every edge of a scale and a code: where the public chains part",
    .sizes = {matrix(8, 256)},
    .dtypes = {Dtype::F32},
    .fills = {edges()},
    .options = kChains,
})};

const Register specials{smoke_probes({
    .what = "What decides the tensor scale, each in a tensor of its own",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32},
    .fills = {one_nan(), one_inf(), zeros(), least()},
    .options = kChains,
})};

const Register shapes{smoke_probes({
    .what = "Layouts and ragged shapes",
    .sizes = {matrix(130, 80),  // two tiles of 128 rows, five scales a row
              matrix(384, 64),  // rows at which a released kernel left all scales zero
              matrix(33, 48)},  // just above the 8x4 layout's 32 rows
    .dtypes = {Dtype::BF16},
    .fills = {normal()},
    .options = {kTe},
})};

const Register tails{smoke_probes({
    .what = "Rows that end in a short block, and the transposed copy",
    .sizes = {matrix(6, 24), matrix(34, 50)},
    .dtypes = {Dtype::BF16},
    .fills = {outlier()},
    .options = {kTe, kTransposed},
})};

const Register saturation{smoke_probes({
    .what = "A calibrated amax below the data's, and values beyond every scale",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16},
    .fills = {beyond()},
    .options = {kB1, with(kB2, "amax_factor", "0.5"), with(kTe, "amax_factor", "0.5"),
                with(kAo, "amax_factor", "0.25")},
})};

const Register wide{long_probes({
    .what = "Every fill, in one block, in a few and over several tiles",
    .sizes = {matrix(1, 16), matrix(4, 64), matrix(131, 208)},
    .fills = {nvfp4_fills::ties(), nvfp4_fills::beside_ties(), nvfp4_fills::scale_ties(),
              nvfp4_fills::tiny_blocks(), nvfp4_fills::alternating(), beyond(), one_nan(),
              one_inf(), zeros(), least(), negative(), negative_zeros()},
    .options = kChains,
})};

const Register wide_tails{long_probes({
    .what = "Short blocks at the end of rows",
    .sizes = {matrix(2, 2), matrix(6, 24), matrix(20, 48), matrix(34, 50)},
    .fills = {normal(), outlier()},
    .options = {kTe, kTransposed},
})};

const Register known_answers{long_probes({
    .what = "Vectors at which the public chains part",
    .sizes = {matrix(1, 32)},
    .dtypes = {Dtype::F32},
    .fills = {nvfp4_fills::splits()},
    .options = kChains,
    .seeds = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
})};

const Register many{CaseSet{
    .op = "quantize",
    .what = "Many seeds and shapes of noise",
    .lane = Lane::Long,
    .sizes = {matrix(1, 16), matrix(16, 2048), matrix(127, 48), matrix(128, 128), matrix(129, 32),
              matrix(256, 272)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {normal(), heavy_tail(), nvfp4_fills::zero_blocks(), outlier()},
    .options = kPlain,
    .seeds = {0, 1},
    .exempt = exempt,
    .zero_share = 0.99,
    .zero_share_why = "most codes of a heavy tail, of zero blocks and beside an outlier are zero",
}};

// The transform in f32 has no order of its own: 16 terms in any order, each product exact.
Bound transform_bound() {
  return {.kind = BoundKind::Proved,
          .rho = 2,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 16},
          .accumulate = Dtype::F32,
          .why =
              "16 exact products summed in f32 in any order: gamma_16 of the sum of |terms| "
              "(Higham, lemma 3.1)"};
}

// Float8FakeQuantizer's gradient has a sum over the row at the largest element; elsewhere its
// companion is zero, and with it all that is allowed.
Bound bound_through_scale(const Case& c) {
  Bound bound{.kind = BoundKind::Estimated,
              .rho = 0,
              .c_acc = 16,
              .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
              .subnormals = 0,
              .strict_signed_zero = true,
              .why =
                  "two sums over a row in any order, 16 u of their magnitude (1e-6 in f32); bf16 "
                  "rounds them, their quotient by 448 and the result: one u of bf16"};
  if (c.dtype == Dtype::BF16) bound.roundings = {{1, Dtype::BF16, "sums, quotient and result"}};
  return bound;
}

Bound bound(const Case& c, const Contract&, const TensorSpec& spec) {
  if (spec.name == "grads/x" && c.options.get("chain", "") == "fp8_torchao_affine")
    return bound_through_scale(c);
  if (spec.name == "rht_t" && spec.dtype == Dtype::F32) return transform_bound();
  return {
      .kind = BoundKind::Exact,
      .strict_signed_zero = true,
      .why =
          "a chain fixes every float operation and its order, so results are equal bit for bit; "
          "the gradient is the cotangent itself"};
}

const Register definition{BoundDef{.op = "quantize", .bound = bound}};

}  // namespace
}  // namespace parity
