// Cases of train_serve: one weight through both sides, in every parity class.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

// x and the upstream gradient are small integers, so that the gradient of w is exact and the step
// rounds once; w is noise.
void usual(const RowDraw& d, std::span<double> out) {
  const auto first = static_cast<std::uint64_t>(d.first);
  if (d.spec.name == "params/weight") return d.rng.fill_normal(first, out);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(d.rng.integer(first + i, -3, 3));
}

// Everything is noise: products of a training step have the errors that theory predicts.
void noise(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Blocks of w from 2^0 to 2^-6: their scales are all different.
void uneven(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "params/weight")
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          std::ldexp(out[i], -static_cast<int>((i / 16 + static_cast<std::size_t>(d.row)) % 7));
}

const Fill kUsual{"normal", "an exact step, noisy weights", usual, true};
const Fill kUneven{"uneven", "every block has a scale of its own", uneven, true};
const Fill kNoise{"noise", "errors as theory predicts them", noise, true};

Sizes sizes(std::int64_t M, std::int64_t N, std::int64_t K) {
  return {{"M", M, {}}, {"N", N, {}}, {"K", K, {}}};
}

Options in_class(const char* name, const char* serve, const char* train = nullptr) {
  Options o{{"class", name}, {"serve", serve}};
  if (train != nullptr) o.set("train", train);
  return o;
}

const Register classes{CaseSet{
    .op = "train_serve",
    .what = "One chain on both sides, two chains, orders of scales and sums",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(8, 24, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual, kUneven},
    .options = {in_class("P0", "nvfp4_torchao_b2"), in_class("P0", "int_affine"),
                in_class("P1", "nvfp4_torchao_b2", "nvfp4_te"), in_class("P2", "nvfp4_torchao_b2"),
                in_class("P3", "nvfp4_torchao_b2"), in_class("P4", "nvfp4_torchao_b2"),
                in_class("P5", "nvfp4_torchao_b2")},
}};

const Register step{CaseSet{
    .op = "train_serve",
    .what = "The three products of a training step, between two limits",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {sizes(32, 32, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNoise},
    .options = {in_class("P7", "nvfp4_torchao_b2")},
}};

const Register no_kernel{
    Explanation{.op = "train_serve",
                .hole = "no kernel takes this dtype",
                .why = "it compares stages of one weight's way with each other, chain against "
                       "chain; the kernels of "
                       "each stage are judged as quantize, sparse24 and quantized_linear"}};

}  // namespace
}  // namespace parity
