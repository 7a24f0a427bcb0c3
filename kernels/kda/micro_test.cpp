// The inner loops against plain f64 loops, and the instruction sets against each other.
#include "kernels/kda/micro.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace parity::kda_kernel {
namespace {

std::vector<const Micro*> tables() {
  std::vector<const Micro*> list;
  for (const char* name : {"portable", "avx2", "avx512"})
    if (const Micro* table = find_micro(name)) list.push_back(table);
  return list;
}

std::vector<float> values(std::int64_t n, unsigned seed, double low = -1, double high = 1) {
  std::vector<float> x(static_cast<std::size_t>(n));
  std::uint32_t state = seed * 2654435761u + 1;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(low + (high - low) * (state >> 8) * 0x1p-24);
  }
  return x;
}

double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  const double ulp = std::max(std::abs(static_cast<double>(std::nextafter(rounded, INFINITY)) -
                                       static_cast<double>(rounded)),
                              0x1p-149);
  return std::abs(static_cast<double>(got) - want) / ulp;
}

TEST(KdaMicro, DispatchKnowsItsNames) {
  EXPECT_EQ(find_micro("portable"), &kPortable);
  EXPECT_EQ(find_micro("sse9"), nullptr);
  EXPECT_EQ(best_micro().name, tables().back()->name);
}

TEST(KdaMicro, ProductOverAllShapesStartsAndBands) {
  for (const Micro* m : tables())
    for (const std::int64_t rows : {1, 3, 6, 8, 13, 16})
      for (const std::int64_t depth : {1, 7, 16})
        for (const bool turned : {false, true})
          for (const Onto onto : {Onto::Zero, Onto::Keep, Onto::Add, Onto::ScaleRows})
            for (const Band band : {Band::Full, Band::Lower, Band::Upper}) {
              const std::int64_t cols = 48, lda = 16, ldb = 64, ldo = 48;
              std::vector<float> a = values(16 * lda, 1), b = values(16 * ldb, 2),
                                 out = values(16 * ldo, 3), scale = values(16, 4);
              const std::vector<float> before = out;
              const auto element = [&](std::int64_t i, std::int64_t k) -> float& {
                return a[static_cast<std::size_t>(turned ? k * lda + i : i * lda + k)];
              };
              for (std::int64_t i = 0; i < rows; ++i)
                for (std::int64_t k = 0; k < depth; ++k)
                  if ((band == Band::Lower && k > i) || (band == Band::Upper && k < i))
                    element(i, k) = 0;
              m->product({.m = rows,
                          .n = cols,
                          .k = depth,
                          .a = a.data(),
                          .a_row = turned ? 1 : lda,
                          .a_col = turned ? lda : 1,
                          .b = b.data(),
                          .ldb = ldb,
                          .out = out.data(),
                          .ldo = ldo,
                          .onto = onto,
                          .row_scale = scale.data(),
                          .band = band});
              for (std::int64_t i = 0; i < 16; ++i)
                for (std::int64_t j = 0; j < cols; ++j) {
                  const auto at = static_cast<std::size_t>(i * ldo + j);
                  if (i >= rows) {
                    ASSERT_EQ(out[at], before[at]);
                    continue;
                  }
                  double want = onto == Onto::Zero ? 0 : static_cast<double>(before[at]);
                  if (onto == Onto::ScaleRows)
                    want *= static_cast<double>(scale[static_cast<std::size_t>(i)]);
                  for (std::int64_t k = 0; k < depth; ++k)
                    want += static_cast<double>(element(i, k)) *
                            static_cast<double>(b[static_cast<std::size_t>(k * ldb + j)]);
                  ASSERT_NEAR(out[at], want, 4e-6)
                      << m->name << " " << rows << "x" << depth << " row " << i;
                }
            }
}

