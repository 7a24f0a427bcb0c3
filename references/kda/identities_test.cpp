// The identities of kda.md §3.1: they need no oracle.
#include <algorithm>
#include <gtest/gtest.h>

#include "references/kda/test_cases.hpp"

namespace parity::kda {
namespace {

constexpr std::string_view kSizes = "B2,T21,H2,HV4,K6,V5";
constexpr std::string_view kStates = "dht=1,h0=1,scale=0.6";
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double dot(const Real& a, const Real& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Tensors scaled(Tensors inputs, std::initializer_list<std::string_view> names, double factor) {
  for (const std::string_view name : names)
    for (double& x : inputs.find(name)->as<double>()) x *= factor;
  return inputs;
}

TEST(Identities, I1QueryGradientIsTheOutputs) {
  const test::Answer x = test::solve(test::small_case(kSizes, kStates),
                                     test::draw_inputs(test::small_case(kSizes, kStates)));
  const kda::Setup& s = x.setup;
  for (std::int64_t row = 0; row < s.rows(); ++row)
    for (std::int64_t h = 0; h < s.H; ++h) {
      double left = 0, right = 0;
      for (std::int64_t k = 0; k < s.K; ++k) {
        const std::size_t i = at((row * s.H + h) * s.K + k);
        left += x.in.q[i] * x.d.q.value[i];
      }
      for (std::int64_t hv = 0; hv < s.HV; ++hv)
        for (std::int64_t v = 0; s.qk_head(hv) == h && v < s.V; ++v) {
          const std::size_t i = at((row * s.HV + hv) * s.V + v);
          right += x.out.o.value[i] * x.in.d_o[i];
        }
      ASSERT_NEAR(left, right, 1e-12);
    }
}

TEST(Identities, I2LossIsLinearInValuesAndState) {
  const Case c = test::small_case("B1,T2+0+19,H1,K6,V5", kStates);
  const test::Answer x = test::solve(c, test::draw_inputs(c));
  EXPECT_NEAR(dot(x.in.v, x.d.v.value) + dot(x.in.h0, x.d.h0.value),
              dot(x.out.o.value, x.in.d_o) + dot(x.out.final_state.value, x.in.d_ht), 1e-11);
}

TEST(Identities, I3FirstGateGradientIsTheStates) {
  const Case c = test::small_case(kSizes, kStates);
  const test::Answer x = test::solve(c, test::draw_inputs(c));
  const kda::Setup& s = x.setup;
  for (std::int64_t n = 0; n < s.N; ++n)
    for (std::int64_t hv = 0; hv < s.HV; ++hv)
      for (std::int64_t k = 0; k < s.K; ++k) {
        double sum = 0;
        for (std::int64_t v = 0; v < s.V; ++v) {
          const std::size_t i = at(((n * s.HV + hv) * s.K + k) * s.V + v);
          sum += x.in.h0[i] * x.d.h0.value[i];
        }
        ASSERT_NEAR(x.d.g.value[at((s.starts[at(n)] * s.HV + hv) * s.K + k)], sum, 1e-12);
      }
  const Case without = test::small_case(kSizes, "dht=1");
  const test::Answer y = test::solve(without, test::draw_inputs(without));
  for (std::size_t i = 0; i < at(s.HV * s.K); ++i) EXPECT_EQ(y.d.g.value[i], 0);
}

TEST(Identities, I5Signs) {
  const Case c = test::small_case(kSizes, kStates);
  const Tensors inputs = test::draw_inputs(c);
  const test::Answer x = test::solve(c, inputs);
  const test::Answer flipped = test::solve(c, scaled(inputs, {"k", "initial_state"}, -1));
  for (std::size_t i = 0; i < x.out.o.value.size(); ++i)
    ASSERT_EQ(flipped.out.o.value[i], -x.out.o.value[i]);
  const test::Answer same = test::solve(c, scaled(inputs, {"k", "v"}, -1));
  EXPECT_EQ(same.out.final_state.value, x.out.final_state.value);
}

TEST(Identities, I6ChannelsArePermutable) {
  const Case c = test::small_case("B1,T9,H1,K3,V5", "h0=1");
  const Tensors inputs = test::draw_inputs(c);
  Tensors turned = inputs;
  for (const std::string_view name : {"q", "k", "g", "initial_state"}) {
    const std::size_t inner = name == "initial_state" ? 5 : 1;  // values per key channel
    const std::span<const double> from = inputs.at(name).as<double>();
    const std::span<double> to = turned.find(name)->as<double>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::size_t channel = i / inner % 3, other = (channel + 1) % 3;
      to[i + other * inner - channel * inner] = from[i];
    }
  }
  const test::Answer x = test::solve(c, inputs), y = test::solve(c, turned);
  for (std::size_t i = 0; i < x.out.o.value.size(); ++i)
    ASSERT_NEAR(x.out.o.value[i], y.out.o.value[i], 1e-14);
}

TEST(Identities, I7SplitContinues) {
  const Case whole = test::small_case("B1,T40,H1,HV2,K4,V3", "dht=1,h0=1");
  const Case packed = test::small_case("B1,T17+23,H1,HV2,K4,V3", "dht=1,h0=1");
  const Tensors inputs = test::draw_inputs(whole);
  const test::Answer x = test::solve(whole, inputs);
  // The two halves as sequences of a packed batch, with the states that pass between them.
  test::Answer halves{.setup = setup_of(packed), .in = x.in, .a = x.a, .out = {}, .d = {}};
  halves.in.h0.insert(halves.in.h0.end(), x.in.h0.size(), 0);
  halves.in.d_ht.insert(halves.in.d_ht.begin(), x.in.d_ht.size(), 0);
  const std::size_t state = x.in.h0.size();
  const Outputs first = forward(halves.setup, halves.in, halves.a);
  std::copy_n(first.final_state.value.begin(), state,
              halves.in.h0.begin() + static_cast<std::ptrdiff_t>(state));
  const Gradients last = backward(halves.setup, halves.in, halves.a);
  std::copy_n(last.h0.value.begin() + static_cast<std::ptrdiff_t>(state), state,
              halves.in.d_ht.begin());
  EXPECT_EQ(forward(halves.setup, halves.in, halves.a).o.value, x.out.o.value);
  const Gradients both = backward(halves.setup, halves.in, halves.a);
  EXPECT_EQ(both.q.value, x.d.q.value);
  EXPECT_EQ(both.k.value, x.d.k.value);
  EXPECT_EQ(both.g.value, x.d.g.value);
  EXPECT_TRUE(std::equal(x.d.h0.value.begin(), x.d.h0.value.end(), both.h0.value.begin()));
}

TEST(Identities, I8LaterTokensDoNotReachBack) {
  const Case c = test::small_case("B1,T30,H1,K4,V3", "h0=1");
  const Tensors inputs = test::draw_inputs(c);
  Tensors edited = inputs;
  constexpr std::size_t kFrom = 21;
  for (const std::string_view name : {"q", "k", "v", "g", "beta"}) {
    const std::span<double> x = edited.find(name)->as<double>();
    for (std::size_t i = x.size() / 30 * kFrom; i < x.size(); ++i) x[i] *= 0.5;
  }
  const test::Answer x = test::solve(c, inputs), y = test::solve(c, edited);
  EXPECT_TRUE(
      std::equal(x.out.o.value.begin(), x.out.o.value.begin() + kFrom * 3, y.out.o.value.begin()));
}

TEST(Identities, EmptySequencesPassTheirState) {
  const Case c = test::small_case("B1,T0+4+0,H1,K3,V2", "dht=1,h0=1");
  const test::Answer x = test::solve(c, test::draw_inputs(c));
  const std::size_t state = 6;
  for (const std::size_t n : {0UL, 2UL})
    for (std::size_t i = n * state; i < (n + 1) * state; ++i) {
      EXPECT_EQ(x.out.final_state.value[i], x.in.h0[i]);
      EXPECT_EQ(x.out.final_state.scale[i], 0);
      EXPECT_EQ(x.d.h0.value[i], x.in.d_ht[i]);
    }
}

}  // namespace
}  // namespace parity::kda
