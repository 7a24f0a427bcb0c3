// Cases of collective: sums whose order and rounding show in every element.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

void normal(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Ranks of very different size, and pairs that nearly cancel: another tree, another sum.
void unequal(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  const std::int64_t ranks = d.problem.sizes["R"], rank = d.row % ranks;
  for (double& x : out)
    x = std::ldexp(x + (rank % 2 == 0 ? 1 : -1), static_cast<int>(5 - rank % 4 * 3));
}

// Zeros of both signs, infinities of both, NaN, the largest values and subnormals beside usual
// ones.
void special(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  const double largest = format(d.problem.dtype).max_finite,
               least = format(d.problem.dtype).min_subnormal;
  for (std::size_t i = 0; i < out.size(); ++i)
    switch (d.rng.integer(static_cast<std::uint64_t>(d.first) + i + (1u << 20), 0, 11)) {
      case 0:
        out[i] = -0.0;
        break;
      case 1:
        out[i] = largest;
        break;
      case 2:
        out[i] = -largest;
        break;
      case 3:
        out[i] = 3 * least;
        break;
      case 4:
        out[i] = i % 7 == 0 ? INFINITY : -least;
        break;
      case 5:
        out[i] = i % 5 == 0 ? NAN : 0.5;
        break;
      default:
        break;
    }
  if (d.row < d.problem.sizes["R"])  // a trial of minus zeros alone: their sum is one
    for (std::size_t i = 0; i < out.size() / 4; ++i) out[i] = -0.0;
}

Sizes ranks(std::int64_t T, std::int64_t R, std::int64_t M) {
  return {{"T", T, {}}, {"R", R, {}}, {"M", M, {}}};
}

const Register usual{CaseSet{
    .op = "collective",
    .what = "Every stated order at 2 to 8 ranks, parts of odd sizes",
    .lane = Lane::Smoke,
    .check = Check::Sharded,
    .sizes = {ranks(2, 2, 7), ranks(2, 3, 5), ranks(2, 4, 13), ranks(1, 8, 9)},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F16},
    .fills = {{"unequal", "the order of additions, and where each is rounded", unequal}},
    .options =
        {{{"order", "gloo"}}, {{"order", "ring"}}, {{"order", "tree"}}, {{"order", "halving"}}},
}};

const Register specials{CaseSet{
    .op = "collective",
    .what = "Zeros with signs, infinities, NaN, overflow and subnormals",
    .lane = Lane::Smoke,
    .check = Check::Sharded,
    .sizes = {ranks(3, 3, 11)},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F16},
    .fills = {{"special", "signs of zero, and what overflows when", special}},
    .options = {{{"order", "gloo"}}, {{"order", "rank"}}, {{"order", "doubling"}}},
    .zero_share = 0.6,
    .zero_share_why = "a quarter of a trial is minus zero on purpose",
}};

}  // namespace
}  // namespace parity
