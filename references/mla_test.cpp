// Identities that gated multi-head latent attention must keep, on its own reference (k3.md §2.4).
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"
#include "references/mla_case.hpp"

namespace parity::net {
namespace {

struct Problem {
  Case problem = {};
  Tensors inputs = {};
};

Problem problem(const std::string& sizes, const std::string& options = {}) {
  const std::string part = options.empty() ? "" : "/" + options;
  Problem p{.problem =
                resolve(registry(), parse_id("mla/" + sizes + "/f64/normal" + part + "/s3"))};
  p.inputs = generate(p.problem, registry().op_or_throw("mla"), 1);
  p.problem.dtype = Dtype::F32;  // of no interest to the reference, but for its companion
  return p;
}

Expected answer(const Problem& p) {
  return registry().op_or_throw("mla").reference(p.problem, p.inputs, true);
}

std::vector<double> value(const Expected& e, std::string_view name) {
  const ExpectedTensor* found = e.find(name);
  EXPECT_NE(found, nullptr) << name;
  return found ? found->value : std::vector<double>{};
}

void expect_close(std::span<const double> want, std::span<const double> got, double relative,
                  std::string_view what) {
  ASSERT_EQ(want.size(), got.size()) << what;
  double largest = 1e-300;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(want[i], got[i], relative * largest) << what << " at " << i;
}

std::span<double> values(Problem& p, std::string_view name) {
  return p.inputs.find(name)->as<double>();
}

constexpr const char* kSizes = "B2,T9,D20,H3,Q8,C6,N4,R4,V5";

TEST(Mla, AbsorbedIsThePlainFormByAssociativity) {
  for (const char* options : {"gate=1", "rope=half", "gate=1,mask=given"}) {
    Problem plain = problem(kSizes, options), absorbed = plain;
    absorbed.problem.options.set("absorb", "1");
    const Expected want = answer(plain), got = answer(absorbed);
    for (const ExpectedTensor& tensor : want.tensors)
      expect_close(tensor.value, value(got, tensor.spec.name), 1e-12, tensor.spec.name);
  }
}

TEST(Mla, TokensDoNotSeeWhatComesAfterThem) {
  Problem whole = problem("T9,D20,H3,Q8,C6,N4,R4,V5", "gate=1"), changed = whole;
  for (double& x : values(changed, "x").subspan(6 * 20)) x = -x + 1;
  const std::vector<double> want = value(answer(whole), "y"), got = value(answer(changed), "y");
  EXPECT_TRUE(std::equal(want.begin(), want.begin() + 6 * 20, got.begin()));
  EXPECT_FALSE(std::equal(want.begin() + 6 * 20, want.end(), got.begin() + 6 * 20));
}

TEST(Mla, PackedDocumentsAreAlone) {
  Problem packed = problem("T4+5,D20,H3,Q8,C6,N4,R4,V5", "gate=1,rope=interleaved");
  Problem alone = problem("T5,D20,H3,Q8,C6,N4,R4,V5", "gate=1,rope=interleaved");
  for (Tensor& tensor : alone.inputs.list()) {
    const Tensor& all = packed.inputs.at(tensor.spec.name);
    if (tensor.spec.dtype != Dtype::F64) continue;
    const std::span<const double> from = all.as<double>();
    const auto skipped = from.size() - tensor.as<double>().size();
    std::ranges::copy(from.subspan(skipped), tensor.as<double>().begin());
  }
  const std::vector<double> want = value(answer(alone), "y"), got = value(answer(packed), "y");
  expect_close(want, std::span(got).subspan(4 * 20), 1e-14, "y");
}

TEST(Mla, CacheContinuesWhatCameBefore) {
  for (const char* options : {"gate=1,rope=interleaved,taps=1", "absorb=1,gate=1,taps=1"}) {
    Problem whole = problem("T9,D20,H3,Q8,C6,N4,R4,V5", options);
    const Expected full = answer(whole);
    Problem step = problem("T2,D20,H3,Q8,C6,N4,R4,V5,P7", options);
    for (Tensor& tensor : step.inputs.list())
      if (tensor.spec.name.starts_with("params/")) tensor = whole.inputs.at(tensor.spec.name);
    std::ranges::copy(values(whole, "x").subspan(7 * 20), values(step, "x").begin());
    const std::vector<double> latent = value(full, "tap/kv_latent"), kv_a = value(full, "tap/kv_a");
    std::copy_n(latent.begin(), 7 * 6, values(step, "cache/kv_latent").begin());
    Array<double> k_r({7, 1, 4});
    for (std::int64_t t = 0; t < 7; ++t)
      for (std::int64_t i = 0; i < 4; ++i)
        k_r[t * 4 + i] = kv_a[static_cast<std::size_t>(t * 10 + 6 + i)];
    if (const Mla m = mla_config(whole.problem); m.rope.pairs != Rope::Pairs::None) {
      net::Run<double> run(whole.problem, whole.inputs, false);
      rotate(k_r, 0, turns_at(run, {0, 1, 2, 3, 4, 5, 6}, 4, m.rope), m.rope.pairs, Sense::Forward);
    }
    std::ranges::copy(k_r.data, values(step, "cache/k_r").begin());
    const std::vector<double> want = value(full, "y");
    expect_close(std::span(want).subspan(7 * 20), value(answer(step), "y"), 1e-13, options);
  }
}

TEST(Mla, GateOfZeroWeightsHalves) {
  Problem gated = problem(kSizes, "gate=1"), open = problem(kSizes);
  for (Tensor& tensor : open.inputs.list()) tensor = gated.inputs.at(tensor.spec.name);
  std::ranges::fill(values(gated, "params/g_proj.weight"), 0.0);
  std::vector<double> want = value(answer(open), "y");
  for (double& x : want) x /= 2;
  expect_close(want, value(answer(gated), "y"), 1e-14, "y");
}

TEST(Mla, HeadsMayBePermuted) {
  Problem p = problem(kSizes, "gate=1"), swapped = p;
  const auto swap_rows = [&](const char* name, std::size_t rows, std::size_t width) {
    const std::span<double> w = values(swapped, name);
    std::swap_ranges(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(rows * width),
                     w.begin() + static_cast<std::ptrdiff_t>(2 * rows * width));
  };
  swap_rows("params/q_b_proj.weight", 8, 8);
  swap_rows("params/kv_b_proj.weight", 9, 6);
  swap_rows("params/g_proj.weight", 5, 20);
  const std::span<double> o = values(swapped, "params/o_proj.weight");
  for (std::size_t row = 0; row < 20; ++row)
    for (std::size_t i = 0; i < 5; ++i) std::swap(o[row * 15 + i], o[row * 15 + 10 + i]);
  expect_close(value(answer(p), "y"), value(answer(swapped), "y"), 1e-14, "y");
  expect_close(value(answer(p), "grads/inputs/x"), value(answer(swapped), "grads/inputs/x"), 1e-13,
               "x");
}

TEST(Mla, FullyMaskedRowsGiveZeroOrLeak) {
  Problem guarded = problem(kSizes, "mask=given,taps=1"), leaking = guarded;
  leaking.problem.options.set("masked", "leak");
  const Expected zero = answer(guarded), uniform = answer(leaking);
  const std::size_t first = 9 * 20;  // sequence 1, whose first two keys are padding
  const std::vector<double> y = value(zero, "y"), p = value(uniform, "tap/probs");
  for (std::size_t i = first; i < first + 40; ++i) EXPECT_EQ(y[i], 0);
  EXPECT_EQ(value(zero, "tap/lse")[27], -std::numeric_limits<double>::infinity());
  for (std::size_t s = 0; s < 9; ++s) EXPECT_DOUBLE_EQ(p[3 * 81 + s], 1.0 / 9);
  const auto leaked = [&](const Expected& e) {
    double size = 0;
    const std::vector<double> dq = value(e, "grads/tap/q");
    for (std::size_t i = 9 * 24; i < 11 * 24; ++i) size = std::max(size, std::abs(dq[i]));
    return size;
  };
  EXPECT_EQ(leaked(zero), 0);
  EXPECT_GT(leaked(uniform), 1e-3);
}

TEST(Mla, OneKeyGivesItsValueAndNoGradientToQueries) {
  const Expected e = answer(problem("B2,T1,D20,H3,Q8,C6,N4,R4,V5", "gate=1"));
  for (const double g : value(e, "grads/params/q_b_proj.weight")) EXPECT_EQ(g, 0);
}

// A case of one token cannot see what is wrong with queries, scale or k_r (k3.md §2.2): no such
// case may stand alone.
TEST(Mla, OneTokenIsBlindToLogits) {
  const Contract contract{.name = "f32", .dtypes = {Dtype::F32}, .accumulate = Dtype::F32};
  const auto answers = [&](const Problem& p, std::string_view fault) {
    return registry().op_or_throw("mla").base(
        {.problem = p.problem, .contract = contract, .inputs = p.inputs, .fault = fault});
  };
  const auto largest = [](const Evaluation& x, const Evaluation& y) {
    double difference = 0;
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].value.size(); ++i)
        difference = std::max(difference, std::abs(x[t].value[i] - y[t].value[i]));
    return difference;
  };
  const Problem one = problem("B2,T1,D20,H3,Q8,C6,N4,R4,V5", "gate=1"),
                many = problem(kSizes, "gate=1");
  for (const char* fault : {"P-mla-scale", "P-mla-no-kr", "P-mla-no-q-norm"}) {
    EXPECT_LT(largest(answers(one, ""), answers(one, fault)), 1e-5) << fault;
    EXPECT_GT(largest(answers(many, ""), answers(many, fault)), 1e-2) << fault;
  }
}

}  // namespace
}  // namespace parity::net
