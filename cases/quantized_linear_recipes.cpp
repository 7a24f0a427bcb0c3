// Cases of quantized_linear: NVFP4 training, MX and FP8.
#include "cases/linear_fills.hpp"

namespace parity {
namespace {

using namespace linear_fills;

Options with(Options options, const char* name, const char* value) {
  options.set(name, value);
  return options;
}

// Signs that are not the default: a path that forgets them shows.
const Options kTe{{"recipe", "nvfp4_te"}, {"rht", "1"}, {"signs", "4660"}};
const Options kTePlain{{"recipe", "nvfp4_te"}, {"weight_tile", "1x16"}};
const Options kMxE4m3{{"recipe", "mx_qat"}, {"elem", "e4m3"}};
const Options kMxE2m1{{"recipe", "mx_qat"}, {"elem", "e2m1"}};
const Options kTensorwise{{"recipe", "fp8"}, {"scheme", "tensorwise"}};
const Options kRowwise{{"recipe", "fp8"}, {"scheme", "rowwise"}};
const Options kRowwiseHp{{"recipe", "fp8"}, {"scheme", "rowwise_with_gw_hp"}};

const Register te{CaseSet{
    .op = "quantized_linear",
    .what = "NVFP4 training: transform, tiles, stochastic gradients, shards",
    .lane = Lane::Smoke,
    .sizes = {sizes(32, 64, 64)},
    .dtypes = {Dtype::BF16},
    .fills = {kNormal, kUneven},
    .options = {with(kTe, "bias", "1"), with(kTe, "sr", "1"), kTePlain,
                with(kTe, "against", "source"), with(kTe, "tp", "row"), with(kTe, "tp", "column")},
}};

const Register stated{CaseSet{
    .op = "quantized_linear",
    .what = "NVFP4 training bit for bit, in the order that its source states",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(32, 32, 512)},
    .dtypes = {Dtype::BF16},
    .fills = {kNormal, kSpread},
    .options = {with(with(kTe, "stated", "1"), "out", "f32"), with(kTePlain, "stated", "1")},
}};

const Register narrow{CaseSet{
    .op = "quantized_linear",
    .what = "MX and FP8 against their stored operands",
    .lane = Lane::Smoke,
    .sizes = {sizes(16, 32, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kUneven},
    .options = {with(kMxE4m3, "bias", "1"), kMxE2m1, with(kTensorwise, "bias", "1"), kRowwise,
                kRowwiseHp, with(kMxE2m1, "against", "source"), with(kRowwise, "against", "source"),
                with(kRowwise, "tp", "row"),
                with(with(kTensorwise, "out", "e4m3"), "result_scale", "0.5")},
}};

const Register larger{CaseSet{
    .op = "quantized_linear",
    .what = "Larger products of every training recipe",
    .lane = Lane::Long,
    .sizes = {sizes(64, 96, 256), sizes(96, 64, 160)},
    .dtypes = {Dtype::BF16},
    .fills = {kNormal, kOutliers},
    .options = {kTe, kTePlain, kMxE4m3, kMxE2m1, kTensorwise, kRowwise, kRowwiseHp},
}};

}  // namespace
}  // namespace parity
