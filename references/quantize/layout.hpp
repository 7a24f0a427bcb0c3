// 128x4 ("32_4_4") storage of block scales, as tensor cores and cuBLASLt read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace parity::quantize {

// Bytes of the blocked form: rows padded to 128, columns to 4.
std::int64_t swizzled_bytes(std::int64_t rows, std::int64_t columns);

// Offset of scale (r, c) of a matrix with that many columns.
std::int64_t swizzled_offset(std::int64_t r, std::int64_t c, std::int64_t columns);

// Padding is zero.
std::vector<std::uint8_t> swizzled(std::span<const std::uint8_t> scales, std::int64_t rows,
                                   std::int64_t columns);

// The inverse; padding is dropped.
std::vector<std::uint8_t> unswizzled(std::span<const std::uint8_t> blocked, std::int64_t rows,
                                     std::int64_t columns);

}  // namespace parity::quantize
