// Operands that tell matrix units apart, drawn alike on a CPU and on a device: integers only, one
// draw of Philox for each element, so that a device needs no copy of them.
//
// A tile is one instruction: a of M rows, b of N rows, c of M x N. Its number says what it is drawn
// from: all eight recipes come around in turn.
#pragma once

#include <cstdint>

namespace parity::tensorcore {

enum class Recipe : std::uint8_t {
  Plain,        // a few powers of two around one
  Wide,         // exponents far apart
  Cancels,      // large products that cancel in pairs beside small ones
  Subnormal,    // operands, products and accumulators at the low end
  Special,      // infinities, NaN and signed zeros among plain numbers
  Zeros,        // zeros that meet the largest numbers
  Accumulator,  // accumulators far above and below the products
  Bits          // any pattern, but for most of what is no number
};
inline constexpr int kRecipes = 8;
inline constexpr const char* kRecipeNames[kRecipes] = {
    "plain", "wide", "cancels", "subnormal", "special", "zeros", "accumulator", "bits"};

// A format by its fields; tf32 as the f32 pattern that it is stored in.
struct Fields {
  int exponent = 8, mantissa = 23;
  bool infinity = true;  // else the top exponent has numbers, and NaN is all ones
};

namespace probes {

struct Draw {
  std::uint32_t x = 0, y = 0, z = 0, w = 0;
};

// Philox4x32-10 (Salmon et al., SC 2011).
constexpr Draw philox(Draw counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = std::uint64_t{0xD2511F53} * counter.x;
    const std::uint64_t q = std::uint64_t{0xCD9E8D57} * counter.z;
    counter = {
        static_cast<std::uint32_t>(q >> 32) ^ counter.y ^ key0, static_cast<std::uint32_t>(q),
        static_cast<std::uint32_t>(p >> 32) ^ counter.w ^ key1, static_cast<std::uint32_t>(p)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

constexpr int in_range(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

struct Number {
  std::uint32_t sign = 0, mantissa = 0;
  int field = 0;
};
constexpr std::uint32_t code_of(const Fields& f, const Number& n) {
  const std::uint32_t mantissa = n.mantissa & ((1U << f.mantissa) - 1U);
  return n.sign << (f.exponent + f.mantissa) | static_cast<std::uint32_t>(n.field) << f.mantissa |
         mantissa;
}
constexpr int top_field(const Fields& f) { return (1 << f.exponent) - 1; }
constexpr int last_finite(const Fields& f) { return top_field(f) - (f.infinity ? 1 : 0); }
constexpr int bias(const Fields& f) { return (1 << (f.exponent - 1)) - 1; }

// Infinity where the format has it, or NaN, by the lowest bit of `which`.
constexpr std::uint32_t special(const Fields& f, std::uint32_t sign, std::uint32_t which) {
  const bool nan = !f.infinity || (which & 1U) != 0;
  const std::uint32_t payload = f.infinity ? which >> 1 | 1U : 0xFFFFFFFFU;
  return code_of(f, {sign, nan ? payload : 0U, top_field(f)});
}

constexpr std::uint32_t any_bits(const Fields& f, std::uint32_t bits) {
  const int width = 1 + f.exponent + f.mantissa;
  return width == 32 ? bits : bits & ((1U << width) - 1U);
}

}  // namespace probes

constexpr Recipe recipe_of(std::uint32_t tile) { return static_cast<Recipe>(tile % kRecipes); }

// Element k of row `row` of a (operand 0) or b (1).
constexpr std::uint32_t operand_of(const Fields& f, std::uint32_t seed, std::uint32_t tile,
                                   std::uint32_t operand, std::uint32_t row, std::uint32_t k) {
  using namespace probes;
  const Recipe recipe = recipe_of(tile);
  const bool cancels = recipe == Recipe::Cancels;
  const Draw r = philox({cancels ? k & ~1U : k, row, tile, operand}, seed, 0);
  const int middle = bias(f), last = last_finite(f), spread = static_cast<int>(r.y & 0xFFFFU);
  Number n{r.x & 1U, r.w, middle - 2 + spread % 5};
  switch (recipe) {
    case Recipe::Wide: {
      const int reach = f.exponent == 8 ? 60 : middle;
      n.field = in_range(middle - reach + spread % (2 * reach + 1), 0, last);
      break;
    }
    case Recipe::Cancels:
      if (k % 8 < 6)
        n.field = in_range(middle + (f.exponent == 8 ? 8 : 3) + spread % 3, 0, last);
      else
        n.field = in_range(middle - spread % (f.exponent == 8 ? 24 : 8), 0, last);
      if (operand == 0 && k % 2 == 1) n.sign ^= 1U;
      break;
    case Recipe::Subnormal:
      n.field = operand == 0 ? spread % 3 : in_range(middle - 8 + spread % 16, 0, last);
      break;
    case Recipe::Special:
      if (r.z % 48 == 0) return special(f, n.sign, r.w);
      if (r.z % 48 == 1) return code_of(f, {n.sign, 0, 0});
      break;
    case Recipe::Zeros:
      if (r.z % 2 == 0) return code_of(f, {n.sign, 0, 0});
      n.field = in_range(r.z % 4 == 1 ? last - 1 - spread % 4 : middle - spread % 8, 0, last);
      break;
    case Recipe::Bits:  // where one pattern in 32 or more is no number, most sums would be none
      return any_bits(f, f.exponent < 8 && r.z % 64 != 0 ? r.w & ~(1U << f.mantissa) : r.w);
    case Recipe::Plain:
    case Recipe::Accumulator:
      break;
  }
  // The last pattern of a format without infinities is NaN.
  if (!f.infinity && n.field == last) n.mantissa &= ~1U;
  return code_of(f, n);
}

// Accumulator of output (m, n), in f32 or f16.
constexpr std::uint32_t accumulator_of(const Fields& f, std::uint32_t seed, std::uint32_t tile,
                                       std::uint32_t m, std::uint32_t n) {
  using namespace probes;
  const Draw r = philox({n, m, tile, 2}, seed, 0);
  const int middle = bias(f), last = last_finite(f), spread = static_cast<int>(r.y & 0xFFFFU);
  Number x{r.x & 1U, r.w, in_range(middle - 4 + spread % 12, 0, last)};
  if (r.z % 8 == 0) return code_of(f, {x.sign, 0, 0});
  switch (recipe_of(tile)) {
    case Recipe::Wide:
      x.field = spread % (last + 1);
      break;
    case Recipe::Cancels:
      x.field = in_range(middle - spread % 30, 0, last);
      break;
    case Recipe::Subnormal:
      x.field = spread % 3;
      break;
    case Recipe::Special:
      if (r.z % 16 == 1) return special(f, x.sign, r.w);
      break;
    case Recipe::Accumulator:
      x.field = in_range(middle - 50 + spread % 90, 0, last);
      break;
    case Recipe::Bits:
      return any_bits(f, r.w);
    case Recipe::Plain:
    case Recipe::Zeros:
      break;
  }
  return code_of(f, x);
}

}  // namespace parity::tensorcore
