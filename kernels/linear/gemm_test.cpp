// The fused product: every instruction set within the sum's bound of a plain double product, tails
// of rows and columns, any number of threads bit for bit.
#include "kernels/linear/gemm.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity::linear_kernel {
namespace {

struct Problem {
  std::int64_t M = 0, N = 0, K = 0;
  bool e2m1 = true;
  std::vector<float> x = {}, scales = {};
  std::vector<std::uint8_t> codes = {}, bytes = {};
  Weights weights() const {
    return {.N = N,
            .K = K,
            .group = e2m1 ? 16 : 32,
            .codes = codes.data(),
            .bytes = e2m1 ? bytes.data() : nullptr,
            .scales = e2m1 ? nullptr : scales.data(),
            .table = e2m1 ? kE2m1Values : kInt4Values};
  }
};

Problem problem(std::int64_t M, std::int64_t N, std::int64_t K, bool e2m1) {
  Problem p{.M = M, .N = N, .K = K, .e2m1 = e2m1};
  const Rng rng{7, e2m1 ? 1U : 2U};
  for (std::int64_t i = 0; i < M * K; ++i)
    p.x.push_back(static_cast<float>(rng.normal(static_cast<std::uint64_t>(i))));
  for (std::int64_t i = 0; i < N * K / 2; ++i)
    p.codes.push_back(static_cast<std::uint8_t>(rng.bits(static_cast<std::uint64_t>(i))));
  for (std::int64_t i = 0; i < N * K / 16; ++i) {
    p.bytes.push_back(static_cast<std::uint8_t>(rng.bits(static_cast<std::uint64_t>(i)) % 0x7F));
    p.scales.push_back(static_cast<float>(rng.uniform01(static_cast<std::uint64_t>(i))) + 0.1F);
  }
  return p;
}

std::vector<float> product(const Problem& p, const Steps& steps, int threads) {
  std::vector<float> y(static_cast<std::size_t>(p.M * p.N), std::nanf(""));
  multiply(steps, threads, {.x = p.x.data(), .M = p.M, .y = y.data(), .ldy = p.N}, p.weights());
  return y;
}

TEST(FusedProduct, WithinTheBoundOfItsSum) {
  for (const bool e2m1 : {true, false}) {
    for (const std::int64_t M : {1, 5, 13}) {
      const Problem p = problem(M, 37, 96, e2m1);
      for (const auto& [needs, steps] :
           {std::pair{"", &kPlainSteps}, std::pair{"avx2", &kAvx2Steps},
            std::pair{"avx512", &kAvx512Steps}}) {
        if (!missing_capability(needs).empty()) continue;
        const std::vector<float> y = product(p, *steps, 1);
        EXPECT_EQ(y, product(p, *steps, 3));
        for (std::int64_t m = 0; m < M; ++m)
          for (std::int64_t n = 0; n < p.N; ++n) {
            double sum = 0, size = 0;
            for (std::int64_t k = 0; k < p.K; ++k) {
              const std::uint8_t byte = p.codes[static_cast<std::size_t>((n * p.K + k) / 2)];
              const std::size_t g =
                  static_cast<std::size_t>(n * (p.K / (e2m1 ? 16 : 32)) + k / (e2m1 ? 16 : 32));
              const double scale =
                  static_cast<double>(e2m1 ? float_from_e4m3(p.bytes[g]) : p.scales[g]);
              const double w =
                  static_cast<double>(p.weights().table[k % 2 == 0 ? byte & 15 : byte >> 4]) *
                  scale;
              const double term =
                  w * static_cast<double>(p.x[static_cast<std::size_t>(m * p.K + k)]);
              sum += term, size += std::fabs(term);
            }
            const double got = static_cast<double>(y[static_cast<std::size_t>(m * p.N + n)]);
            EXPECT_LE(std::fabs(got - sum), 104 * 0x1p-24 * size);
          }
      }
    }
  }
}

}  // namespace
}  // namespace parity::linear_kernel
