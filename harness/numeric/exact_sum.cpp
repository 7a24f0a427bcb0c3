#include "harness/numeric/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace parity {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kLimbMask = 0xFFFFFFFFu;

// |x| = significand * 2^exponent, of a finite x.
struct Parts {
  std::uint64_t significand = 0;
  int exponent = 0;
  bool negative = false;
};

Parts parts(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto field = static_cast<int>((bits >> 52) & 0x7FFu);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFu;
  return {.significand = field == 0 ? fraction : fraction | (std::uint64_t{1} << 52),
          .exponent = (field == 0 ? 1 : field) - 1075,
          .negative = (bits >> 63) != 0};
}

}  // namespace

void ExactSum::add_shifted(std::uint64_t high, std::uint64_t low, int exponent, bool negative) {
  const int position = exponent - kLowest;
  const auto limb = static_cast<std::size_t>(position / 32);
  const int shift = position % 32;
  // 106 + 31 bits at most: five limbs.
  const Wide wide = (Wide{high} << 64) | low;
  Wide rest = wide;
  std::int64_t pieces[5];
  pieces[0] = static_cast<std::int64_t>((static_cast<std::uint64_t>(rest) << shift) & kLimbMask);
  rest >>= 32 - shift;
  for (int k = 1; k < 5; ++k) {
    pieces[k] = static_cast<std::int64_t>(static_cast<std::uint64_t>(rest) & kLimbMask);
    rest >>= 32;
  }
  for (std::size_t k = 0; k < 5; ++k) limbs_[limb + k] += negative ? -pieces[k] : pieces[k];
  if (--until_carry_ == 0) carry();
}

void ExactSum::carry() {
  std::int64_t carried = 0;
  for (std::size_t k = 0; k + 1 < limbs_.size(); ++k) {
    const std::int64_t total = limbs_[k] + carried;
    limbs_[k] = static_cast<std::int64_t>(static_cast<std::uint64_t>(total) & kLimbMask);
    carried = (total - limbs_[k]) >> 32;  // exact: the difference is a multiple of 2^32
  }
  limbs_.back() += carried;  // the top limb keeps the sign
  until_carry_ = std::int64_t{1} << 29;
}

void ExactSum::add(double x) {
  if (!std::isfinite(x)) {
    nan_ = nan_ || std::isnan(x);
    plus_infinity_ = plus_infinity_ || x > 0;
    minus_infinity_ = minus_infinity_ || x < 0;
    return;
  }
  const Parts p = parts(x);
  if (p.significand != 0) add_shifted(0, p.significand, p.exponent, p.negative);
}

void ExactSum::add_product(double x, double y) {
  if (!std::isfinite(x) || !std::isfinite(y)) return add(x * y);
  const Parts p = parts(x);
  const Parts q = parts(y);
  const Wide product = Wide{p.significand} * q.significand;
  if (product == 0) return;
  add_shifted(static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product),
              p.exponent + q.exponent, p.negative != q.negative);
}

void ExactSum::add(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();  // limbs within 32 bits, so that this addition counts as one
  for (std::size_t k = 0; k < limbs_.size(); ++k) limbs_[k] += carried.limbs_[k];
  nan_ = nan_ || other.nan_;
  plus_infinity_ = plus_infinity_ || other.plus_infinity_;
  minus_infinity_ = minus_infinity_ || other.minus_infinity_;
  if (--until_carry_ == 0) carry();
}

double ExactSum::value() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (nan_ || (plus_infinity_ && minus_infinity_)) return std::numeric_limits<double>::quiet_NaN();
  if (plus_infinity_) return kInfinity;
  if (minus_infinity_) return -kInfinity;

  ExactSum work = *this;
  work.carry();
  const bool negative = work.limbs_.back() < 0;
  if (negative) {
    for (std::int64_t& limb : work.limbs_) limb = -limb;
    work.carry();
  }
  auto top = static_cast<int>(work.limbs_.size()) - 1;
  while (top >= 0 && work.limbs_[static_cast<std::size_t>(top)] == 0) --top;
  if (top < 0) return 0.0;

  // The magnitude's limbs hold 32 bits each by now. `bits(from)`: the 64 above position `from`.
  const auto limb = [&work](int k) {
    const bool inside = k >= 0 && k < kLimbs;
    return inside ? static_cast<std::uint64_t>(work.limbs_[static_cast<std::size_t>(k)]) : 0;
  };
  const auto bits = [&limb](int from) {
    const int k = from / 32;
    const Wide wide = (Wide{limb(k + 2)} << 64) | (Wide{limb(k + 1)} << 32) | limb(k);
    return static_cast<std::uint64_t>(wide >> (from % 32));
  };
  const int highest = 32 * top + static_cast<int>(std::bit_width(limb(top))) - 1;
  // The last bit that is kept: 53 significant ones, or the smallest subnormal's place.
  const int subnormal = -1074 - kLowest;
  const int last = highest - 52 > subnormal ? highest - 52 : subnormal;
  std::uint64_t kept = last > highest ? 0 : bits(last);
  if (last > 0) {
    const int below = last - 1;
    const bool half = (bits(below) & 1u) != 0;
    bool sticky = (limb(below / 32) & ((std::uint64_t{1} << (below % 32)) - 1)) != 0;
    for (int k = below / 32 - 1; k >= 0 && !sticky; --k) sticky = limb(k) != 0;
    if (half && (sticky || (kept & 1u) != 0)) ++kept;
  }
  const double magnitude =
      std::ldexp(static_cast<double>(kept), last + kLowest);  // exact, or overflows
  return negative ? -magnitude : magnitude;
}

double exact_sum(std::span<const double> values) {
  ExactSum sum;
  for (const double x : values) sum.add(x);
  return sum.value();
}

double exact_dot(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size()) throw std::invalid_argument("exact_dot: sizes differ");
  ExactSum sum;
  for (std::size_t i = 0; i < x.size(); ++i) sum.add_product(x[i], y[i]);
  return sum.value();
}

}  // namespace parity
