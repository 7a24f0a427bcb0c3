// Cases of quantize: the NVFP4 chains beyond A and B in blocks of 1x16, and what training adds:
// tiles, transposed copies, the random Hadamard transform, groups, stochastic rounding.
#include "cases/nvfp4_fills.hpp"
#include "cases/quantize_fills.hpp"
#include "harness/kernel.hpp"

namespace parity {
namespace {

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

Sizes matrix(std::int64_t M, std::int64_t K) { return {{"M", M, {}}, {"K", K, {}}}; }

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

const Register everything{CaseSet{
    .op = "quantize",
    .what = "Every NVFP4 chain on noise, with all of its outputs",
    .lane = Lane::Smoke,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), quantize_fills::negative_zeros()},
    .options = chains(),
    .exempt = exempt,
    .zero_share = 0.80,
    .zero_share_why = "half of negative_zeros is zero or rounds to it",
}};

const Register probes{CaseSet{
    .op = "quantize",
    .what = "Ties, edges and corners of every NVFP4 chain, bit for bit",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {nvfp4_fills::ties(), nvfp4_fills::beside_ties(), nvfp4_fills::scale_ties(),
              nvfp4_fills::tiny_blocks(), nvfp4_fills::alternating(), quantize_fills::one_nan(),
              quantize_fills::one_inf(), quantize_fills::zeros(), quantize_fills::least(),
              nvfp4_fills::zero_blocks()},
    .options = chains(),
}};

const Register known_answers{CaseSet{
    .op = "quantize",
    .what = "Vectors at which the NVFP4 chains part from each other",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(1, 32)},
    .dtypes = {Dtype::F32},
    .fills = {nvfp4_fills::splits()},
    .options = chains(),
    .seeds = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
}};

const Register choices{CaseSet{
    .op = "quantize",
    .what = "Four over six: candidates that tie, that only one measure prefers",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(16, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), nvfp4_fills::choices(), nvfp4_fills::tiny_blocks(),
              quantize_fills::one_inf()},
    .options = choosers(),
}};

const Register given_scale{CaseSet{
    .op = "quantize",
    .what = "A calibrated global scale: underflow, saturation",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), nvfp4_fills::beyond()},
    .options = {chain("nvfp4_vllm_emulation", {{"global_scale", "1"}}),
                chain("nvfp4_trtllm", {{"global_scale", "0.001"}, {"dequant_f32", "1"}}),
                chain("nvfp4_cutlass", {{"global_scale", "64"}, {"dequant_f32", "1"}}),
                chain("nvfp4_torchao_b2_cuda", {{"amax_factor", "0.5"}})},
}};

// x of at most 448, so that no scale is NaN.
const Register qutlass_reference{CaseSet{
    .op = "quantize",
    .what = "qutlass's reference and its MXFP4 kernels",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::BF16, Dtype::F32},
    .fills = {quantize_fills::normal(), quantize_fills::negative_zeros(),
              nvfp4_fills::alternating(), nvfp4_fills::zero_blocks(), quantize_fills::zeros(),
              nvfp4_fills::choices()},
    .options = {chain("nvfp4_qutlass_ref", {}), chain("mx_qutlass", {}),
                chain("mx_qutlass", {{"mode", "quest"}})},
}};

const Register tiles{CaseSet{
    .op = "quantize",
    .what = "16x16 tiles, whose codes are those of the transposed matrix; an amax a row",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(32, 48), matrix(48, 144)},  // 144 rows of x^T: two tiles of 128
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), quantize_fills::outlier(), nvfp4_fills::scale_ties(),
              nvfp4_fills::tiny_blocks()},
    .options = {chain("nvfp4_te", {{"tile", "16"}, {"transpose", "1"}, {"dequant", "1"}}),
                chain("nvfp4_ao_te", {{"tile", "16"}, {"transpose", "1"}, {"swizzle", "1"}}),
                chain("nvfp4_te", {{"row_scaled", "1"}, {"transpose", "1"}})},
}};

const Register corners_of_tiles{CaseSet{
    .op = "quantize",
    .what = "NaN, infinity and zeros in a tile; rows that the tile pads",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(20, 32), matrix(6, 24)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), quantize_fills::one_nan(), quantize_fills::one_inf(),
              quantize_fills::zeros()},
    .options = {chain("nvfp4_te", {{"tile", "16"}, {"transpose", "1"}}),
                chain("nvfp4_te", {{"row_scaled", "1"}})},
}};

const Register transforms{CaseSet{
    .op = "quantize",
    .what = "The random Hadamard transform of x^T before its quantisation, groups of rows",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(32, 48), {{"M", 48, {16, 32}}, {"K", 144, {}}}},
    .dtypes = {Dtype::BF16},
    .fills = {quantize_fills::normal(), nvfp4_fills::alternating(), quantize_fills::heavy_tail(),
              quantize_fills::one_nan()},
    .options = {chain("nvfp4_te", {{"rht", "1"}}),
                chain("nvfp4_ao_te", {{"rht", "1"}, {"swizzle", "1"}}),
                chain("nvfp4_te", {{"rht", "1"}, {"signs", "0x1234"}}),
                chain("nvfp4_te_fast", {{"rht", "1"}}), chain("nvfp4_ao_018", {{"rht", "1"}})},
}};

const Register transform_in_f32{CaseSet{
    .op = "quantize",
    .what = "The transform in f32, judged by a bound, and a given transform quantised",
    .lane = Lane::Smoke,
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::F32},
    .fills = {quantize_fills::normal(), quantize_fills::heavy_tail()},
    .options = {chain("nvfp4_te", {{"rht", "1"}})},
    .exempt = exempt,
    .zero_share = 0.9,
    .zero_share_why = "most codes of a heavy tail are zero",
}};

const Register stochastic{CaseSet{
    .op = "quantize",
    .what = "Codes rounded stochastically by named bytes, each copy by its own",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {quantize_fills::normal(), nvfp4_fills::ties(), quantize_fills::negative(),
              quantize_fills::one_nan()},
    .options = {chain("nvfp4_te", {{"sr", "1"}, {"transpose", "1"}, {"dequant", "1"}}),
                chain("nvfp4_ao_te", {{"sr", "1"}, {"sr_offset", "5"}, {"sr_rank", "3"}})},
}};

const Register stochastic_transform{CaseSet{
    .op = "quantize",
    .what = "A gradient as training quantises it: transformed, rounded stochastically",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(32, 48)},
    .dtypes = {Dtype::BF16},
    .fills = {quantize_fills::normal(), quantize_fills::heavy_tail()},
    .options = {chain("nvfp4_te", {{"rht", "1"}, {"sr", "1"}}),
                chain("nvfp4_ao_te", {{"rht", "1"}, {"sr", "1"}, {"sr_seed", "77"}})},
}};

}  // namespace
}  // namespace parity
