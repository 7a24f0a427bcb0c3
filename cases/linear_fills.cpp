#include "cases/linear_fills.hpp"

#include <cmath>

#include "harness/numeric/philox.hpp"

namespace parity::linear_fills {
namespace {

std::uint64_t at(const RowDraw& d, std::size_t i) {
  return static_cast<std::uint64_t>(d.first) + i;
}

// Random bits of a stochastic rounding are bytes, whatever the fill.
bool is_bytes(const RowDraw& d, std::span<double> out) {
  if (d.spec.dtype != Dtype::U8) return false;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(d.rng.integer(at(d, i), 0, 255));
  return true;
}

// Weights of deviation 1/4, activations of 1, gradients of 1/8: no two tensors share a scale.
double size_of(const RowDraw& d) {
  if (d.spec.name.starts_with("params/")) return 0.25;
  return d.spec.role == Role::Cotangent ? 0.125 : 1;
}

void normal(const RowDraw& d, std::span<double> out) {
  if (is_bytes(d, out)) return;
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  for (double& x : out) x *= size_of(d);
}

// Rows and columns of very different sizes: scales of the wrong axis or block show.
void uneven(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.dtype == Dtype::U8) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::ldexp(out[i], static_cast<int>(d.row % 4) - static_cast<int>(i / 16 % 3));
}

// Blocks from 2^0 to 2^-6: their terms share no grid, so that the order of a sum shows in its bits.
void spread(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.dtype == Dtype::U8) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::ldexp(out[i], -static_cast<int>(i / 16 % 7));
}

// Channels that a few outliers dominate.
void outliers(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.dtype == Dtype::U8) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    if ((i + static_cast<std::size_t>(d.row)) % 37 == 5) out[i] *= 20;
}

// Values that every operand's format holds under scales that are powers of two (NVFP4: e2m1 times
// 448, the largest in every block, so that the tensor's scale is one; int4: integers with -7.5 in
// every group; else small integers): sums are exact in any order.
void integers(const RowDraw& d, std::span<double> out) {
  if (is_bytes(d, out)) return;
  const std::string recipe = d.problem.options.get("recipe", "");
  const bool weight = d.spec.name == "params/weight";
  const bool fp4 =
      recipe.starts_with("nvfp4") && (weight || (d.spec.name == "x" && recipe == "nvfp4_qat"));
  const bool int4 = weight && recipe == "int4_weight";
  constexpr double kSteps[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t draw = d.rng.integer(at(d, i), 0, 15);
    if (fp4)
      out[i] = 448 * (draw < 8 ? kSteps[draw] : -kSteps[draw - 8]);
    else
      out[i] = static_cast<double>(int4 ? draw % 15 - 7 : draw % 7 - 3);
    if (fp4 && i % 16 == 5) out[i] = d.row % 2 == 0 ? 2688 : -2688;
    if (int4 && i % 32 == 5) out[i] = -7.5;
  }
}

}  // namespace

const Fill kNormal{"normal", "the usual case", normal};
const Fill kUneven{"uneven", "scales differ by row and block", uneven};
const Fill kSpread{"spread", "blocks of many sizes: orders of a sum differ", spread};
const Fill kOutliers{"outliers", "few elements fix the scales", outliers};
const Fill kIntegers{"integers", "stored exactly under power-of-two scales", integers, true};

Sizes sizes(std::int64_t M, std::int64_t N, std::int64_t K) {
  return {{"M", M, {}}, {"N", N, {}}, {"K", K, {}}};
}

}  // namespace parity::linear_fills
