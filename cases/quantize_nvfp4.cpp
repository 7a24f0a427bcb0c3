// Cases of quantize: the NVFP4 chains beyond A and B in blocks of 1x16, and what training adds:
// tiles, transposed copies, the random Hadamard transform, groups, stochastic rounding.
#include "cases/nvfp4_fills.hpp"
#include "cases/quantize_fills.hpp"
#include "harness/kernel.hpp"

namespace parity {
namespace {

using namespace quantize_fills;

Options chain(const char* name,
              std::initializer_list<std::pair<const std::string, std::string>> more) {
  Options options(more);
  options.set("chain", name);
  return options;
}

// Chains that take any x. What each has of its own is always asked for.
std::vector<Options> chains() {
  return {chain("nvfp4_te_fast", {{"dequant_f32", "1"}}),
          chain("nvfp4_ao_018", {{"dequant_f32", "1"}}),
          chain("nvfp4_torchao_b2_cuda", {{"dequant_f32", "1"}}),
          chain("nvfp4_trtllm", {{"dequant_f32", "1"}}),
          chain("nvfp4_qutlass", {{"dequant_f32", "1"}}),
          chain("nvfp4_cutlass", {{"dequant_f32", "1"}}),
          chain("nvfp4_vllm_emulation", {}),
          chain("nvfp4_compressed_tensors", {}),
          chain("nvfp4_modelopt", {}),
          chain("nvfp4_te_4over6", {{"dequant_f32", "1"}}),
          chain("nvfp4_fouroversix", {{"rule", "static_6"}, {"dequant_f32", "1"}})};
}

std::vector<Options> choosers() {
  return {chain("nvfp4_te_4over6", {{"err", "mse"}, {"e4m3_max", "448"}}),
          chain("nvfp4_te_4over6", {{"fast_err", "1"}}),
          chain("nvfp4_te_4over6", {{"err", "mse"}, {"fast_err", "1"}}),
          chain("nvfp4_te_4over6", {{"tile", "16"}, {"transpose", "1"}}),
          chain("nvfp4_fouroversix", {{"rule", "static_4"}}),
          chain("nvfp4_fouroversix", {{"rule", "mse"}}),
          chain("nvfp4_fouroversix", {{"rule", "mae"}}),
          chain("nvfp4_fouroversix", {{"rule", "abs_max"}}),
          chain("nvfp4_fouroversix", {{"rule", "mse"}, {"tile", "16"}})};
}

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const bool one_number = tensor == "tensor_scale" || tensor.starts_with("amax");
  if (one_number && trivial == "mean") return "one number is its own mean";
  if (one_number && trivial == "other_seed" && c.dtype == Dtype::BF16)
    return "numbers of 8 bits: the maxima of two seeds agree now and then";
  if (one_number && trivial == "other_seed" && !c.options.get("global_scale", "").empty())
    return "the global scale is given";
  if (one_number && c.options.get("chain", "") == "nvfp4_qutlass")
    return "the global scale is always 6";
  return "";
}

const Register everything{noise({
    .what = "Every NVFP4 chain on noise, with all of its outputs",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16},
    .options = chains(),
    .exempt = exempt,
})};

const Register all_corners{smoke_probes({
    .what = "Ties, edges and corners of every NVFP4 chain, bit for bit",
    .sizes = {matrix(8, 256)},
    .fills = {nvfp4_fills::corners()},
    .options = chains(),
})};

const Register specials{smoke_probes({
    .what = "What decides the tensor scale, and numbers around every edge",
    .sizes = {matrix(8, 256)},
    .dtypes = {Dtype::F32},
    .fills = {nvfp4_fills::edges(), one_inf(), zeros(), least()},
    .options = chains(),
})};

const Register choices{smoke_probes({
    .what = "Four over six: candidates that tie, that only one measure prefers",
    .sizes = {matrix(16, 64)},
    .dtypes = {Dtype::BF16},
    .fills = {nvfp4_fills::choices(), nvfp4_fills::tiny_blocks(), one_inf()},
    .options = choosers(),
})};

const std::vector<Options> kGiven = {
    chain("nvfp4_vllm_emulation", {{"global_scale", "1"}}),
    chain("nvfp4_trtllm", {{"global_scale", "0.001"}, {"dequant_f32", "1"}}),
    chain("nvfp4_cutlass", {{"global_scale", "64"}, {"dequant_f32", "1"}}),
    chain("nvfp4_torchao_b2_cuda", {{"amax_factor", "0.5"}})};

const Register given_scale{smoke_probes({
    .what = "A calibrated global scale: underflow, saturation",
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16},
    .fills = {normal(), nvfp4_fills::beyond()},
    .options = kGiven,
})};

// x of at most 448, so that no scale is NaN.
const std::vector<Options> kQutlass = {chain("nvfp4_qutlass_ref", {}), chain("mx_qutlass", {}),
                                       chain("mx_qutlass", {{"mode", "quest"}})};

const Register qutlass_reference{smoke_probes({
    .what = "qutlass's reference and its MXFP4 kernels",
    .sizes = {matrix(4, 64)},
    .fills = {nvfp4_fills::choices(), zeros()},
    .options = kQutlass,
})};

