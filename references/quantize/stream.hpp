// Named streams of random bytes for stochastic rounding: Philox4x32-10 with key = seed and counter
// (offset, subsequence), as Transformer Engine lays them out: the offset counts blocks of 128 bits.
// Byte i of a tensor is byte i % 16, little endian, of block offset + i / 16. A stream is a
// function of its three numbers, so that a recompute draws the same bytes, and ranks and tensors
// draw others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parity::quantize {

struct Stream {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint64_t subsequence = 0;
};

std::vector<std::uint8_t> random_bytes(const Stream&, std::int64_t n);
// One for each name of a tensor and each rank: the low 16 bits are the rank's.
std::uint64_t subsequence_of(std::string_view tensor, std::int64_t rank);

}  // namespace parity::quantize
