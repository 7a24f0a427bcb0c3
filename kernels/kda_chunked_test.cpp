// The KDA kernels as the harness launches them, against the recurrence in f64.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <string>

#include "harness/registry.hpp"
#include "kernels/kda/problem.hpp"
#include "kernels/kda/recurrence_for_test.hpp"

namespace parity::kda_kernel::testing {
namespace {

struct Example {
  const char *sizes, *options;
  InputFill fill = {};
};

const Example kExamples[] = {
    {"B1,T1,H1,K4,V4", ""},
    {"B2,T20,H2,K16,V16", "h0=1,dht=1"},
    {"B1,T63,H1,K12,V20", "dht=1"},
    {"B1,T130,H2,K33,V19", "h0=1,dht=1"},                    // tails of every kind
    {"B1,T3+0+1+70,H1,HV3,K20,V16", "h0=1,dht=1,vfirst=1"},  // empty, one token, grouped heads
    {"B1,T3+5+60,H2,K32,V32", "unused=1,h0=1,dht=1"},
    {"B1,T70,H2,K32,V16", "gate=softplus,bias=1,l2norm=1,beta=sigmoid,h0=1"},
    {"B1,T70,H2,HV4,K32,V16", "gate=lower,bias=1,l2norm=1,beta=neg,h0=1,dht=1"},
    {"B1,T40,H2,K24,V32", "gate=lower_noA,lb=-3,headwise=1,scale=0.3"},
    {"B1,T128,H2,K32,V32", "h0=1,dht=1", {.gate = -5, .gate_spread = 0}},
    {"B1,T128,H2,K32,V32",
     "h0=1,dht=1",
     {.gate = -0.1, .closed = 0.3}},  // gates of -1000 between open ones
    {"B1,T128,H2,K32,V32", "h0=1,dht=1", {.gate = 0, .correlation = 0.95}},
};

const KernelDef& kernel(const char* name) { return *registry().kernel(name); }

bool same_bits(const Tensors& x, const Tensors& y) {
  for (const Tensor& t : x.list())
    if (t.bytes != y.at(t.spec.name).bytes) return false;
  return x.list().size() == y.list().size();
}

std::string label(const Example& e) { return std::string(e.sizes) + "/" + e.options; }

TEST(KdaChunked, EveryChunkAndInstructionSetAgreesWithTheRecurrence) {
  for (const Example& e : kExamples) {
    const Case c = make_case(e.sizes, Dtype::F32, e.options);
    const Tensors inputs = make_inputs(c, e.fill, 1);
    const Tables want = model(c, inputs);
    for (const Variant& variant : kernel("kda.chunked_f32").variants) {
      if (!refuses(c, variant.options).empty()) continue;
      const Tensors got =
          launch(kernel("kda.chunked_f32"), c, inputs, {.options = variant.options, .threads = 2});
      for (const Tensor& t : got.list())
        EXPECT_LT(distance(t, want.at(t.spec.name)), 1e-4)
            << label(e) << " " << variant.options.str() << " " << t.spec.name;
    }
  }
}

TEST(KdaChunked, Bf16RoundsOnlyWhatItReturns) {
  for (const Example& e : kExamples) {
    const Case c = make_case(e.sizes, Dtype::BF16, e.options);
    const Tensors inputs = make_inputs(c, e.fill, 2);
    const Tables want = model(c, inputs);
    const Tensors got =
        launch(kernel("kda.chunked_bf16"), c, inputs, {.options = {{"chunk", "32"}}});
    for (const Tensor& t : got.list()) {
      const Real x = t.widened(), &y = want.at(t.spec.name);
      double square = 0;
      for (const double v : y) square += v * v;
      const double rms = std::sqrt(square / static_cast<double>(y.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double allowed =
            (t.spec.dtype == Dtype::BF16 ? 0x1p-8 * std::abs(y[i]) : 0) + 1e-4 * rms;
        ASSERT_LE(std::abs(x[i] - y[i]), allowed)
            << label(e) << " " << t.spec.name << " element " << i;
      }
    }
  }
}

TEST(KdaChunked, ThreadsAndInstructionSetsDoNotShowInTheBits) {
  for (const Example& e : kExamples) {
    const Case c = make_case(e.sizes, Dtype::F32, e.options);
    const Tensors inputs = make_inputs(c, e.fill, 3);
    const KernelDef& def = kernel("kda.chunked_f32");
    const Tensors one = launch(def, c, inputs, {.options = {{"chunk", "32"}}});
    for (const int threads : {2, 3})
      EXPECT_TRUE(same_bits(
          one, launch(def, c, inputs, {.options = {{"chunk", "32"}}, .threads = threads})))
          << label(e);
    if (!find_micro("avx2") || best_micro().name == "portable") continue;
    EXPECT_TRUE(
        same_bits(one, launch(def, c, inputs, {.options = {{"chunk", "32"}, {"isa", "avx2"}}})))
        << label(e);
  }
}

// An edit of the last tokens leaves every bit before them, and those of the gradients of a loss on
// them.
TEST(KdaChunked, ThePrefixDoesNotDependOnWhatFollows) {
  for (const std::int64_t keep : {5, 22, 40}) {
    const Case c = make_case("B1,T48,H1,K16,V16", Dtype::F32, "");
    Tensors inputs = make_inputs(c, {}, 4);
    const auto tail = [&](const char* name, auto f) {
      Tensor& t = *inputs.find(name);
      const std::size_t row = t.as<float>().size() / 48;
      for (std::size_t i = static_cast<std::size_t>(keep) * row; i < t.as<float>().size(); ++i)
        t.as<float>()[i] = f(t.as<float>()[i]);
    };
    tail("cotangents/o", [](float) { return 0.0f; });
    const KernelDef& def = kernel("kda.chunked_f32");
    const Tensors before = launch(def, c, inputs, {});
    for (const char* name : {"q", "k", "v", "g", "beta"})
      tail(name, [](float x) { return x * 1.5f; });
    const Tensors after = launch(def, c, inputs, {});
    for (const Tensor& t : before.list()) {
      if (t.spec.name == "final_state") continue;
      const std::size_t bytes = t.bytes.size() / 48 * static_cast<std::size_t>(keep);
      EXPECT_TRUE(std::equal(t.bytes.begin(), t.bytes.begin() + static_cast<std::ptrdiff_t>(bytes),
                             after.at(t.spec.name).bytes.begin()))
          << t.spec.name << " " << keep;
    }
  }
}

TEST(KdaRecurrent, AgreesWithTheRecurrence) {
  for (const Example& e : kExamples)
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
      const Case c = make_case(e.sizes, dtype, e.options);
      const Tensors inputs = make_inputs(c, e.fill, 5);
      const Tables want = model(c, inputs);
      const KernelDef& def =
          kernel(dtype == Dtype::F32 ? "kda.recurrent_f32" : "kda.recurrent_bf16");
      const Tensors got = launch(def, c, inputs, {.threads = 2, .gradients = false});
      EXPECT_LT(distance(got.at("o"), want.at("o")), dtype == Dtype::F32 ? 1e-4 : 5e-2) << label(e);
      EXPECT_LT(distance(got.at("final_state"), want.at("final_state")), 1e-4) << label(e);
    }
}

// Every switch changes something on an input made to show it, and the clean kernel stays clean
// beside it.
TEST(KdaFaults, EveryFaultShows) {
  const Example general[] = {
      {"B1,T0+35+1+92,H2,K20,V20", "h0=1,dht=1", {.gate = -0.4}},
      {"B2,T70,H1,HV2,K16,V16", "h0=1,dht=1,gate=softplus,bias=1,l2norm=1,beta=sigmoid", {}},
      {"B1,T130,H2,K128,V160", "h0=1,dht=1", {.gate = -5, .gate_spread = 0.01}},
      {"B1,T10+20+7,H2,K16,V16", "unused=1,h0=1,dht=1", {}},
      {"B2,T70,H2,K16,V16", "h0=1,dht=1", {.gate = -0.1, .closed = 0.3}},
  };
  for (const char* name : {"kda.chunked_f32", "kda.chunked_bf16", "kda.recurrent_f32"}) {
    const KernelDef& def = kernel(name);
    for (const FaultDef& fault : def.faults) {
      if (!fault.unsupported.empty()) continue;
      bool shows = false;
      for (const Example& e : general) {
        const Case c = make_case(e.sizes, def.contract.dtypes.front(), e.options);
        const Tensors inputs = make_inputs(c, e.fill, 6);
        const bool gradients = def.backward != nullptr;
        launch(def, c, inputs,
               {.fault = std::string(fault.id),
                .gradients = gradients});  // one fault changes every second launch
        const Tensors bad =
            launch(def, c, inputs, {.fault = std::string(fault.id), .gradients = gradients});
        shows = shows || !same_bits(launch(def, c, inputs, {.gradients = gradients}), bad);
      }
      // These two leave every output as it is: the harness sees that inputs or saved tensors
      // changed.
      if (fault.id == "F-35" || fault.id == "P-K1") continue;
      EXPECT_TRUE(shows) << name << "!" << fault.id << ": " << fault.what;
    }
  }
}

}  // namespace
}  // namespace parity::kda_kernel::testing
