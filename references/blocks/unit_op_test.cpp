// The small ops: gradients against central differences of the loss in fp64, the f32 base within the
// companions, every fault visible, and the corner cases of states and packed sequences.
#include "references/blocks/unit_op.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace parity::unit {
namespace {

struct Setting {
  const char* op;
  const char* sizes;
  const char* options;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> list = {
      {"l2norm", "N5,D7", ""},
      {"l2norm", "N3,D1", "eps=0.5"},
      {"gated_rms_norm", "B2,T3,HV2,V5", ""},
      {"gated_rms_norm", "T1,HV1,V16", "eps=0.25,recompute=1"},
      {"kda_gate", "B2,T4,HV4,K3", "bias=1,gate=softplus"},
      {"kda_gate", "T5,HV4,K2", "gate=lower,lb=-3"},
      {"kda_gate", "T3,HV2,K2", "bias=1,gate=lower_noA"},
      {"short_conv", "B2,T6,D3,W4", "bias=1"},
      {"short_conv", "T3+0+1+7,D2,W4", "bias=1,dht=1,h0=1"},
      {"short_conv", "T2,D2,W4", "act=none,dht=1,h0=1"},
      {"short_conv", "T3+4,D2,W3", ""},
  };
  return list;
}

Case problem(const Setting& setting, Dtype dtype) {
  Case c;
  c.op = setting.op;
  c.sizes = Sizes::parse(setting.sizes);
  c.dtype = dtype;
  c.fill = "test";
  c.options = Options::parse(setting.options);
  return c;
}

// Normal values, with a spread of row sizes so that an eps matters.
Tensors drawn(const Case& c, std::uint64_t seed, double spread = 1) {
  const OpDef& op = registry().op_or_throw(c.op);
  Tensors tensors;
  std::uint64_t number = 0;
  for (const TensorSpec& spec : op.inputs(c)) {
    Tensor tensor = make_tensor(spec);
    if (op.derive == nullptr || !op.derive(c, tensor)) {
      std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
      Rng{seed, number}.fill_normal(0, values);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i % 3 == 0 ? spread : 1;
      tensor = make_tensor(spec, values);
    }
    tensors.add(std::move(tensor));
    ++number;
  }
  return tensors;
}

// sum over outputs that have a cotangent of output * cotangent
double loss(const Case& c, const Tensors& tensors) {
  double total = 0;
  for (const ExpectedTensor& out :
       registry().op_or_throw(c.op).reference(c, tensors, false).tensors) {
    const Tensor* cotangent = tensors.find("cotangents/" + out.spec.name);
    if (cotangent == nullptr) continue;
    const std::vector<double> weights = cotangent->widened();
    for (std::size_t i = 0; i < weights.size(); ++i) total += weights[i] * out.value[i];
  }
  return total;
}

TEST(UnitOps, GradientsAreCentralDifferences) {
  for (const Setting& setting : settings()) {
    const Case c = problem(setting, Dtype::F64);
    Tensors tensors = drawn(c, 7);
    const Expected expected = registry().op_or_throw(c.op).reference(c, tensors, true);
    int checked = 0;
    for (const ExpectedTensor& gradient : expected.tensors) {
      if (!gradient.spec.name.starts_with("grads/")) continue;
      Tensor* input = tensors.find(gradient.spec.name.substr(6));
      ASSERT_NE(input, nullptr) << gradient.spec.name;
      for (std::size_t i = 0; i < gradient.value.size(); ++i) {
        double& x = input->as<double>()[i];
        const double kept = x;
        const double h = 1e-5 * std::max(1.0, std::abs(kept));
        // Fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h
        const auto at = [&](double step) {
          x = kept + step;
          return loss(c, tensors);
        };
        const double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        x = kept;
        EXPECT_NEAR(gradient.value[i], slope, 1e-8 * (1 + std::abs(slope)))
            << c.id() << " " << gradient.spec.name << "[" << i << "]";
        ++checked;
      }
    }
    EXPECT_GT(checked, 0) << c.id();
  }
}

TEST(UnitOps, FloatEvaluationStaysWithinTheCompanions) {
  for (const Setting& setting : settings()) {
    const Case c = problem(setting, Dtype::F32);
    const OpDef& op = registry().op_or_throw(c.op);
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Tensors tensors = drawn(c, seed, seed % 2 == 0 ? 1 : 8);
      const Expected expected = op.reference(c, tensors, true);
      for (int variation = 0; variation < 3; ++variation) {
        const Contract contract{};
        const Evaluation base = op.base({.problem = c,
                                         .contract = contract,
                                         .inputs = tensors,
                                         .variation = variation,
                                         .seed = seed});
        ASSERT_EQ(base.size(), expected.tensors.size());
        for (std::size_t t = 0; t < base.size(); ++t) {
          const ExpectedTensor& truth = expected.tensors[t];
          for (std::size_t i = 0; i < truth.value.size(); ++i) {
            const double allowed = 0x1p-24 * (std::abs(truth.value[i]) + truth.scale[i]) + 0x1p-149;
            const double used = std::abs(base[t].value[i] - truth.value[i]) / allowed;
            // A variant moves every intermediate by half an ulp more.
            ASSERT_LE(used, variation == 0 ? 1 : 2)
                << c.id() << " " << truth.spec.name << "[" << i << "]";
            if (variation == 0) worst = std::max(worst, used);
          }
        }
      }
    }
    EXPECT_GT(worst, 0.02) << c.id() << ": the companion is far too generous";
  }
}