TEST(KdaMicro, TwoProductsTermByTermFromTheLastOne) {
  for (const Micro* m : tables()) {
    const std::vector<float> a = values(12 * 16, 21), b = values(12 * 32, 22);
    std::vector<float> out(10 * 32);
    m->product({.m = 10,
                .n = 32,
                .k = 6,
                .a = a.data() + 5 * 16,
                .a_row = 1,
                .a_col = -16,
                .b = b.data() + 5 * 32,
                .ldb = -32,
                .out = out.data(),
                .ldo = 32,
                .a2 = a.data() + 11 * 16,
                .b2 = b.data() + 11 * 32});
    for (std::size_t i = 0; i < 10; ++i)
      for (std::size_t j = 0; j < 32; ++j) {
        double want = 0;
        for (std::size_t k = 0; k < 12; ++k)
          want += static_cast<double>(a[k * 16 + i]) * static_cast<double>(b[k * 32 + j]);
        ASSERT_NEAR(out[i * 32 + j], want, 4e-6) << m->name;
      }
  }
}

TEST(KdaMicro, TransposePadsWithZeros) {
  for (const Micro* m : tables()) {
    const std::vector<float> in = values(21 * 32, 5);
    std::vector<float> out(32 * 48, 7.0f);
    m->transpose(in.data(), 32, 21, 32, out.data(), 48);
    for (std::size_t c = 0; c < 32; ++c)
      for (std::size_t r = 0; r < 32; ++r)
        ASSERT_EQ(out[c * 48 + r], r < 21 ? in[r * 32 + c] : 0.0f) << m->name;
  }
}

TEST(KdaMicro, LoadAndStoreKeepWhatTheyShouldNotTouch) {
  for (const Micro* m : tables()) {
    const std::vector<float> in = values(3 * 40, 6);
    std::vector<float> rows(3 * 32, 9.0f), back(3 * 40, 9.0f);
    m->load({.data = in.data(), .stride = 40}, 3, 19, rows.data(), 32);
    for (std::size_t c = 0; c < 32; ++c) ASSERT_EQ(rows[32 + c], c < 19 ? in[40 + c] : 0.0f);
    m->store(rows.data(), 32, 3, 19, {.data = back.data(), .stride = 40});
    for (std::size_t c = 0; c < 40; ++c) ASSERT_EQ(back[40 + c], c < 19 ? in[40 + c] : 9.0f);
  }
}

TEST(KdaMicro, Bf16RoundsToNearestEven) {
  const float cases[16] = {1,         1.00390625f, 1.01171875f, -1.00390625f, 0,   -0.0f,
                           3.4e38f,   1e-40f,      INFINITY,    -INFINITY,    NAN, 1.003907f,
                           0x1p-133f, 0x1.8p-133f, 2,           1e30f};
  const std::uint16_t want[16] = {0x3f80, 0x3f80, 0x3f82, 0xbf80, 0,      0x8000, 0x7f80, 0x0001,
                                  0x7f80, 0xff80, 0x7fc0, 0x3f81, 0x0001, 0x0002, 0x4000, 0x714a};
  for (const Micro* m : tables()) {
    std::uint16_t got[16];
    float back[16];
    m->store(cases, 16, 1, 16, {.data = got, .bf16 = true, .stride = 16});
    for (int i = 0; i < 16; ++i) ASSERT_EQ(got[i], want[i]) << m->name << " element " << i;
    m->load({.data = got, .bf16 = true, .stride = 16}, 1, 16, back, 16);
    ASSERT_EQ(back[2], 1.015625f);
    ASSERT_TRUE(std::isnan(back[10]));
  }
}

