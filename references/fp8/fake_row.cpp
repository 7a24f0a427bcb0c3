#include "references/fp8/fake_row.hpp"

#include <algorithm>
#include <cmath>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {

using quantize::max_nan;
using quantize::min_nan;

FakeRow fake_row(Dtype data, std::span<const float> x) {
  FakeRow row;
  row.amax = quantize::amax(x);
  const float least = rounded(data, 1e-12F);
  row.floored = row.amax < least;
  row.scale = rounded(data, max_nan(row.amax, least) / quantize::kMaxE4m3);
  for (const float v : x) {
    const float y = max_nan(min_nan(v / row.scale, quantize::kMaxE4m3), -quantize::kMaxE4m3);
    row.codes.push_back(float_from_e4m3(e4m3_from_float(y, Overflow::Saturate)));
    row.values.push_back(rounded(data, row.codes.back() * row.scale));
  }
  return row;
}

void fake_row_gradient(Dtype data, std::span<const float> x, const FakeRow& row,
                       const FakeRowGradient& of, std::vector<double>& gradient,
                       std::vector<double>& allowance) {
  const std::size_t n = x.size();
  const auto scale = static_cast<double>(row.scale);
  std::vector<double> direct(n), allowed(n);
  double ds = 0, uncertain_sum = 0, ties = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(x[i]), code = static_cast<double>(row.codes[i]);
    const double mask = std::fabs(x[i] / row.scale) <= quantize::kMaxE4m3 ? 1 : 0;
    const auto g = static_cast<float>(of.cotangent[i]);
    const float c = float_from_e4m3(e4m3_from_float(g * row.scale, Overflow::Infinity));
    const auto wide = static_cast<double>(c);
    direct[i] = static_cast<double>(rounded(data, static_cast<float>(mask) * c / row.scale));
    ds += static_cast<double>(g) * code - mask * wide * value / (scale * scale);
    ties += std::fabs(x[i]) == row.amax ? 1 : 0;
    if (of.uncertain[i] > 0) {  // the cast to e4m3 may fall to the neighbour: a step of its binade
      const double step = std::max(std::fabs(wide) * 0x1p-3, 0x1p-9) / scale;
      allowed[i] = mask * (step + of.uncertain[i]);
      uncertain_sum += of.uncertain[i] * std::fabs(code) + step * std::fabs(value) / scale;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const bool most = std::fabs(x[i]) == row.amax && !row.floored;
    const double sign = x[i] > 0 ? 1 : x[i] < 0 ? -1 : 0;
    gradient.push_back(direct[i] + (most && !of.detached ? sign / ties * ds / 448 : 0));
    allowance.push_back(allowed[i] + (most ? of.sum_allowance + uncertain_sum / 448 : 0));
  }
}

}  // namespace parity::fp8
