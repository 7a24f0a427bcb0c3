// What the fills promise: exact probes are integers, gates never grow a state, keys are unit where
// nothing normalises them, and the answer of an exact probe is exact in f32.
#include "cases/kda_fills.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

Tensors drawn(const Fill& fill, std::string_view options, Dtype dtype) {
  static CaseSet set;
  set = CaseSet{.op = "kda", .fills = {fill}};
  const Case c{.op = "kda",
               .sizes = Sizes::parse("B1,T40+0+33,H2,HV4,K10,V6"),
               .dtype = dtype,
               .fill = std::string(fill.name),
               .options = Options::parse(options),
               .seed = 3,
               .set = &set};
  return generate(c, registry().op_or_throw("kda"), 1);
}

const std::vector<Fill> kReal = {
    kda_cases::ordinary(), kda_cases::open_gate(), kda_cases::weak(),   kda_cases::repeated(),
    kda_cases::mixed(),    kda_cases::saturated(), kda_cases::masked(), kda_cases::steep(),
    kda_cases::reflect(),  kda_cases::edges(),     kda_cases::decades()};

TEST(KdaFills, GatesDecayAndKeysAreUnit) {
  for (const Fill& fill : kReal) {
    const Tensors t = drawn(fill, "h0=1,dht=1", Dtype::F32);
    for (const double g : t.at("g").widened()) EXPECT_LE(g, 0) << fill.name;
    for (const double b : t.at("beta").widened()) EXPECT_TRUE(b >= 0 && b <= 2) << fill.name;
    const std::vector<double> k = t.at("k").widened();
    for (std::size_t r = 0; r < k.size(); r += 10) {
      double sum = 0;
      for (std::size_t i = r; i < r + 10; ++i) sum += k[i] * k[i];
      EXPECT_LE(std::sqrt(sum), 1 + 1e-6) << fill.name;
    }
    EXPECT_FALSE(fill.what.empty());
  }
}

TEST(KdaFills, HeadsDiffer) {
  for (const Fill& fill : {kda_cases::ordinary(), kda_cases::mixed()}) {
    const std::vector<double> g = drawn(fill, "", Dtype::F32).at("g").widened();
    double by_head[4] = {};
    for (std::size_t i = 0; i < g.size(); ++i) by_head[i / 10 % 4] += g[i];
    for (int h = 1; h < 4; ++h) EXPECT_GT(std::abs(by_head[h] - by_head[0]), 1e-3) << fill.name;
  }
}

TEST(KdaFills, ExactProbesAreIntegersWithinF32) {
  for (const Fill& fill :
       {kda_cases::integers(), kda_cases::forgetful(), kda_cases::signs(), kda_cases::permuted()}) {
    EXPECT_TRUE(fill.exact);
    const Tensors t = drawn(fill, "scale=1,h0=1,dht=1", Dtype::F32);
    for (const Tensor& tensor : t.list())
      for (const double x : tensor.widened()) EXPECT_EQ(x, std::nearbyint(x)) << tensor.spec.name;
    CaseSet set{.op = "kda", .fills = {fill}};
    const Case c{.op = "kda",
                 .sizes = Sizes::parse("B1,T40+0+33,H2,HV4,K10,V6"),
                 .dtype = Dtype::F32,
                 .fill = std::string(fill.name),
                 .options = Options::parse("scale=1,h0=1,dht=1"),
                 .seed = 3,
                 .set = &set};
    for (const ExpectedTensor& x : registry().op_or_throw("kda").reference(c, t, true).tensors)
      for (const double v : x.value)
        ASSERT_TRUE(v == std::nearbyint(v) && std::abs(v) < 0x1p22) << x.spec.name << " " << v;
  }
}

// Every tensor, and so every sum of terms of one, is a multiple of 2^-7: states and gradients of
// 1/8 each, scale 1/2 beside them.
TEST(KdaFills, HalvedProbesAreFewBits) {
  const Fill fill = kda_cases::halved();
  EXPECT_TRUE(fill.exact);
  CaseSet set{.op = "kda", .fills = {fill}};
  const Case c{.op = "kda",
               .sizes = Sizes::parse("B1,T40+0+33,H2,HV4,K10,V6"),
               .dtype = Dtype::F32,
               .fill = std::string(fill.name),
               .options = Options::parse("scale=0.5,h0=1,dht=1,halvings=1"),
               .seed = 3,
               .set = &set};
  const Tensors t = generate(c, registry().op_or_throw("kda"), 1);
  std::int64_t halved = 0;
  for (const double g : t.at("g").widened()) halved += g != 0;
  EXPECT_GT(halved, 4 * 10 * 2);
  for (const ExpectedTensor& x : registry().op_or_throw("kda").reference(c, t, true).tensors)
    for (const double v : x.value)
      ASSERT_TRUE(v * 128 == std::nearbyint(v * 128) && std::abs(v) < 0x1p15)
          << x.spec.name << " " << v;
}

TEST(KdaFills, PermutedKeysAreOneHot) {
  const Tensors t = drawn(kda_cases::permuted(), "scale=1,h0=1,dht=1", Dtype::F32);
  const std::vector<double> k = t.at("k").widened();
  for (std::size_t r = 0; r < k.size(); r += 10) {
    double sum = 0;
    for (std::size_t i = r; i < r + 10; ++i) sum += std::abs(k[i]);
    EXPECT_EQ(sum, 1);
  }
}

TEST(KdaFills, RawGatesReachTheirRegimes) {
  const auto mean = [](const Fill& fill) {
    double sum = 0;
    const std::vector<double> x =
        drawn(fill, "gate=lower,bias=1", Dtype::F32).at("g_raw").widened();
    for (const double v : x) sum += v;
    return sum / static_cast<double>(x.size());
  };
  EXPECT_LT(mean(kda_cases::open_gate()), -30);
  EXPECT_LT(mean(kda_cases::weak()), -4);
  EXPECT_GT(mean(kda_cases::saturated()), 2);
}

}  // namespace
}  // namespace parity
