// off(r, c) = ((r/128) ceil(C/4) + c/4) 512 + (r%32) 16 + ((r%128)/32) 4 + c%4
#include "references/quantize/layout.hpp"

namespace parity::quantize {

std::int64_t swizzled_bytes(std::int64_t rows, std::int64_t columns) {
  return (rows + 127) / 128 * ((columns + 3) / 4) * 512;
}

std::int64_t swizzled_offset(std::int64_t r, std::int64_t c, std::int64_t columns) {
  const std::int64_t tile = r / 128 * ((columns + 3) / 4) + c / 4;
  return tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4;
}

std::vector<std::uint8_t> swizzled(std::span<const std::uint8_t> scales, std::int64_t rows,
                                   std::int64_t columns) {
  std::vector<std::uint8_t> blocked(static_cast<std::size_t>(swizzled_bytes(rows, columns)), 0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      blocked[static_cast<std::size_t>(swizzled_offset(r, c, columns))] =
          scales[static_cast<std::size_t>(r * columns + c)];
  return blocked;
}

std::vector<std::uint8_t> unswizzled(std::span<const std::uint8_t> blocked, std::int64_t rows,
                                     std::int64_t columns) {
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      scales[static_cast<std::size_t>(r * columns + c)] =
          blocked[static_cast<std::size_t>(swizzled_offset(r, c, columns))];
  return scales;
}

}  // namespace parity::quantize
