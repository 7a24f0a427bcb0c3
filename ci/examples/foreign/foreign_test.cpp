// Tests of somebody else's kernels with an installed parity.
#include <cmath>
#include <gtest/gtest.h>
#include <parity/parity.hpp>

namespace {

namespace api = parity::api;

// The kernel under test: rows divided by their length, without a backward.
void l2norm(api::Call& call, bool eps_outside) {
  const auto N = static_cast<std::size_t>(call.sizes["N"]),
             D = static_cast<std::size_t>(call.sizes["D"]);
  const auto eps = call.options.contains("eps") ? std::stof(call.options["eps"]) : 1e-6F;
  const auto x = call.in("x").as<float>();
  const auto y = call.out("y").as<float>();
  for (std::size_t n = 0; n < N; ++n) {
    float sum = 0;
    for (std::size_t d = 0; d < D; ++d) sum += x[n * D + d] * x[n * D + d];
    const float r = eps_outside ? 1 / (std::sqrt(sum) + eps) : 1 / std::sqrt(sum + eps);
    for (std::size_t d = 0; d < D; ++d) y[n * D + d] = x[n * D + d] * r;
  }
}

TEST(L2norm, PassesEveryCase) {
  const std::vector<std::string> ids = api::cases("l2norm/*/f32/*");
  ASSERT_FALSE(ids.empty());
  for (const std::string& id : ids) {
    const api::Verdict verdict =
        api::run(id, [](api::Call& call) { l2norm(call, false); }, {.gradients = false});
    EXPECT_TRUE(verdict) << verdict.text;
  }
}

TEST(L2norm, AWrongOneFails) {
  const api::Verdict verdict =
      api::run("l2norm/N44,D128/f32/small_rows/s0", [](api::Call& call) { l2norm(call, true); },
               {.gradients = false});
  EXPECT_EQ(verdict.status, "fail");
  EXPECT_EQ(verdict.view, "bound");
}

TEST(L2norm, OneThatCrashesCostsItsCaseOnly) {
  const api::Verdict verdict =
      api::run("l2norm/N44,D128/f32/normal/s0", [](api::Call&) { __builtin_trap(); });
  EXPECT_EQ(verdict.status, "error") << verdict.text;
}

api::Tensor dot_of_ones(float value) {
  api::Tensor y{.name = "y", .dtype = "f32", .shape = {1}, .bytes = std::vector<std::byte>(4)};
  y.as<float>()[0] = value;
  return y;
}

TEST(Judge, ASumMayBeOffByItsRoundingsAndNoMore) {
  const std::vector<double> truth = {1000};
  const api::Limits limits{.terms = 1000, .magnitude = {1000}};
  EXPECT_TRUE(api::judge(dot_of_ones(1000.01F), truth, limits));  // 1000 terms, u = 6e-8: 0.06
  EXPECT_FALSE(api::judge(dot_of_ones(1000.1F), truth, limits));
  EXPECT_FALSE(api::judge(dot_of_ones(1000.01F), truth));  // one rounding: 6e-5
  EXPECT_FALSE(api::judge(dot_of_ones(NAN), truth, limits));
}

}  // namespace
