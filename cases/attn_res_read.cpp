// Cases of attn_res_read: reads of block attention residuals.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Norm weights around one, the projection large enough that the softmax prefers some source.
bool parameter_row(const RowDraw& d, std::span<double> out) {
  if (!d.spec.name.starts_with("params/")) return false;
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  const bool norm = d.spec.name == "params/norm.weight";
  const double width = std::sqrt(static_cast<double>(out.size()));
  for (double& w : out) w = norm ? 1 + w / 4 : 1.5 * w / width;
  return true;
}

void usual(const RowDraw& d, std::span<double> out) {
  if (!parameter_row(d, out)) d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Sources of very different sizes, some below sqrt(eps): keys must be normalised, values must not,
// and eps shows.
void mixed_sizes(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "bank" || d.spec.name == "prefix")
    for (double& x : out) x = std::ldexp(x, 2 - 3 * static_cast<int>(d.row % 5));
}

// A projection of zeros: the plain average, and no gradient for the norm's weight.
void uniform(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "params/proj.weight")
    for (double& x : out) x = 0;
}

// A projection so large that one source takes all.
void decided(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "params/proj.weight")
    for (double& x : out) x *= 12;
}

Sizes reads(std::int64_t T, std::int64_t N, std::int64_t D) {
  return {{"T", T, {}}, {"N", N, {}}, {"D", D, {}}};
}

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view) {
  if (c.fill == "uniform" && tensor == "grads/params/norm.weight")
    return "dnorm = proj * dq, and proj is zero";
  return "";
}

const Register smoke{CaseSet{
    .op = "attn_res_read",
    .what = "Two to nine sources",
    .lane = Lane::Smoke,
    .sizes = {reads(24, 2, 32), reads(17, 4, 40), reads(12, 9, 24)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"normal", "the usual case", usual},
              {"mixed_sizes", "keys are normalised, values are not; eps inside the root",
               mixed_sizes},
              {"uniform", "equal weights: the average, and which gradients vanish", uniform},
              {"decided", "one source takes nearly all", decided}},
    .exempt = exempt,
}};

}  // namespace
}  // namespace parity
