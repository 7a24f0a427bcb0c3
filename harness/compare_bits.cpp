// Codes, scales and ids: bits against bits, never averaged (tolerance.md §9, §10).
//
// Mismatches are classified. A code one step away is a tie that fell the other way where the
// reference kept the value before rounding (`value` off the grid, exactly midway), a neighbour
// otherwise; a scale one step away is a scale one ulp off; everything else is `other`. All of them
// fail here: what rate of the first kinds is legal is a matter of the contract, not of the
// comparison. Two NaN are equal: the sign of an e4m3 NaN scale is that of 0/0 on the processor.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"
#include "harness/failure.hpp"
#include "harness/numeric/ulp.hpp"

namespace parity {
namespace {

struct Tally {
  std::int64_t ties = 0, neighbours = 0, other = 0, compared = 0;
  std::int64_t total() const { return ties + neighbours + other; }
};

void classify(const ExpectedTensor& expected, std::size_t i, std::uint64_t want, std::uint64_t got,
              Tally& tally) {
  const Dtype dtype = expected.spec.dtype;
  if (ulp_distance(dtype, want, got) > 1) {
    ++tally.other;
    return;
  }
  const double a = decode(dtype, want), b = decode(dtype, got);
  const bool before_rounding = i < expected.value.size() && expected.value[i] != a;
  const bool tie = before_rounding && expected.value[i] - a == b - expected.value[i];
  ++(tie ? tally.ties : tally.neighbours);
}

// What codes mean; those of up to a byte from a table.
class Meaning {
 public:
  explicit Meaning(Dtype dtype) : dtype_(dtype) {
    if (format(dtype).bits > 8) return;
    for (std::uint64_t code = 0; code < 256; ++code) table_.push_back(decode(dtype, code));
  }
  double operator()(std::uint64_t code) const {
    return code < table_.size() ? table_[code] : decode(dtype_, code);
  }

 private:
  Dtype dtype_;
  std::vector<double> table_ = {};
};

std::string describe(const Tally& tally, Role role) {
  const char* near = role == Role::Scales ? "scales one ulp off"
                     : role == Role::Ids  ? "ids one off"
                                          : "neighbouring codes";
  return fmt::format("{} of {} elements differ: {} ties, {} {}, {} other", tally.total(),
                     tally.compared, tally.ties, tally.neighbours, near, tally.other);
}

}  // namespace

void compare_bits(const Comparison& c, TensorRecord& r) {
  const ExpectedTensor& want = c.expected;
  const Dtype dtype = want.spec.dtype;
  const std::size_t bytes = bytes_for(dtype, r.elements);
  if (want.bits.size() != bytes)
    throw Failure(fmt::format("{}: the reference gave {} bytes, {} are due", r.name,
                              want.bits.size(), bytes));
  const Meaning meaning(dtype);
  const auto equal = [&](std::uint64_t a, std::uint64_t b) {
    return a == b || (std::isnan(meaning(a)) && std::isnan(meaning(b)));
  };
  const auto ignored = [&](std::size_t i) { return i < want.ignore.size() && want.ignore[i] != 0; };

  Tally tally;
  double x2 = 0, o2 = 0, xo = 0, e2 = 0, ulps = 0;
  std::int64_t zeros = 0;
  const bool same =
      want.ignore.empty() && std::memcmp(want.bits.data(), c.observed.bytes.data(), bytes) == 0;
  for (std::int64_t i = 0; i < r.elements; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (ignored(at)) {
      ++r.open;
      continue;
    }
    ++tally.compared;
    const std::uint64_t a = load_code(dtype, want.bits.data(), i);
    const std::uint64_t b = same ? a : load_code(dtype, c.observed.bytes.data(), i);
    const double x = meaning(a), o = meaning(b);
    zeros += o == 0 ? 1 : 0;
    if (std::isfinite(x) && std::isfinite(o)) {
      const double e = std::abs(o - x);
      x2 += x * x, o2 += o * o, xo += x * o, e2 += e * e;
      r.max_abs = std::max(r.max_abs, e);
      if (x != 0) r.max_rel = std::max(r.max_rel, e / std::abs(x));
    }
    if (equal(a, b)) continue;
    ++r.differing;
    const auto distance = static_cast<double>(ulp_distance(dtype, a, b));
    r.max_ulp = std::max(r.max_ulp, distance);
    ulps += distance;
    const bool worst = !r.worst || distance > r.worst->ulp;
    const bool shown = c.details && r.worst_points.size() < 10;
    if (worst || shown) {
      const WorstPoint point{.index = coordinates(want.spec.dims, i),
                             .letters = letters(want.spec.dims, i),
                             .truth = x,
                             .candidate = o,
                             .ulp = distance,
                             .bound_used = std::numeric_limits<double>::infinity()};
      if (worst) r.worst = point;
      if (shown) r.worst_points.push_back(point);
    }
    classify(want, at, a, b, tally);
  }
  const auto n = static_cast<double>(std::max<std::int64_t>(tally.compared, 1));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  r.mismatches = tally.total();
  r.zero_fraction = static_cast<double>(zeros) / n;
  r.truth_rms = std::sqrt(x2 / n);
  r.mean_ulp = ulps / n;
  r.rel_l2 = x2 > 0 ? std::sqrt(e2 / x2) : e2 > 0 ? kInfinity : 0;
  r.norm_ratio = x2 > 0 ? std::sqrt(o2 / x2) : o2 > 0 ? kInfinity : 1;
  r.cosine = x2 > 0 && o2 > 0 ? xo / std::sqrt(x2 * o2) : x2 == o2 ? 1 : 0;
  r.bound_used = r.mismatches > 0 ? kInfinity : 0;
  if (tally.compared == 0) {
    r.unproven = "every element is left open by the definition";
    return;
  }
  r.views.push_back(
      {.view = std::string(name(want.spec.role == Role::Codes || want.spec.role == Role::Scales ||
                                        want.spec.role == Role::Ids
                                    ? View::Discrete
                                    : View::Exact)),
       .value = static_cast<double>(r.mismatches),
       .limit = 0,
       .detail = r.mismatches > 0
                     ? describe(tally, want.spec.role) + ", first at " +
                           [&] {
                             for (std::int64_t i = 0; i < r.elements; ++i)
                               if (!ignored(static_cast<std::size_t>(i)) &&
                                   !equal(load_code(dtype, want.bits.data(), i),
                                          load_code(dtype, c.observed.bytes.data(), i)))
                                 return letters(want.spec.dims, i);
                             return std::string();
                           }()
                     : std::string()});
}

}  // namespace parity
