#include "references/integer/rowwise.hpp"

#include <algorithm>
#include <cmath>

namespace parity::integer {

Rowwise quantise_rows(Dtype data, const Matrix& x, Defect defect) {
  Rowwise q;
  constexpr float kLeast = 1e-12F;
  for (std::int64_t m = 0; m < x.rows; ++m) {
    const auto row = std::span(x.values).subspan(static_cast<std::size_t>(m * x.columns),
                                                 static_cast<std::size_t>(x.columns));
    const auto from =
        defect == Defect::NeighbourGroup && m > 0
            ? std::span(x.values).subspan(static_cast<std::size_t>((m - 1) * x.columns), row.size())
            : row;
    const float exact = quantize::amax(from) / (defect == Defect::FullRange ? 128.0F : 127.0F);
    const float scale = defect == Defect::WideScale ? exact : rounded(data, exact);
    const float kept = defect == Defect::EpsMissing ? scale : quantize::max_nan(scale, kLeast);
    const float inverse = 1 / kept;
    for (const float v : row) {
      const float y = nearest_integer(defect == Defect::Divided ? v / kept : v * inverse, defect);
      q.open.push_back(std::isnan(y) ? 1 : 0);
      q.codes.push_back(std::isnan(y) ? 0 : std::clamp(y, -128.0F, 127.0F));
    }
    q.scales.push_back(scale);
  }
  return q;
}

}  // namespace parity::integer
