#include "cases/quantize_fills.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/numeric/philox.hpp"

namespace parity::quantize_fills {
namespace {

// Normal values times 2^k, k normal with deviation 3 and clipped at +-9.
void draw_heavy_tail(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  const Rng exponents = d.rng.split(1);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::ldexp(
        out[i], static_cast<int>(std::clamp(exponents.normal(index_of(d, i)) * 3, -9.0, 9.0)));
}

// One huge element; everything else lies far below it.
void draw_outlier(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 0x1p-6;
  if (d.row == d.problem.sizes.get("M", 1) - 1) out[out.size() / 2] = -3000;
}

void draw_one_nan(const RowDraw& d, std::span<double> out) {
  const bool here = d.row == d.problem.sizes.get("M", 1) / 2;
  here ? draw_nan(d, out) : draw_normal(d, out);
}

void draw_one_inf(const RowDraw& d, std::span<double> out) {
  d.row == 0 ? draw_infinity(d, out) : draw_normal(d, out);
}

}  // namespace

std::uint64_t index_of(const RowDraw& d, std::size_t i) {
  return static_cast<std::uint64_t>(d.first) + i;
}

bool is_cotangent(const RowDraw& d, std::span<double> out) {
  if (d.spec.role != Role::Cotangent) return false;
  draw_normal(d, out);
  return true;
}

void draw_normal(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

void draw_negative(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x = -std::abs(x);
}

void draw_negative_zeros(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % 4 == 1) out[i] = -0.0;
    if (i % 4 == 2) out[i] = -std::abs(out[i]) * 0x1p-8;
  }
}

void draw_zeros(const RowDraw& d, std::span<double> out) {
  if (!is_cotangent(d, out)) std::fill(out.begin(), out.end(), 0.0);
}

void draw_least(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 0x1p-128;
}

void draw_nan(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role != Role::Cotangent)
    out[out.size() / 2] = std::numeric_limits<double>::quiet_NaN();
}

void draw_infinity(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role != Role::Cotangent)
    out[out.size() / 2] = -std::numeric_limits<double>::infinity();
}

double ulp(const RowDraw& d) { return d.spec.dtype == Dtype::BF16 ? 0x1p-7 : 0x1p-23; }

Fill normal() { return {"normal", "the usual case", draw_normal}; }
Fill heavy_tail() { return {"heavy_tail", "many binades in a block", draw_heavy_tail}; }
Fill negative() {
  return {"negative", "no positive element: a signed maximum is wrong", draw_negative};
}
Fill negative_zeros() {
  return {"negative_zeros", "-0 and what rounds to it", draw_negative_zeros};
}
Fill outlier() { return {"outlier", "one element decides the tensor scale", draw_outlier}; }
Fill one_nan() { return {"one_nan", "a NaN reaches its scale", draw_one_nan, true}; }
Fill one_inf() { return {"one_inf", "an infinite amax", draw_one_inf, true}; }
Fill zeros() { return {"zeros", "amax 0", draw_zeros, true}; }
Fill least() { return {"least", "f32 subnormals", draw_least, true}; }

Sizes matrix(std::int64_t M, std::int64_t K) { return {{"M", M, {}}, {"K", K, {}}}; }

std::vector<Options> joined(std::vector<Options> a, const std::vector<Options>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Options with(Options options, const char* name, const char* value) {
  options.set(name, value);
  return options;
}

CaseSet noise(CaseSet set) {
  set.op = "quantize";
  set.lane = Lane::Smoke;
  if (set.dtypes.empty()) set.dtypes = {Dtype::F32, Dtype::BF16};
  if (set.fills.empty()) set.fills = {normal()};
  return set;
}

CaseSet smoke_probes(CaseSet set) {
  set.check = Check::Exact;
  return noise(std::move(set));
}

CaseSet long_probes(CaseSet set) {
  set = smoke_probes(std::move(set));
  set.lane = Lane::Long;
  return set;
}

}  // namespace parity::quantize_fills
