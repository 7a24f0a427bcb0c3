// Random bits that are used twice: the bytes that stochastic rounding drew, compared across
// tensors, ranks and steps. Two independent streams share 128 bits at some pair of places with a
// probability below n^2 2^-129 for n words: 2^-79 for 128 MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace parity::cli {

struct NamedBits {
  std::string name = {};
  std::vector<std::byte> bytes = {};
};

// A run of equal bytes, at least 16 long, at offsets that are multiples of 4. a == b: a tensor that
// repeats itself.
struct Reuse {
  std::size_t a = 0, b = 0;  // indices of the list, a <= b
  std::int64_t at_a = 0, at_b = 0;
  std::int64_t bytes = 0;
};
std::vector<Reuse> reused(std::span<const NamedBits>);

}  // namespace parity::cli
