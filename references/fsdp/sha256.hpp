// SHA-256 (FIPS 180-4), for stored digests of buffers too large to keep.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace parity::fsdp {

std::string sha256(std::span<const std::byte>);  // 64 hexadecimal digits

}  // namespace parity::fsdp
