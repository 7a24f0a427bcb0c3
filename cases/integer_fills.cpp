#include "cases/integer_fills.hpp"

#include <cmath>

#include "cases/quantize_fills.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::integer_fills {
namespace {

bool is_noise(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  return d.spec.role == Role::Cotangent;
}

void normal(const RowDraw& d, std::span<double> out) { (void)is_noise(d, out); }

void heavy_tail(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  for (double& x : out) x = x * x * x;
}

// Integers with halves from -8 to 7.5, in an order in which each group of 32 has both its ends: the
// scale of a symmetric int4 group is 1 where 7.5 is its largest size, and so on for other divisors.
double half_step(const RowDraw& d, std::size_t i) {
  const std::int64_t at = d.first + static_cast<std::int64_t>(i);
  return static_cast<double>((at * 7 + d.row * 3) % 31) / 2 - 7.5;
}

void ties(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::ldexp(half_step(d, i), static_cast<int>(d.row % 5) - 2);
}

// Even rows: groups with the ends of int4; odd rows: all of int8's halves, one scale a row.
void odd_ties(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  if (d.row % 2 == 1) {
    const double scale = d.rng.split(2).uniform(static_cast<std::uint64_t>(d.row), 0.5, 2.0);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = scale * (static_cast<double>((i * 37 + 11) % 509) - 254) / 2;
    out[0] = 127 * scale;
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto group = static_cast<std::uint64_t>((d.first + static_cast<std::int64_t>(i)) / 32);
    out[i] = half_step(d, i) * d.rng.split(1).uniform(group, 0.5, 2.0);
  }
}

void positive(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  for (double& x : out) x = 3 + std::abs(x);
}

void negative(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  for (double& x : out) x = -2 - std::abs(x);
}

void zeros(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (d.row % 2 == 1 || i / 32 % 2 == 1) out[i] = i % 3 == 0 ? -0.0 : 0.0;
}

void tiny(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  const double size = d.row % 2 == 0 ? 0x1p-128 : 1e-8;
  for (double& x : out) x *= size;
}

void alternating(const RowDraw& d, std::span<double> out) {
  if (is_noise(d, out)) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = (static_cast<std::size_t>(d.first) + i) % 61;
    out[i] = (i % 2 == 0 ? 1.0 : -1.0) * (0.1 + static_cast<double>(at) * 0.1);
  }
}

}  // namespace

const Fill kNormal{"normal", "the usual case", normal};
const Fill kHeavyTail{"heavy_tail", "most of a group near zero", heavy_tail};
const Fill kTies{"int_ties", "x on the midpoints of the integers and on the clipped ends", ties,
                 true};
const Fill kOddTies{"int_odd_ties", "midpoints under scales of any mantissa: x/s and x (1/s) part",
                    odd_ties, true};
const Fill kPositive{"int_positive", "zero lies outside of the data's range", positive, true};
const Fill kNegative{"int_negative", "all negative: the largest size is the minimum", negative,
                     true};
const Fill kZeros{"int_zeros", "groups of zeros: 0/0 without a lower bound", zeros, true};
const Fill kTiny{"int_tiny", "scales below their lower bounds", tiny, true};
const Fill kAlternating{"alternating", "order inside a group shows", alternating, true};
const Fill kCorners{
    "corners", "ties, one-sided and zero groups, lower bounds, a few rows each",
    quantize_fills::in_turn<odd_ties, odd_ties, positive, negative, odd_ties, odd_ties, ties, zeros,
                            odd_ties, odd_ties, tiny, tiny, odd_ties, odd_ties, alternating, ties>,
    true};

}  // namespace parity::integer_fills
