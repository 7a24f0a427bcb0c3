// What the strengthened parity model (k3.md §6.6) is, and what must hold of it exactly.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"

namespace parity {
namespace {

Case declared(std::string_view fill, std::string_view topk = "2") {
  for (const Case& c : expand(registry(), Lane::Smoke))
    if (c.op == "decoder" && c.fill == fill && c.options.get("topk", "") == topk) return c;
  ADD_FAILURE() << "no case of decoder with fill " << fill;
  return {};
}

const OpDef& decoder() { return registry().op_or_throw("decoder"); }

void clear(Tensors& inputs, const std::string& name) {
  std::ranges::fill(inputs.find(name)->bytes, std::byte{0});
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) most = std::isnan(x) ? x : std::max(most, std::abs(x));
  return most;
}

TEST(ParityModel, ParametersAreThePortableHash) {
  const Tensors inputs = generate(declared("hash_unit"), decoder(), 1);
  std::int64_t parameters = 0;
  for (const Tensor& input : inputs.list()) {
    const bool bias = input.spec.name.ends_with("e_score_correction_bias");
    parameters += input.spec.name.starts_with("params/") && !bias ? 1 : 0;
  }
  EXPECT_EQ(parameters, 75);
  // SplitMix64 begins with this number, whose top 53 bits are u of parameter 0, element 0.
  const double u = static_cast<double>(0xE220A8397B1DCDAFu >> 11) * 0x1p-52 - 1;
  const auto first = [&](const char* name) { return inputs.find(name)->widened().at(0); };
  EXPECT_EQ(first("params/model.embed_tokens.weight"),
            static_cast<double>(static_cast<float>(std::sqrt(3.0) * u)));
  // In between them: 1 + 7.5 (u + 1) is in [1, 16).
  const std::vector<double> logs = inputs.find("params/model.layers.0.self_attn.A_log")->widened();
  for (const double x : logs) {
    EXPECT_GE(x, 0);
    EXPECT_LT(x, 0.5 * std::log(16.0));
  }
  EXPECT_NE(logs.at(0), logs.at(1));
}

TEST(ParityModel, GradientsThatStructureMakesZero) {
  const Case c = declared("hash_unit");
  Tensors inputs = generate(c, decoder(), 1);
  clear(inputs, "cotangents/text");
  clear(inputs, "cotangents/vision");
  const Expected expected = decoder().reference(c, inputs, true);
  const auto gradient = [&](const std::string& name) {
    return expected.find("grads/params/" + name)->value;
  };
  // The first read finds an empty bank.
  for (const char* part : {"norm", "proj"})
    EXPECT_EQ(
        largest(gradient(std::string("model.layers.0.self_attention_res_") + part + ".weight")), 0);
  // Image features replaced the placeholder's embedding.
  const std::vector<double> table = gradient("model.embed_tokens.weight");
  EXPECT_EQ(largest({table.begin() + 7 * 16, table.begin() + 8 * 16}), 0);
  EXPECT_GT(largest({table.begin() + 3 * 16, table.begin() + 4 * 16}), 0);
  // Probabilities less labels add up to zero over the vocabulary.
  const std::vector<double> head = gradient("lm_head.weight");
  for (std::size_t d = 0; d < 16; ++d) {
    double sum = 0;
    for (std::size_t v = 0; v < 32; ++v) sum += head.at(v * 16 + d);
    EXPECT_NEAR(sum, 0, 1e-14 * largest(head));
  }
}

TEST(ParityModel, LossIsThatOfTheNextWords) {
  const Case c = declared("hash_unit");
  const Expected expected = decoder().reference(c, generate(c, decoder(), 1), false);
  const std::vector<double>& logits = expected.find("multimodal")->value;
  // Tokens 1 2 7 7 7 7 3 4 5: what follows row 0, 5, 6, 7; image slots are nobody's next word.
  double loss = 0;
  for (const auto& [row, next] : {std::pair{0, 2}, {5, 3}, {6, 4}, {7, 5}}) {
    double total = 0;
    for (int v = 0; v < 32; ++v)
      total += std::exp(logits.at(static_cast<std::size_t>(row * 32 + v)));
    loss += (std::log(total) - logits.at(static_cast<std::size_t>(row * 32 + next))) / 4;
  }
  EXPECT_NEAR(expected.find("loss")->value.at(0), loss, 1e-12);
}

// Gradients of both passes add up, also where an expert has tokens in one of them only.
TEST(ParityModel, AnExpertOfOnePassKeepsItsGradient) {
  const Case c = declared("hash_unit", "1");
  Tensors inputs = generate(c, decoder(), 1);
  const auto expert_gradient = [&](std::int64_t e) {
    return largest(decoder()
                       .reference(c, inputs, true)
                       .find("grads/params/model.layers.1.block_sparse_moe.experts." +
                             std::to_string(e) + ".w2.weight")
                       ->value);
  };
  const Expected expected = decoder().reference(c, inputs, true);
  for (std::int64_t e = 0; e < 4; ++e) {
    bool chosen = false;
    for (const char* pass : {"text", "multimodal"}) {
      const ExpectedTensor& ids = *expected.find(std::string(pass) + "_pass/tap/layer1.expert_ids");
      for (const double id : Tensor{ids.spec, ids.bits}.widened())
        chosen |= id == static_cast<double>(e);
    }
    EXPECT_EQ(expert_gradient(e) > 0, chosen) << e;
  }
}

}  // namespace
}  // namespace parity
