// Cases of attn_res_read: reads of block attention residuals.
#include <cmath>

#include "cases/exact_rows.hpp"

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

// ---- exact probes: sources are signs of one size, so that keys are signs

// No query: equal weights over a power of two of sources.
void means(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  if (name == "cotangents/y") return exact::integers(d, out, 2);
  exact::signs(d, out, exact::kLoud);
  if (name == "params/norm.weight") return exact::signs(d, out, 2);
  if (name == "params/proj.weight") return exact::constant(out, 0);
  if (d.row % 3 == 0)
    for (double& x : out) x *= 2;
}

// The query asks for a pattern of the first half. The prefix and one entry of the bank have it, of
// unequal size; a source that misses a bit is 1024 behind.
constexpr double kAsks = 512;
double pattern(std::size_t i) { return i % 3 == 1 ? -1 : 1; }

void shared(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const std::size_t half = out.size() / 2;
  if (name == "cotangents/y") return exact::integers(d, out, 2);
  if (name == "params/norm.weight") return exact::constant(out, 1);
  if (name == "params/proj.weight") {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i < half ? kAsks * pattern(i) : 0;
    return;
  }
  exact::signs(d, out);
  bool asked = name == "prefix";
  if (name == "bank") {
    const std::int64_t entries = d.spec.dims[1].extent;
    asked = d.row % entries == d.row / entries % entries;
  }
  for (std::size_t i = 0; i < half; ++i)
    if (asked)
      out[i] = pattern(i);
    else if (i == 0)
      out[i] = -pattern(i);
  for (double& x : out) x *= name == "bank" ? 2 * exact::kLoud : exact::kLoud;
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

const Register bits{CaseSet{
    .op = "attn_res_read",
    .what = "Repeats and numbers of threads",
    .lane = Lane::Smoke,
    .check = Check::Bitwise,
    .sizes = {reads(70, 5, 40)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"normal", "sums whose order shows", usual}},
    .kernels = "*.online",
}};

const Register exact_means{
    CaseSet{.op = "attn_res_read",
            .what = "Equal weights",
            .lane = Lane::Smoke,
            .check = Check::Exact,
            .sizes = {reads(24, 2, 32), reads(17, 4, 40), reads(12, 8, 16)},
            .dtypes = {Dtype::F32, Dtype::BF16},
            .fills = {{"means", "every source once, and its share of the gradient", means, true}}}};

const Register exact_shares{
    CaseSet{.op = "attn_res_read",
            .what = "Two sources share a read",
            .lane = Lane::Smoke,
            .check = Check::Exact,
            .sizes = {reads(24, 2, 32), reads(17, 5, 32), reads(12, 9, 16)},
            .dtypes = {Dtype::F32, Dtype::BF16},
            .fills = {{"shared", "which sources are read; keys are normalised, values are not",
                       shared, true}}}};

}  // namespace
}  // namespace parity
