#include "references/quantize/four_six.hpp"

#include <array>
#include <cmath>

namespace parity::quantize {
namespace {

float row_error(const Candidates& c, const Quantised& q, std::int64_t row, std::int64_t b,
                Defect defect) {
  const float scale = float_from_e4m3(q.scales[static_cast<std::size_t>(row * q.blocks + b)]);
  float error = 0;
  for (std::int64_t k = b * q.block; k < std::min((b + 1) * q.block, q.columns); ++k) {
    const float d = c.deviation(q, static_cast<std::size_t>(row * q.columns + k), scale);
    const bool square = (c.error == BlockError::Square) != (defect == Defect::ChoiceMeasure);
    const float size = defect == Defect::ChoiceSigned ? d : std::fabs(d);
    if (c.error == BlockError::Largest)
      error = max_nan(error, size);
    else
      error += square ? d * d : size;
  }
  return error;
}

float tile_error(const Candidates& c, const Quantised& q, std::int64_t m, std::int64_t b,
                 Defect defect) {
  if (q.tile == 1) return row_error(c, q, m, b, defect);
  std::array<float, 16> rows{};
  for (std::int64_t r = 0; r < 16; ++r)
    if (m + r < q.rows) rows[static_cast<std::size_t>(r)] = row_error(c, q, m + r, b, defect);
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t r = 0; r < half; ++r)
      rows[r] = c.error == BlockError::Largest ? max_nan(rows[r], rows[r + half])
                                               : rows[r] + rows[r + half];
  return rows[0];
}

}  // namespace

Quantised better_of(const Candidates& c, Defect defect) {
  Quantised q = c.six;
  for (std::int64_t m = 0; m < q.rows; m += q.tile) {
    for (std::int64_t b = 0; b < q.blocks; ++b) {
      const float six = tile_error(c, c.six, m, b, defect);
      const float four = tile_error(c, c.four, m, b, defect);
      const bool better = defect == Defect::ChoiceTie ? four <= six : four < six;
      if (!better) continue;
      const auto tile = static_cast<std::size_t>(m / q.tile * q.blocks + b);
      q.encode[tile] = c.four.encode[tile];
      for (std::int64_t r = m; r < m + q.tile; ++r) {
        const auto at = static_cast<std::size_t>(r * q.blocks + b);
        q.scales[at] = c.four.scales[at];
        if (r >= q.rows) continue;
        for (std::int64_t k = b * q.block; k < std::min((b + 1) * q.block, q.columns); ++k) {
          const auto i = static_cast<std::size_t>(r * q.columns + k);
          q.codes[i] = c.four.codes[i];
          q.open[i] = c.four.open[i];
          q.scaled[i] = c.four.scaled[i];
        }
      }
    }
  }
  return q;
}

}  // namespace parity::quantize