TEST(UnitOps, EveryFaultChangesAResult) {
  for (const char* name : {"l2norm", "gated_rms_norm", "kda_gate", "short_conv"}) {
    for (const FaultDef& fault : registry().op_or_throw(name).faults) {
      if (!fault.unsupported.empty()) continue;
      bool changed = false;
      for (const Setting& setting : settings()) {
        if (std::string_view(setting.op) != name) continue;
        const Case c = problem(setting, Dtype::F32);
        const OpDef& op = registry().op_or_throw(name);
        const Tensors tensors = drawn(c, 3, 100);
        const Contract contract{};
        const Evaluation clean = op.base({.problem = c, .contract = contract, .inputs = tensors});
        const Evaluation faulty =
            op.base({.problem = c, .contract = contract, .inputs = tensors, .fault = fault.id});
        for (std::size_t t = 0; t < clean.size(); ++t) changed |= clean[t].value != faulty[t].value;
      }
      EXPECT_TRUE(changed) << name << " " << fault.id;
    }
  }
}

// A sequence convolved whole equals the same sequence convolved in two parts with the state carried
// over.
TEST(ShortConv, SplitsAnywhere) {
  const Case whole = problem({"short_conv", "T7,D3,W4", "h0=1,state=1"}, Dtype::F64);
  const OpDef& op = registry().op_or_throw("short_conv");
  const Tensors all = drawn(whole, 5);
  const Expected expected = op.reference(whole, all, false);
  for (std::int64_t first = 0; first <= 7; ++first) {
    std::vector<double> y;
    std::vector<double> state = all.at("initial_state").widened();
    const std::vector<double> x = all.at("x").widened();
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, first}, {first, 7}}) {
      Case part = whole;
      part.sizes.set({"T", end - begin, {}});
      Tensors tensors;
      for (const TensorSpec& spec : op.inputs(part)) {
        std::vector<double> values(static_cast<std::size_t>(elements(spec.dims)), 0);
        if (spec.name == "x") values.assign(x.begin() + begin * 3, x.begin() + end * 3);
        if (spec.name == "weight") values = all.at("weight").widened();
        if (spec.name == "initial_state") values = state;
        tensors.add(make_tensor(spec, values));
      }
      const Expected piece = op.reference(part, tensors, false);
      y.insert(y.end(), piece.find("y")->value.begin(), piece.find("y")->value.end());
      state = piece.find("final_state")->value;
    }
    EXPECT_EQ(y, expected.find("y")->value) << "split at " << first;
    EXPECT_EQ(state, expected.find("final_state")->value) << "split at " << first;
  }
}

TEST(KdaGate, SaturatesWithoutNan) {
  for (const char* gate : {"gate=softplus", "gate=lower", "gate=lower_noA"}) {
    const Case c = problem({"kda_gate", "T1,HV1,K4", gate}, Dtype::F64);
    const OpDef& op = registry().op_or_throw("kda_gate");
    Tensors tensors = drawn(c, 1);
    const std::vector<double> extremes = {-800, 800, -20, 20};
    std::copy(extremes.begin(), extremes.end(), tensors.find("g_raw")->as<double>().begin());
    const Expected expected = op.reference(c, tensors, true);
    for (const ExpectedTensor& t : expected.tensors)
      for (const double v : t.value) EXPECT_TRUE(std::isfinite(v)) << gate << " " << t.spec.name;
    for (const double g : expected.find("g")->value) EXPECT_LE(g, 0) << gate;
  }
}

TEST(Vary, SumsTheSameTermsInOtherOrders) {
  std::vector<float> terms(100);
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = static_cast<float>(i + 1);
  const Case problem;
  const Contract contract;
  const Tensors none;
  for (int v = 0; v < 8; ++v) {
    const BaseRequest request{
        .problem = problem, .contract = contract, .inputs = none, .variation = v, .seed = 1};
    EXPECT_EQ(Vary(request).sum(std::span<const float>(terms)), 5050) << v;
  }
  EXPECT_EQ(Vary().sum(std::span<const float>()), 0);
}

// An exact probe has one answer in every order, but not after an intermediate was moved.
TEST(Vary, MovesNothingInAnExactProbe) {
  Case problem;
  const Contract contract;
  const Tensors none;
  for (const Check check : {Check::Parity, Check::Exact}) {
    problem.check = check;
    Vary vary(
        {.problem = problem, .contract = contract, .inputs = none, .variation = 3, .seed = 1});
    int moved = 0;
    for (int i = 0; i < 100; ++i) moved += vary(1.5F) != 1.5F;
    EXPECT_EQ(moved > 0, check == Check::Parity);
  }
}

}  // namespace
}  // namespace parity::unit
