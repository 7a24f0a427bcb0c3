// The reference of attention against a plain sum over keys, its documents against each alone, and
// its companions against what an f32 evaluation really errs.
#include "references/blocks/attention.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"
#include "references/attention_case.hpp"

namespace parity::net {
namespace {

const OpDef& op() { return registry().op_or_throw("attention"); }

Case problem(const std::string& id) { return resolve(registry(), parse_id(id)); }

TEST(AttentionReference, IsTheWeightedMeanOfValues) {
  const Case c = problem("attention/B2,T5,S9,H4,G2,D8,V6/f32/normal/s1");
  const Tensors in = generate(c, op(), 1);
  const Expected e = op().reference(c, in, false);
  const std::span<const float> q = in.at("q").as<float>(), k = in.at("k").as<float>(),
                               v = in.at("v").as<float>();
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t h = 0; h < 4; ++h) {
        double total = 0;
        std::vector<double> o(6);
        for (std::size_t s = 0; s < t + 5; ++s) {  // aligned to the last key
          double z = 0;
          for (std::size_t d = 0; d < 8; ++d)
            z += double{q[((b * 5 + t) * 4 + h) * 8 + d]} * k[((b * 9 + s) * 2 + h / 2) * 8 + d];
          const double w = std::exp(z / std::sqrt(8.0));
          total += w;
          for (std::size_t d = 0; d < 6; ++d) o[d] += w * v[((b * 9 + s) * 2 + h / 2) * 6 + d];
        }
        EXPECT_NEAR(e.find("lse")->value[(b * 4 + h) * 5 + t], std::log(total), 1e-13);
        for (std::size_t d = 0; d < 6; ++d)
          EXPECT_NEAR(e.find("o")->value[((b * 5 + t) * 4 + h) * 6 + d], o[d] / total, 1e-13);
      }
}

TEST(AttentionReference, HiddenKeysDoNotCount) {
  const Case c;
  const Tensors none;
  net::Run<double> run(c, none, true);
  Array<double> q({1, 1, 1}), k({3, 1, 1}), v({3, 1, 1});
  q.data = {1}, k.data = {1, 5, 2}, v.data = {3, 100, 7};
  const std::vector<Keys> keys = {{.first = 0, .last = 3, .allowed = {1, 0, 1}}};
  const Attended<double> a = attention(run, q, k, v, 1, keys);
  const double w = 1 / (1 + std::exp(1.0));
  EXPECT_NEAR(a.o[0], 3 * w + 7 * (1 - w), 1e-14);
  EXPECT_EQ(a.p[1], 0);
  Array<double> d_o({1, 1, 1});
  d_o.data = {1};
  const AttentionGradients<double> d = attention_backward(run, q, k, v, a, d_o, 1, keys);
  EXPECT_EQ(d.k[1], 0);
  EXPECT_EQ(d.v[1], 0);
  EXPECT_NEAR(d.k[0] + d.k[2], 0, 1e-14);
}

// An f32 evaluation stays within a few roundoffs of the companions, and comes near them somewhere.
TEST(AttentionReference, CompanionsCoverTheErrorOfF32) {
  for (const char* id :
       {"attention/T70,H4,G2,D24,V40/f32/normal/s0", "attention/T70,H4,G2,D24,V40/f32/sharp/s0",
        "attention/B2,T21,H2,D16/f32/negative/s0"}) {
    const Case c = problem(id);
    const Tensors in = generate(c, op(), 1);
    const Expected truth = op().reference(c, in, true);
    const Contract contract{.name = "f32", .dtypes = {Dtype::F32}, .accumulate = Dtype::F32};
    const Evaluation base = op().base({.problem = c, .contract = contract, .inputs = in});
    ASSERT_EQ(base.size(), truth.tensors.size());
    for (const Values& values : base) {
      const ExpectedTensor& want = *truth.find(values.name);
      double largest = 0;
      for (std::size_t i = 0; i < values.value.size(); ++i) {
        const double error = std::abs(values.value[i] - want.value[i]);
        ASSERT_GT(want.scale[i], 0) << values.name;
        largest = std::max(largest, error / (0x1p-24 * want.scale[i]));
      }
      EXPECT_LT(largest, 4) << id << " " << values.name;
      EXPECT_GT(largest, 0.005) << id << " " << values.name;
    }
  }
}

}  // namespace
}  // namespace parity::net
