// Rows of exact probes: values whose sums, norms and products are exact in every order and at every
// rounding point. A norm of +-2^20 is a sign (its eps is lost beside 2^40, in fp64 too), a logit of
// +-1024 shuts or opens a sigmoid for good (exp(-1024) is zero in fp64), a matrix with one entry a
// row picks.
#pragma once

#include <algorithm>
#include <span>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::exact {

inline constexpr double kLoud = 0x1p20, kShut = 1024;

inline double sign(const RowDraw& d, std::size_t i) {
  return d.rng.integer(static_cast<std::uint64_t>(d.first) + i, 0, 1) == 0 ? -1 : 1;
}

inline void constant(std::span<double> out, double value) { std::ranges::fill(out, value); }

inline void signs(const RowDraw& d, std::span<double> out, double size = 1) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = size * sign(d, i);
}

// Integers of [-largest, largest].
inline void integers(const RowDraw& d, std::span<double> out, std::int64_t largest = 1) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(
        d.rng.integer(static_cast<std::uint64_t>(d.first) + i, -largest, largest));
}

// One entry, in the column of the row's own number counted from `first` among `columns`.
inline void pick(const RowDraw& d, std::span<double> out, double value, std::size_t first = 0,
                 std::size_t columns = 0) {
  constant(out, 0);
  if (columns == 0) columns = out.size() - first;
  out[first + static_cast<std::size_t>(d.row) % columns] = value;
}
inline void pick_signed(const RowDraw& d, std::span<double> out, double size = 1,
                        std::size_t first = 0, std::size_t columns = 0) {
  pick(d, out, size * sign(d, 0), first, columns);
}

// One sign somewhere: a cotangent that reaches each sum once.
inline void lone_sign(const RowDraw& d, std::span<double> out) {
  constant(out, 0);
  const auto at = d.rng.integer(static_cast<std::uint64_t>(d.first) + out.size() + 1'000'000, 0,
                                static_cast<std::int64_t>(out.size()) - 1);
  out[static_cast<std::size_t>(at)] = sign(d, 0);
}

}  // namespace parity::exact
