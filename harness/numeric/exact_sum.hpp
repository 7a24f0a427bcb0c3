// Sums and dot products of doubles without any rounding but the last: a fixed-point accumulator as
// wide as the products of all doubles (Kulisch), so the result is the correctly rounded one and
// does not depend on the order.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace parity {

class ExactSum {
 public:
  void add(double x);
  void add_product(double x, double y);
  void add(const ExactSum& other);

  // Nearest even of the exact sum. NaN if a NaN, or infinities of both signs (or 0 * infinity),
  // went in; a sum of zeros alone, or one that cancels, is +0.
  [[nodiscard]] double value() const;

 private:
  // Limb k weighs 2^(32 k + kLowest). Each holds 32 bits and a signed reserve for 2^29 additions
  // between carries.
  static constexpr int kLowest = -2176;  // below the square of the smallest subnormal, 2^-2148
  static constexpr int kLimbs =
      144;  // up to 2^2432: 2^2048 and more additions than fit into a lifetime

  void add_shifted(std::uint64_t high, std::uint64_t low, int exponent, bool negative);
  void carry();

  std::array<std::int64_t, kLimbs> limbs_ = {};
  std::int64_t until_carry_ = std::int64_t{1} << 29;
  bool nan_ = false;
  bool plus_infinity_ = false;
  bool minus_infinity_ = false;
};

[[nodiscard]] double exact_sum(std::span<const double> values);
// Both of the same size.
[[nodiscard]] double exact_dot(std::span<const double> x, std::span<const double> y);

}  // namespace parity