TEST(KdaMicro, ExponentialIsWithinAnUlpAndExactWhereItMatters) {
  for (const Micro* m : tables()) {
    const std::int64_t n = 1 << 16;
    std::vector<float> x = values(n, 8, -104, 88.7), y(x.size());
    for (std::size_t i = 0; i < x.size() / 2; ++i)
      x[i] = static_cast<float>(-5.0 * static_cast<double>(i) / 32768);
    m->exp(x.data(), n, y.data());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, ulps(y[i], std::exp(static_cast<double>(x[i]))));
    EXPECT_LT(worst, 1.0) << m->name;

    float special[16] = {0, -0.0f, -1000, 1000, INFINITY, -INFINITY, NAN, -103.9f}, out[16];
    for (int k = 1; k <= 8; ++k) special[7 + k] = static_cast<float>(-k * std::log(2.0));
    m->exp(special, 16, out);
    EXPECT_EQ(out[0], 1.0f);
    EXPECT_EQ(out[1], 1.0f);
    EXPECT_EQ(out[2], 0.0f);
    EXPECT_EQ(out[3], INFINITY);
    EXPECT_EQ(out[4], INFINITY);
    EXPECT_EQ(out[5], 0.0f);
    EXPECT_TRUE(std::isnan(out[6]));
    EXPECT_EQ(out[7], std::numeric_limits<float>::denorm_min());
    for (int k = 1; k <= 8; ++k) {
      // -k ln 2 rounded to f32 is not -k ln 2: a power of two where the exponential of the stored
      // value rounds to one.
      EXPECT_EQ(out[7 + k], static_cast<float>(std::exp(static_cast<double>(special[7 + k]))))
          << m->name << " k = " << k;
      if ((k & (k - 1)) == 0) {
        EXPECT_EQ(out[7 + k], std::ldexp(1.0f, -k)) << m->name;
      }
    }
  }
}

TEST(KdaMicro, GatesAndTheirParts) {
  for (const Micro* m : tables()) {
    const std::int64_t n = 4096;
    const std::vector<float> x = values(n, 9, -30, 30);
    std::vector<float> value(x.size()), complement(x.size());
    m->sigmoid(x.data(), n, value.data(), complement.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LT(ulps(value[i], 1 / (1 + std::exp(-static_cast<double>(x[i])))), 3)
          << m->name << " " << x[i];
      ASSERT_LT(ulps(complement[i], 1 / (1 + std::exp(static_cast<double>(x[i])))), 3)
          << m->name << " " << x[i];
    }
    std::vector<float> a = x, g(x.size());
    m->decay({.kind = GateKind::Softplus, .coefficient = 1.5f}, a.data(), n, 1, n, g.data());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_LT(ulps(g[i], -1.5 * std::log1p(std::exp(static_cast<double>(x[i])))), 4)
          << m->name << " " << x[i];
    a = x;
    m->decay({.kind = GateKind::Lower, .coefficient = 2, .lower = -5}, a.data(), n, 1, n, g.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = -5 / (1 + std::exp(-2 * static_cast<double>(x[i])));
      ASSERT_LT(ulps(g[i], want), 4) << m->name << " " << x[i];
      ASSERT_LT(ulps(a[i], std::exp(static_cast<double>(g[i]))), 1) << m->name;
    }
  }
}

TEST(KdaMicro, DecayProductsAroundTheAnchor) {
  for (const Micro* m : tables()) {
    const std::int64_t ld = 16;
    std::vector<float> a = values(9 * ld, 10, 0.1, 1), out(a.size(), -1.0f);
    m->decay_products({.a = a.data(),
                       .out = out.data(),
                       .ld = ld,
                       .cols = 16,
                       .first = 2,
                       .middle = 5,
                       .last = 8});
    const auto at = [&](const std::vector<float>& x, std::size_t row) {
      return static_cast<double>(x[row * 16 + 3]);
    };
    EXPECT_EQ(at(out, 1), -1);
    EXPECT_NEAR(at(out, 2), at(a, 3) * at(a, 4), 1e-7);
    EXPECT_EQ(at(out, 4), 1);
    EXPECT_EQ(at(out, 5), at(a, 5));
    EXPECT_NEAR(at(out, 7), at(a, 5) * at(a, 6) * at(a, 7), 1e-7);
    EXPECT_EQ(at(out, 8), -1);
  }
}

