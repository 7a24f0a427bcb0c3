#include "harness/drift/leave_one_out.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "harness/numeric/philox.hpp"

namespace parity::drift {
namespace {

double median(std::vector<double> v) {
  std::ranges::sort(v);
  const std::size_t n = v.size();
  return n % 2 ? v[n / 2] : v[n / 2 - 1] / 2 + v[n / 2] / 2;
}

// By its definition, one set at a time.
Spread slowly(std::span<const double> values, std::size_t left_out) {
  std::vector<double> others, distances;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i != left_out) others.push_back(values[i]);
  const double centre = median(others);
  for (const double v : others) distances.push_back(v == centre ? 0 : std::abs(v - centre));
  return {centre, 1.4826022185056018 * median(distances)};
}

void expect_like_definition(std::span<const double> values) {
  LeaveOneOut fast;
  const std::span<const Spread> spreads = fast.of(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Spread slow = slowly(values, i);
    EXPECT_EQ(spreads[i].centre, slow.centre) << i << " of " << values.size();
    EXPECT_EQ(spreads[i].scale, slow.scale) << i << " of " << values.size();
  }
}

TEST(LeaveOneOut, IsTheDefinitionForEverySizeAndForTies) {
  for (std::size_t n = 2; n < 40; ++n)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Rng rng{.seed = seed, .stream = n};
      std::vector<double> values(n), few(n);
      rng.fill_normal(0, values);
      for (std::size_t i = 0; i < n; ++i)
        few[i] = static_cast<double>(rng.integer(1000 + i, 0, 3));  // many equal ones
      expect_like_definition(values);
      expect_like_definition(few);
    }
}

TEST(LeaveOneOut, InfinitiesAreFarAwayAndNothingElse) {
  const double inf = std::numeric_limits<double>::infinity();
  LeaveOneOut fast;
  const std::vector<double> values = {1, inf, 2, 3, 4};
  const std::span<const Spread> spreads = fast.of(values);
  EXPECT_EQ(spreads[1].centre, 2.5);
  EXPECT_EQ(spreads[0].centre, 3.5);
  EXPECT_FALSE(std::isnan(spreads[0].scale));
}

TEST(LeaveOneOut, OneValueHasNoOthers) {
  LeaveOneOut fast;
  EXPECT_EQ(fast.of(std::vector<double>{7})[0].scale, 0);
}

}  // namespace
}  // namespace parity::drift
