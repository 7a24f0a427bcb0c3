// Cases of quantized_linear: every recipe against its stored operands (the kernel's own error) and
// against its source (the recipe's), in shards, and bit for bit where the source states an order.
#include "cases/linear_fills.hpp"

namespace parity {
namespace {

using namespace linear_fills;

Options with(Options options, const char* name, const char* value) {
  options.set(name, value);
  return options;
}

const Options kQat{{"recipe", "nvfp4_qat"}};
const Options kInt8{{"recipe", "int8_training"}};
const Options kInt4{{"recipe", "int4_weight"}};
const Options kNvfp4Weight{{"recipe", "nvfp4_weight"}};

const Register stored{CaseSet{
    .op = "quantized_linear",
    .what = "Recipes of one level and of integers against their stored operands",
    .lane = Lane::Smoke,
    .sizes = {sizes(32, 32, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kUneven},
    .options = {with(kQat, "bias", "1"), kInt8, with(kInt4, "bias", "1"), kNvfp4Weight},
}};

const Register source{CaseSet{
    .op = "quantized_linear",
    .what = "The recipes' own error: distance to the unquantised product",
    .lane = Lane::Smoke,
    .sizes = {sizes(32, 32, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal},
    .options = {with(kQat, "against", "source"), with(kInt4, "against", "source"),
                with(kNvfp4Weight, "against", "source")},
}};

const Register shards{CaseSet{
    .op = "quantized_linear",
    .what = "Tensor-parallel layers: scales of the whole tensor, sums by shards",
    .lane = Lane::Smoke,
    .sizes = {sizes(32, 64, 128)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal},
    .options = {with(kQat, "tp", "row"), with(kQat, "tp", "column")},
}};

const Register exact{CaseSet{
    .op = "quantized_linear",
    .what = "Operands that are stored exactly: every order gives one answer",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(32, 32, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kIntegers},
    .options = {kInt8, kInt4, kNvfp4Weight, kQat},
}};

const Register larger{CaseSet{
    .op = "quantized_linear",
    .what = "Larger products, odd extents",
    .lane = Lane::Long,
    .sizes = {sizes(7, 48, 96), sizes(33, 80, 160), sizes(64, 96, 512)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kOutliers},
    .options = {kQat, kInt8, kInt4, kNvfp4Weight},
}};

}  // namespace
}  // namespace parity
