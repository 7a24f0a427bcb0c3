#include "references/integer/nf4.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "references/integer/affine.hpp"

namespace parity::integer {
namespace {

// The first of the nearest, as torch's min over the differences.
std::uint8_t nearest_of(const Nf4Request& r, const std::array<float, 16>& table, float y) {
  std::uint8_t best = 0;
  float least = std::fabs(rounded(r.data, y - table[0]));
  for (std::uint8_t k = 1; k < 16; ++k) {
    const float off = std::fabs(rounded(r.data, y - table[k]));
    if (off < least || (r.defect == Defect::HalfAway && off == least)) best = k, least = off;
  }
  return best;
}

// The amaxes after their own quantisation.
std::vector<float> requantised(const Nf4Request& r, Nf4& q) {
  if (r.scaler_block == 0) return q.amax;
  double sum = 0;
  for (const float a : q.amax) sum += static_cast<double>(a);
  if (r.defect != Defect::ZeroExcluded)
    q.mean = static_cast<float>(round_to(r.data, sum / static_cast<double>(q.amax.size())));
  const auto width = static_cast<std::size_t>(r.scaler_block);
  std::vector<float> back;
  for (std::size_t first = 0; first < q.amax.size(); first += width) {
    std::vector<float> d;
    for (std::size_t i = first; i < std::min(first + width, q.amax.size()); ++i)
      d.push_back(rounded(r.data, q.amax[i] - q.mean));
    const float range = r.defect == Defect::FullRange ? 127.0F : 128.0F;
    const float factor = rounded(r.data, range / quantize::amax(d));
    q.factors.push_back(factor);
    for (const float v : d) {
      const float integer = nearest_integer(rounded(r.data, v * factor), r.defect);
      q.scalers.push_back(std::clamp(integer, -128.0F, 127.0F));
      back.push_back(rounded(r.data, rounded(r.data, q.scalers.back() / factor) + q.mean));
    }
  }
  return back;
}

}  // namespace

Nf4 quantise_nf4(const Nf4Request& r, const quantize::Matrix& x) {
  std::array<float, 16> table = r.table;
  for (float& entry : table) entry = rounded(r.data, entry);
  const auto width = static_cast<std::size_t>(r.block);
  Nf4 q;
  for (std::size_t first = 0; first < x.values.size(); first += width) {
    const auto block = std::span(x.values).subspan(first, width);
    const std::size_t from =
        r.defect == Defect::NeighbourGroup && first > 0 ? first - width : first;
    q.amax.push_back(quantize::amax(std::span(x.values).subspan(from, width)));
    for (const float v : block) {
      const float y = r.defect == Defect::Divided
                          ? rounded(r.data, v * rounded(r.data, 1 / q.amax.back()))
                          : rounded(r.data, v / q.amax.back());
      q.open.push_back(std::isnan(y) ? 1 : 0);
      q.codes.push_back(nearest_of(r, table, y));
    }
  }
  const std::vector<float> scale = requantised(r, q);
  for (std::size_t i = 0; i < q.codes.size(); ++i)
    q.values.push_back(rounded(r.data, table[q.codes[i]] * scale[i / width]));
  return q;
}

}  // namespace parity::integer
