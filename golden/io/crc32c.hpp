// CRC-32C (Castagnoli; RFC 3720 appendix B.4), and as TensorFlow's record files mask it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace parity::io {

std::uint32_t crc32c(std::span<const std::byte>);
std::uint32_t masked_crc32c(std::span<const std::byte>);

}  // namespace parity::io