// Leaf of 16 rows and 48 channels: scores and their gradients against sums over pairs in f64.
TEST(KdaMicro, LeafScoresAndGradients) {
  for (const Micro* m : tables())
    for (const std::int64_t rows : {1, 5, 16}) {
      const std::int64_t ld = 48;
      const std::vector<float> q = values(16 * ld, 11), k = values(16 * ld, 12),
                               a = values(16 * ld, 13, 0.5, 1);
      std::vector<float> sq(16 * 16, 9.0f), sk(16 * 16, 9.0f), da = values(256, 14),
                                                               dn = values(256, 15);
      m->leaf_scores({.q = q.data(),
                      .k = k.data(),
                      .a = a.data(),
                      .ld = ld,
                      .cols = ld,
                      .rows = rows,
                      .sign = -1,
                      .scores_q = sq.data(),
                      .scores_k = sk.data(),
                      .ldc = 16});
      std::vector<float> dq(q.size()), dk(q.size()), dg(q.size());
      m->leaf_grad({.q = q.data(),
                    .k = k.data(),
                    .a = a.data(),
                    .ld = ld,
                    .cols = ld,
                    .rows = rows,
                    .d_scores_q = da.data(),
                    .d_scores_k = dn.data(),
                    .ldc = 16,
                    .dq = dq.data(),
                    .dk = dk.data(),
                    .dg = dg.data()});
      std::vector<double> want_q(q.size()), want_k(q.size()), want_g(q.size());
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < 16; ++j) {
          double with_q = 0, with_k = 0;
          for (std::int64_t d = 0; j <= i && d < ld; ++d) {
            const auto ai = static_cast<std::size_t>(i * ld + d),
                       aj = static_cast<std::size_t>(j * ld + d),
                       at = static_cast<std::size_t>(i * 16 + j);
            double decay = 1;
            for (std::int64_t t = j + 1; t <= i; ++t)
              decay *= static_cast<double>(a[static_cast<std::size_t>(t * ld + d)]);
            const double dA = static_cast<double>(da[at]),
                         dN = j < i ? static_cast<double>(dn[at]) : 0;
            const double qi = static_cast<double>(q[ai]), ki = static_cast<double>(k[ai]),
                         kj = static_cast<double>(k[aj]);
            with_q += qi * kj * decay;
            if (j < i) with_k -= ki * kj * decay;
            want_q[ai] += dA * kj * decay;
            want_k[ai] += dN * kj * decay;
            want_k[aj] += (dA * qi + dN * ki) * decay;
            for (std::int64_t t = j + 1; t <= i; ++t)
              want_g[static_cast<std::size_t>(t * ld + d)] += (dA * qi + dN * ki) * kj * decay;
          }
          ASSERT_NEAR(sq[static_cast<std::size_t>(i * 16 + j)], with_q, 5e-6) << m->name;
          ASSERT_NEAR(sk[static_cast<std::size_t>(i * 16 + j)], with_k, 5e-6) << m->name;
        }
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows * ld); ++i) {
        ASSERT_NEAR(dq[i], want_q[i], 5e-6) << m->name;
        ASSERT_NEAR(dk[i], want_k[i], 5e-6) << m->name;
        ASSERT_NEAR(dg[i], want_g[i], 1e-5) << m->name;
      }
    }
}

TEST(KdaMicro, Avx2AndAvx512GiveTheSameBits) {
  const Micro *narrow = find_micro("avx2"), *wide = find_micro("avx512");
  if (!narrow || !wide) GTEST_SKIP() << "needs AVX2 and AVX-512";
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  };
  const std::vector<float> x = values(4096, 16, -110, 90);
  std::vector<float> one(4096), two(4096);
  narrow->exp(x.data(), 4096, one.data());
  wide->exp(x.data(), 4096, two.data());
  EXPECT_TRUE(same(one, two));
  std::vector<float> rows = values(48 * 80, 17), again = rows;
  std::vector<float> rstd(48), rstd_again(48);
  narrow->normalise(rows.data(), 80, 48, 80, 1e-6f, rstd.data());
  wide->normalise(again.data(), 80, 48, 80, 1e-6f, rstd_again.data());
  EXPECT_TRUE(same(rows, again));
  EXPECT_TRUE(same(rstd, rstd_again));
}

}  // namespace
}  // namespace parity::kda_kernel
