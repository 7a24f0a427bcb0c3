#include "references/integer/int4_weight.hpp"

#include <algorithm>
#include <cmath>

#include "references/fp8/fake_row.hpp"

namespace parity::integer {
namespace {

using quantize::max_nan;
using quantize::min_nan;

constexpr float kLeastSpan = 1e-6F;

double largest(const std::vector<float>& g) {
  double most = 0;
  for (const float v : g) most = std::max(most, std::fabs(static_cast<double>(v)));
  return most;
}

// What a sum in another order may move an element by (notes of the data: 1e-6 max|g|, bf16 2^-8
// max|g|).
double sum_allowance(Dtype data, const std::vector<float>& g) {
  return (data == Dtype::F32 ? 1e-6 : 0x1p-8) * largest(g);
}

float inside(float value, float low, float high, Defect defect) {
  if (defect == Defect::MaskMissing) return 1;
  if (defect == Defect::MaskExclusive) return value > low && value < high ? 1 : 0;
  return value >= low && value <= high ? 1 : 0;
}

// ---- activations bf16 ----

class Wide {
 public:
  Wide(const WeightRequest& r, const Matrix& x, const std::vector<float>& g, WeightFakeQuant& out)
      : r_(r), x_(x), g_(g), out_(out), allowance_(sum_allowance(r.data, g)) {}

  void group(std::size_t first) {
    const auto n = static_cast<std::size_t>(r_.group);
    const auto x = std::span(x_.values).subspan(first, n);
    float low = x[0], high = x[0];
    for (const float v : x) low = min_nan(low, v), high = max_nan(high, v);
    if (r_.defect == Defect::ZeroExcluded) low = min_nan(low, 0), high = max_nan(high, 0);
    const float span = high - low;
    const float levels = r_.defect == Defect::FullRange ? 16.0F : 15.0F;
    const float scale =
        (r_.defect == Defect::EpsMissing ? span : max_nan(span, kLeastSpan)) / levels;
    const float zero = low + 8 * scale;
    std::vector<float> mask(n), code(n), ratio(n);
    for (std::size_t i = 0; i < n; ++i) {
      ratio[i] = (x[i] - low) / scale;
      const float integer = nearest_integer(ratio[i], r_.defect);
      mask[i] = inside(integer, 0, 15, r_.defect);
      code[i] = max_nan(min_nan(integer, 15), 0) - 8;
      out_.values.push_back(rounded(r_.data, code[i] * scale + zero));
    }
    if (g_.empty()) return;
    const auto g = std::span(g_).subspan(first, n);
    double sum_g = 0, sum_mg = 0, ds = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum_g += static_cast<double>(g[i]);
      sum_mg += static_cast<double>(mask[i]) * static_cast<double>(g[i]);
      ds +=
          static_cast<double>(g[i]) * static_cast<double>(code[i]) -
          static_cast<double>(mask[i]) * static_cast<double>(g[i]) * static_cast<double>(ratio[i]);
    }
    ds += 8 * sum_g;
    const bool detached = r_.defect == Defect::ScaleDetached;
    const double of_scale = span < kLeastSpan || detached ? 0 : ds / 15;
    const double of_min = (detached ? 0 : sum_g - sum_mg) - of_scale;
    const auto ties_high = static_cast<double>(std::ranges::count(x, high));
    const auto ties_low = static_cast<double>(std::ranges::count(x, low));
    for (std::size_t i = 0; i < n; ++i) {
      float direct = mask[i] * (g[i] * scale / scale);
      if (r_.defect == Defect::GradientPlain) direct = mask[i] * g[i];
      if (r_.defect == Defect::GradientZero) direct = 0;
      double total = static_cast<double>(direct);
      if (x[i] == high) total += of_scale / ties_high;
      if (x[i] == low) total += of_min / ties_low;
      out_.gradient.push_back(total);
      out_.allowance.push_back(x[i] == high || x[i] == low ? allowance_ : 0);
    }
  }

 private:
  const WeightRequest& r_;
  const Matrix& x_;
  const std::vector<float>& g_;
  WeightFakeQuant& out_;
  double allowance_;
};

// ---- activations fp8 ----

void fp8_row(const WeightRequest& r, const Matrix& x, std::int64_t m, const std::vector<float>& g,
             WeightFakeQuant& out) {
  const auto first = static_cast<std::size_t>(m * x.columns);
  const auto n = static_cast<std::size_t>(x.columns), width = static_cast<std::size_t>(r.group);
  const auto row_x = std::span(x.values).subspan(first, n);
  const fp8::FakeRow row = fp8::fake_row(r.data, row_x);
  std::vector<double> gw(n), uncertain(n);
  for (std::size_t at = 0; at < n; at += width) {
    const auto w = std::span(row.values).subspan(at, width);
    const float amax = quantize::amax(w);
    const float least = rounded(r.data, kLeastSpan);
    const float eighth = rounded(r.data, amax / (r.defect == Defect::FullRange ? 7.0F : 8.0F));
    const float scale = r.defect == Defect::EpsMissing ? eighth : max_nan(eighth, least);
    const float inverse = rounded(r.data, 1 / scale);
    std::vector<float> mask(width), code(width);
    for (std::size_t i = 0; i < width; ++i) {
      const float y = rounded(r.data, r.defect == Defect::Divided ? w[i] / scale : w[i] * inverse);
      const float integer = nearest_integer(y, r.defect);
      mask[i] = inside(integer, -8, 7, r.defect);
      code[i] = max_nan(min_nan(integer, 7), -8) + 0.0F;
      out.values.push_back(rounded(r.data, code[i] * scale));
    }
    if (g.empty()) continue;
    double ds = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const auto gi = static_cast<double>(g[first + at + i]);
      ds += gi * static_cast<double>(code[i]) - static_cast<double>(mask[i]) * gi *
                                                    static_cast<double>(w[i]) /
                                                    static_cast<double>(scale);
    }
    double ties = 0;
    for (const float v : w) ties += std::fabs(v) == amax ? 1 : 0;
    for (std::size_t i = 0; i < width; ++i) {
      const float scaled = rounded(r.data, g[first + at + i] * scale);
      float direct = rounded(r.data, rounded(r.data, mask[i] * scaled) * inverse);
      if (r.defect == Defect::GradientZero) direct = 0;
      gw[at + i] = static_cast<double>(direct);
      if (std::fabs(w[i]) != amax || eighth < least || r.defect == Defect::ScaleDetached) continue;
      const double sign = w[i] > 0 ? 1 : w[i] < 0 ? -1 : 0;
      gw[at + i] = round_to(r.data, gw[at + i] + sign * ds / 8 / ties);
      uncertain[at + i] = sum_allowance(r.data, g);
    }
  }
  if (g.empty()) return;
  fp8::fake_row_gradient(r.data, row_x, row,
                         {.cotangent = gw,
                          .uncertain = uncertain,
                          .sum_allowance = sum_allowance(r.data, g),
                          .detached = r.defect == Defect::ScaleDetached},
                         out.gradient, out.allowance);
}

}  // namespace

WeightFakeQuant fake_quantise_weight(const WeightRequest& r, const Matrix& x,
                                     const std::vector<float>& cotangent) {
  WeightFakeQuant out;
  if (r.activations_fp8) {
    for (std::int64_t m = 0; m < x.rows; ++m) fp8_row(r, x, m, cotangent, out);
    return out;
  }
  Wide wide(r, x, cotangent, out);
  for (std::size_t at = 0; at < x.values.size(); at += static_cast<std::size_t>(r.group))
    wide.group(at);
  return out;
}

}  // namespace parity::integer
