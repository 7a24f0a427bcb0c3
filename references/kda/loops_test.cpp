// The inner loops: the same bits on every instruction set, exponentials, rounding points.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "harness/numeric/philox.hpp"
#include "references/kda/dense.hpp"
#include "references/kda/points.hpp"
#include "references/kda/rows.hpp"

namespace parity::kda {
namespace {

constexpr Rng kRng{7, 0};

std::vector<double> normals(std::size_t n, std::uint64_t from) {
  std::vector<double> x(n);
  kRng.fill_normal(from, x);
  return x;
}
std::vector<float> floats(std::size_t n, std::uint64_t from) {
  const std::vector<double> x = normals(n, from);
  return {x.begin(), x.end()};
}

TEST(Rows, SameBitsOnThisMachinesWidest) {
  for (const std::size_t V : {1UL, 7UL, 8UL, 13UL, 64UL, 129UL}) {
    std::vector<std::vector<double>> results;
    for (const Rows* r : {&kRows, &rows()}) {
      std::vector<double> s = normals(V, 0), a = normals(V, 1000), b = normals(V, 2000),
                          c = normals(V, 3000), d = normals(V, 4000), e = normals(V, 5000);
      r->decay(s.data(), 0.7, 0.3, 2, 3, a.data(), b.data(), c.data(), V);
      r->write(s.data(), 0.2, d.data(), 0.9, a.data(), V);
      r->add(s.data(), -0.4, e.data(), V);
      std::vector<double> all;
      all.push_back(r->adjoint(d.data(), s.data(), 0.5, 0.25, 2, 3, e.data(), a.data(), b.data(),
                               c.data(), V));
      const BackwardSums sums =
          r->close(d.data(), s.data(), 0.8, 0.3,
                   {a.data(), b.data(), c.data(), e.data(), a.data(), b.data()}, V);
      for (const double x :
           {sums.lam_u, sums.state_de, sums.lam_u_error, sums.state_de_error, sums.d_state,
            sums.abs_d_state, sums.lam_error, sums.state_error, r->dot(a.data(), e.data(), V)})
        all.push_back(x);
      for (const auto* v : {&s, &a, &b, &c, &d}) all.insert(all.end(), v->begin(), v->end());
      results.push_back(std::move(all));
    }
    EXPECT_EQ(results[0], results[1]) << V;
  }
}

TEST(Dense, SameBitsOnThisMachinesWidestAndRight) {
  constexpr std::size_t n = 5, m = 37, k = 19;
  const std::vector<float> a = floats(n * k, 0), b = floats(k * m, 1000);
  std::vector<float> plain(n * m), wide(n * m), turned(n * m);
  kDense.multiply(plain.data(), {a.data(), k, 1}, b.data(), n, m, k, nullptr);
  dense().multiply(wide.data(), {a.data(), k, 1}, b.data(), n, m, k, nullptr);
  EXPECT_EQ(plain, wide);
  std::vector<float> at(a.size());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t l = 0; l < k; ++l) at[l * n + i] = a[i * k + l];
  std::vector<std::uint16_t> reversed(k);
  for (std::size_t l = 0; l < k; ++l) reversed[l] = static_cast<std::uint16_t>(k - 1 - l);
  dense().multiply(turned.data(), {at.data(), 1, n}, b.data(), n, m, k, reversed.data());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l)
        sum += static_cast<double>(a[i * k + l]) * static_cast<double>(b[l * m + j]);
      EXPECT_NEAR(plain[i * m + j], sum, 1e-5);
      EXPECT_NEAR(turned[i * m + j], sum, 1e-5);
    }
}

TEST(Dense, Exponentials) {
  std::vector<float> x;
  for (int i = -126; i <= 127; ++i) x.push_back(static_cast<float>(i));
  std::vector<float> y(x.size());
  dense().exp2(y.data(), x.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y[i], std::ldexp(1.0F, static_cast<int>(x[i])));
  x = floats(1000, 9);
  for (float& v : x) v *= 30;
  y.resize(x.size());
  std::vector<float> plain(x.size());
  dense().exp2(y.data(), x.data(), x.size());
  kDense.exp2(plain.data(), x.data(), x.size());
  EXPECT_EQ(y, plain);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(static_cast<double>(y[i]) / want, 1, 2 * 0x1p-24) << x[i];
  }
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> ends = {-1e9F, -inf, 1e9F, inf, std::numeric_limits<float>::quiet_NaN()};
  y.resize(ends.size());
  dense().exp2(y.data(), ends.data(), ends.size());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], inf);
  EXPECT_EQ(y[3], inf);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST(Points, RoundAsTheFormatsDo) {
  std::vector<float> x = floats(4096, 77);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(x[i], static_cast<int>(i % 200) - 100);
  for (const Dtype to : {Dtype::BF16, Dtype::TF32, Dtype::F16})
    for (const Rounding mode : {Rounding::NearestEven, Rounding::TowardZero}) {
      std::vector<float> y = x;
      Point{to, mode}(y, Noise{});
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(static_cast<double>(y[i]), round_to(to, static_cast<double>(x[i]), mode)) << x[i];
    }
}

TEST(Points, VariantsErrAsMuchAsNearest) {
  std::vector<float> x = floats(20000, 5), nearest = x, shifted = x, again = x;
  Point{Dtype::BF16}(nearest, Noise{});
  Point{Dtype::BF16}(shifted, Noise{.seed = 3, .on = true});
  Point{Dtype::BF16}(again, Noise{.seed = 3, .on = true});
  EXPECT_EQ(shifted, again);  // a function of the value
  double a = 0, b = 0, ab = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = static_cast<double>(nearest[i]) - static_cast<double>(x[i]),
                 f = static_cast<double>(shifted[i]) - static_cast<double>(x[i]);
    a += e * e;
    b += f * f;
    ab += e * f;
  }
  EXPECT_NEAR(b / a, 1, 0.05);
  EXPECT_NEAR(ab / a, 0, 0.05);  // and independent of the nearest one's
  std::vector<float> on_grid = nearest;
  Point{Dtype::BF16}(on_grid, Noise{.seed = 3, .on = true});
  EXPECT_EQ(on_grid, nearest);
}

}  // namespace
}  // namespace parity::kda
