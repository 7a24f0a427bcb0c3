// The pooled sigma, crowding and widening of the base's variants; moments; grids.
#include "harness/noise.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "harness/compare_fixture.hpp"

namespace parity::test {
namespace {

double mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

TEST(Noise, HomogeneousNoisePoolsOverTheRow) {
  const Drawn d = draw({});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_EQ(noise.runs.size(), 9u);
  EXPECT_GT(noise.dof, 500) << "equal scales: hardly any weight on the single element";
  for (const double sigma : noise.sigma) EXPECT_NEAR(sigma, 4e-3, 1.2e-3);
  EXPECT_NEAR(sigma_factor(16384, noise.dof), 6.7, 0.3);
  EXPECT_LT(noise.slices[0].crowding, 1.3);
}

TEST(Noise, ChannelsOfDifferentNoiseHaveAProfile) {
  const Drawn d = draw({.dims = {{"T", 64}, {"V", 32}},
                        .scale = [](std::int64_t i) { return i % 32 < 16 ? 1.0 : 64.0; }});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_GT(noise.dof, 500);
  for (std::size_t i = 0; i < noise.sigma.size(); ++i)
    EXPECT_NEAR(noise.sigma[i] / (i % 32 < 16 ? 4e-3 : 0.256), 1, 0.4);
}

TEST(Noise, ElementsOfDifferentNoiseStandForThemselves) {
  // One element in sixteen, here and there, is eight times as noisy: no row or column says which.
  const auto loud = [](std::int64_t i) {
    return Rng{.seed = 5}.bits(static_cast<std::uint64_t>(i)) % 16 == 0;
  };
  const Drawn d = draw({.dims = {{"T", 64}, {"V", 32}},
                        .scale = [&](std::int64_t i) { return loud(i) ? 8.0 : 1.0; }});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_LT(noise.dof, 16);
  double quiet = 0, noisy = 0, count = 0;
  for (std::size_t i = 0; i < noise.sigma.size(); ++i) {
    const bool is = loud(static_cast<std::int64_t>(i));
    (is ? noisy : quiet) += noise.sigma[i], count += is ? 1 : 0;
  }
  EXPECT_GT(noisy / count, 3 * quiet / (2048 - count));
  EXPECT_GT(sigma_factor(2048, noise.dof), 12) << "and the tail is a Student's";
}

TEST(Noise, ShortRowsJoinTheirNeighboursInTime) {
  // dbeta: two heads, the second ten times noisier. Pooled by head, not by row.
  const Drawn d = draw({.dims = {{"B", 1}, {"T", 64}, {"H", 2}},
                        .scale = [](std::int64_t i) { return i % 2 == 0 ? 1.0 : 10.0; }});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_GT(noise.dof, 30);
  EXPECT_NEAR(noise.sigma[0], 4e-3, 2e-3);
  EXPECT_NEAR(noise.sigma[1], 4e-2, 2e-2);
}

TEST(Noise, AHandfulOfElementsHaveFewDegreesOfFreedom) {
  const Drawn d = draw({.dims = {{"H", 2}}});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_EQ(noise.dof, 9);
  EXPECT_GT(sigma_factor(2, noise.dof), 11) << "a Student's tail, not a normal one";
  EXPECT_EQ(noise.widening, 0);
}

TEST(Noise, CrowdingShowsErrorsThatElementsShare) {
  const Drawn apart = draw({}), together = draw({.shared = 0.7});
  const auto row_crowding = [](const Drawn& d) {
    const std::vector<Slicing> cuts = slicings(d.expected.spec.dims);
    const auto at = std::ranges::find(cuts, "t,h", &Slicing::axis) - cuts.begin();
    return measure_noise(d.base, d.expected).slices[static_cast<std::size_t>(at)].crowding;
  };
  EXPECT_LT(row_crowding(apart), 1.2);
  EXPECT_GT(row_crowding(together), 4);
}

TEST(Noise, WideningIsNeverBelowTheRuleAndTightForLargeTensors) {
  const Drawn d = draw({.dims = {{"T", 256}, {"V", 64}}});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_GE(noise.widening, 1 + 3 / std::sqrt(16384.0));
  EXPECT_LT(noise.widening, 1.1);
  const std::vector<Slicing> cuts = slicings(d.expected.spec.dims);
  for (std::size_t k = 0; k < cuts.size(); ++k)
    for (const double w : noise.slices[k].widening)
      EXPECT_GE(w, 1 + 3 / std::sqrt(static_cast<double>(cuts[k].elements)));
}

TEST(Noise, ABaseThatIsNotFiniteIsSeen) {
  Drawn d = draw({});
  d.base.runs[3][0].value[7] = std::nan("");
  EXPECT_FALSE(measure_noise(d.base, d.expected).finite);
  EXPECT_EQ(d.judged().status, "unproven");
}

TEST(Noise, MeasuredOnceForAllCandidates) {
  Drawn d = draw({});
  const TensorRecord fresh = d.judged();
  measure_noise(d.base, Expected{.tensors = {d.expected}});
  ASSERT_EQ(d.base.noise.size(), 1u);
  measure_noise(d.base, Expected{.tensors = {d.expected}});
  EXPECT_EQ(d.base.noise.size(), 1u);
  const TensorRecord shared = d.judged();
  ASSERT_EQ(shared.views.size(), fresh.views.size());
  for (std::size_t i = 0; i < fresh.views.size(); ++i) {
    EXPECT_EQ(shared.views[i].value, fresh.views[i].value);
    EXPECT_EQ(shared.views[i].limit, fresh.views[i].limit);
  }
}

TEST(Moments, AgreeWithPlainSums) {
  const Grain g{.rows = 7, .columns = 19};
  std::vector<double> x(133), e(133);
  Rng{.seed = 3}.fill_normal(0, x);
  Rng{.seed = 4}.fill_normal(0, e);
  const Moments m = moments(x, e, g);
  double e2 = 0, ex = 0, column = 0, row = 0;
  for (std::size_t i = 0; i < 133; ++i) {
    e2 += e[i] * e[i], ex += e[i] * x[i];
    if (i % 19 == 4) column += e[i] * x[i];
    if (i / 19 == 6) row += e[i];
  }
  EXPECT_NEAR(m.e2, e2, 1e-12);
  EXPECT_NEAR(m.ex, ex, 1e-12);
  EXPECT_NEAR(m.column_ex[4], column, 1e-13);
  EXPECT_NEAR(m.row_e[6], row, 1e-13);
  EXPECT_NEAR(mean(m.row_e2) * 7, e2, 1e-12);
}

TEST(Moments, SharedErrorsWidenTheUncertainty) {
  const Drawn d = draw({.shared = 0.5});
  const Noise noise = measure_noise(d.base, d.expected);
  EXPECT_GT(noise.pooled.mean_error, 3 * noise.pooled.mean_independent);
}

TEST(Noise, WhatAFewRegionsShareCrowdsGainAndMean) {
  // Eight rows are too few for a clustered standard error; the scatter of the variants shows it.
  const Drawn apart = draw({.dims = {{"T", 8}, {"V", 512}}});
  const Drawn shared = draw({.dims = {{"T", 8}, {"V", 512}}, .shared = 0.7});
  EXPECT_LT(measure_noise(apart.base, apart.expected).mean_crowding, 5);
  EXPECT_GT(measure_noise(shared.base, shared.expected).mean_crowding, 20);
}

TEST(Noise, RegionsThatCrowdAreWidenedByThemselves) {
  // The noise of the last rows doubles or halves from run to run, that of the others stands: the
  // mean over all rows would be too little for the former.
  Drawn d = draw({.dims = {{"T", 64}, {"V", 512}}});
  std::uint64_t stream = 0;
  for (Evaluation& run : d.base.runs)
    for (std::int64_t t = 60; t < 64; ++t) {
      const double factor = std::exp2(Rng{.seed = 9}.normal(stream++));
      for (std::int64_t v = 0; v < 512; ++v) {
        const auto i = static_cast<std::size_t>(t * 512 + v);
        double& x = run[0].value[i];
        x = d.expected.value[i] + factor * (x - d.expected.value[i]);
      }
    }
  const SliceNoise rows = measure_noise(d.base, d.expected).slices[0];
  EXPECT_GT(rows.widening[62], 2 * rows.widening[10]);
}

TEST(Moments, ABiasDoesNotHideBehindItself) {
  // Everything scaled by 1.01: the standard error must stay that of the noise.
  const Grain g{.rows = 256, .columns = 64};
  std::vector<double> x(16384), e(16384);
  Rng{.seed = 1}.fill_normal(0, x);
  for (std::size_t i = 0; i < e.size(); ++i) e[i] = 0.01 * x[i];
  const std::vector<Slicing> cuts = slicings({{"T", 256}, {"V", 64}});
  const Uncertainty u = uncertainty(moments(x, e, g), truth_moments(x, g), g, cuts, 1e-10);
  EXPECT_LT(u.gain, 2e-3);
}

}  // namespace
}  // namespace parity::test
