#include "references/fsdp/sha256.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <vector>

namespace parity::fsdp {
namespace {

// The first 32 bits of the fractions of square or cube roots of the first primes (FIPS 180-4,
// §4.2.2 and §5.3.3).
template <std::size_t N>
std::array<std::uint32_t, N> root_fractions(bool cube) {
  std::array<std::uint32_t, N> out{};
  std::uint64_t candidate = 2;
  for (std::size_t i = 0; i < N; ++candidate) {
    bool prime = true;
    for (std::uint64_t d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (!prime) continue;
    const auto x = static_cast<long double>(candidate);
    const long double root = cube ? cbrtl(x) : sqrtl(x);
    out.at(i++) = static_cast<std::uint32_t>((root - floorl(root)) * 4294967296.0L);
  }
  return out;
}

using State = std::array<std::uint32_t, 8>;

void compress(State& h, const std::byte* block) {
  static const std::array<std::uint32_t, 64> k = root_fractions<64>(true);
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t b = 0; b < 4; ++b)
      w.at(i) = w.at(i) << 8 | std::to_integer<std::uint32_t>(block[4 * i + b]);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w.at(i - 15), b = w.at(i - 2);
    w.at(i) = w.at(i - 16) + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w.at(i - 7) +
              (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  State s = h;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t e = s[4], a = s[0];
    const std::uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & s[5]) ^ (~e & s[6])) + k.at(i) + w.at(i);
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                             ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) h.at(i) += s.at(i);
}

}  // namespace

std::string sha256(std::span<const std::byte> data) {
  State h = root_fractions<8>(false);
  const std::size_t whole = data.size() / 64 * 64;
  for (std::size_t at = 0; at < whole; at += 64) compress(h, data.data() + at);
  std::vector<std::byte> last(data.begin() + static_cast<std::ptrdiff_t>(whole), data.end());
  last.push_back(std::byte{0x80});
  while (last.size() % 64 != 56) last.push_back(std::byte{0});
  const std::uint64_t bits = std::uint64_t{data.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8)
    last.push_back(static_cast<std::byte>(bits >> shift & 0xFF));
  for (std::size_t at = 0; at < last.size(); at += 64) compress(h, last.data() + at);
  std::string text;
  for (const std::uint32_t word : h) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace parity::fsdp