const std::vector<Options> kTiles = {
    chain("nvfp4_te", {{"tile", "16"}, {"transpose", "1"}, {"dequant", "1"}}),
    chain("nvfp4_ao_te", {{"tile", "16"}, {"transpose", "1"}, {"swizzle", "1"}}),
    chain("nvfp4_te", {{"row_scaled", "1"}, {"transpose", "1"}})};

const Register tiles{smoke_probes({
    .what = "16x16 tiles, whose codes are those of the transposed matrix; an amax a row",
    .sizes = {matrix(48, 144)},  // 144 rows of x^T: two tiles of 128
    .fills = {nvfp4_fills::corners()},
    .options = kTiles,
})};

const Register corners_of_tiles{smoke_probes({
    .what = "NaN, infinity and zeros in a tile; rows that the tile pads",
    .sizes = {matrix(20, 32)},
    .dtypes = {Dtype::BF16},
    .fills = {normal(), one_nan(), one_inf(), zeros()},
    .options = {chain("nvfp4_te", {{"tile", "16"}, {"transpose", "1"}}),
                chain("nvfp4_te", {{"row_scaled", "1"}})},
})};

const Options kOtherSigns = chain("nvfp4_te", {{"rht", "1"}, {"signs", "0x1234"}});
const std::vector<Options> kTransforms = {
    chain("nvfp4_te", {{"rht", "1"}}), chain("nvfp4_ao_te", {{"rht", "1"}, {"swizzle", "1"}}),
    kOtherSigns, chain("nvfp4_te_fast", {{"rht", "1"}}), chain("nvfp4_ao_018", {{"rht", "1"}})};
const Sizes kGroups{{"M", 48, {16, 32}}, {"K", 144, {}}};

const Register transforms{smoke_probes({
    .what = "The random Hadamard transform of x^T before its quantisation, groups of rows",
    .sizes = {matrix(32, 48), kGroups},
    .dtypes = {Dtype::BF16},
    .fills = {heavy_tail()},
    .options = kTransforms,
})};

const Register one_transform{smoke_probes({
    .what = "The transform where every element and its order shows, and of a NaN",
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::BF16},
    .fills = {nvfp4_fills::alternating(), one_nan()},
    .options = {kTransforms[0], kTransforms[1]},
})};

const Register transform_in_f32{noise({
    .what = "The transform in f32, judged by a bound, and a given transform quantised",
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::F32},
    .fills = {normal(), heavy_tail()},
    .options = {kTransforms[0]},
    .exempt = exempt,
    .zero_share = 0.9,
    .zero_share_why = "most codes of a heavy tail are zero",
})};

const std::vector<Options> kStochastic = {
    chain("nvfp4_te", {{"sr", "1"}, {"transpose", "1"}, {"dequant", "1"}}),
    chain("nvfp4_ao_te", {{"sr", "1"}, {"sr_offset", "5"}, {"sr_rank", "3"}}),
    chain("nvfp4_te", {{"rht", "1"}, {"sr", "1"}}),
    chain("nvfp4_ao_te", {{"rht", "1"}, {"sr", "1"}, {"sr_seed", "77"}})};

const Register stochastic{smoke_probes({
    .what = "Codes rounded stochastically by named bytes, each copy by its own; a gradient as "
            "training quantises it, transformed",
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::BF16},
    .fills = {normal(), negative()},
    .options = kStochastic,
})};

// ---- the long lane: every fill by itself

const std::vector<Fill> kAll = {normal(),
                                negative_zeros(),
                                nvfp4_fills::ties(),
                                nvfp4_fills::beside_ties(),
                                one_nan(),
                                nvfp4_fills::scale_ties(),
                                outlier(),
                                nvfp4_fills::tiny_blocks(),
                                one_inf(),
                                nvfp4_fills::alternating(),
                                zeros(),
                                nvfp4_fills::zero_blocks(),
                                least(),
                                nvfp4_fills::choices()};

const Register wide{long_probes({
    .what = "Every NVFP4 chain: every fill",
    .sizes = {matrix(16, 64)},
    .fills = kAll,
    .options = joined(chains(), joined(choosers(), kGiven)),
})};

const Register known_answers{long_probes({
    .what = "Vectors at which the NVFP4 chains part from each other",
    .sizes = {matrix(1, 32)},
    .dtypes = {Dtype::F32},
    .fills = {nvfp4_fills::splits()},
    .options = chains(),
    .seeds = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
})};

const Register wide_qutlass{long_probes({
    .what = "qutlass: every fill that leaves its scales finite",
    .sizes = {matrix(4, 64)},
    .fills = {normal(), negative_zeros(), nvfp4_fills::alternating(), nvfp4_fills::zero_blocks(),
              zeros(), nvfp4_fills::choices()},
    .options = kQutlass,
})};

const Register wide_tiles{long_probes({
    .what = "Tiles, rows that they pad: every fill",
    .sizes = {matrix(32, 48), matrix(48, 144)},
    .fills = kAll,
    .options = kTiles,
})};

const Register wide_transforms{long_probes({
    .what = "Transformed, rounded stochastically: every fill",
    .sizes = {matrix(32, 48), kGroups},
    .dtypes = {Dtype::BF16},
    .fills = kAll,
    .options = joined(kTransforms, kStochastic),
})};

const Register wide_stochastic{long_probes({
    .what = "Rounded stochastically from f32: every fill",
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::F32},
    .fills = kAll,
    .options = {kStochastic[0], kStochastic[1]},
})};

}  // namespace
}  // namespace parity
