#include "references/quantize/stream.hpp"

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::quantize {

std::vector<std::uint8_t> random_bytes(const Stream& stream, std::int64_t n) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::vector<std::uint8_t> bytes;
  bytes.reserve(static_cast<std::size_t>(n) + 16);
  for (std::uint64_t block = stream.offset; std::ssize(bytes) < n; ++block) {
    const PhiloxCounter words =
        philox4x32_10({low(block), high(block), low(stream.subsequence), high(stream.subsequence)},
                      {low(stream.seed), high(stream.seed)});
    for (const std::uint32_t word : words)
      for (int shift = 0; shift < 32; shift += 8)
        bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  bytes.resize(static_cast<std::size_t>(n));
  return bytes;
}

// FNV-1a of the name, above 16 bits of rank.
std::uint64_t subsequence_of(std::string_view tensor, std::int64_t rank) {
  if (rank < 0 || rank > 0xFFFF) throw Failure("a rank is 0 to 65535");
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : tensor) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3;
  }
  return hash << 16 | static_cast<std::uint64_t>(rank);
}

}  // namespace parity::quantize
