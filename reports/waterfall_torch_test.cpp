// A fault planted in one layer of the narrow debug model, through both runs of LibTorch's decoder:
// the report names the layer and the parameter.
#include <gtest/gtest.h>

#include "harness/suite.hpp"
#include "harness/walk.hpp"
#include "reports/gradients.hpp"
#include "reports/waterfall.hpp"

namespace parity {
namespace {

// The whole model and its layers by themselves, by one kernel with one fault.
std::vector<CaseRecord> run(const char* fault) {
  std::vector<Subject> subjects;
  for (const Case& c : expand(registry(), Lane::Full)) {
    if (c.op != "decoder" || c.fill != "debug_layers" || c.dtype != Dtype::F32) continue;
    Subject& subject = subjects.emplace_back(subject_of(c, ""));
    subject.candidates = {candidate_of(*registry().kernel("decoder.torch_f32"), {}, c, fault)};
  }
  std::vector<CaseRecord> records;
  run_suite(subjects, {.isolate = false, .details = false},
            [&](const CaseRecord& record) { records.push_back(record); });
  return records;
}

struct Planted {
  const char* fault;
  const char* layer;
  bool backward;  // where it shows first
  const char* tensor;
  const char* parameter;  // in the sentence
};

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsNamedWithItsLayer) {
  const std::vector<CaseRecord> records = run(GetParam().fault);
  ASSERT_EQ(records.size(), 2u);
  for (const CaseRecord& record : records) EXPECT_EQ(record.status, "fail") << record.reason;
  const std::vector<reports::Waterfall> all = reports::waterfalls(records);
  ASSERT_EQ(all.size(), 1u);
  const reports::LayerError* first = all[0].first();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->layer, GetParam().layer) << reports::sentence(all[0]);
  EXPECT_EQ(first->backward, GetParam().backward) << reports::sentence(all[0]);
  EXPECT_EQ(first->over->name, GetParam().tensor);
  EXPECT_NE(reports::sentence(all[0]).find(GetParam().parameter), std::string::npos)
      << reports::sentence(all[0]);
  // By itself every other layer is sound, in both directions.
  for (const reports::LayerError& e : all[0].layers)
    if (e.layer != GetParam().layer) {
      EXPECT_EQ(e.over, nullptr) << e.layer << ": " << e.over->name;
    }
  EXPECT_EQ(reports::first_astray(*all[0].whole).layer, GetParam().layer);
}

INSTANTIATE_TEST_SUITE_P(
    Debug, PlantedFault,
    testing::Values(Planted{"P-decoder-scale", "layer7", false, "tap/layer7.attn",
                            "model.layers.7.self_attn.q_a_proj.weight"},
                    Planted{"P-decoder-read-order", "layer7", false, "tap/layer7.ffn_read",
                            "model.layers.7."},
                    Planted{"P-decoder-gate", "layer6", false, "tap/layer6.attn",
                            "model.layers.6.self_attn.dt_bias has no gradient"},
                    Planted{"P-decoder-expert-gradient", "layer7", true,
                            "grads/params/model.layers.7.block_sparse_moe.experts.0.w2.weight",
                            "model.layers.7.block_sparse_moe.experts.0.w2.weight"}));

TEST(PlantedFault, WithoutOneEveryLayerIsWithinItsBudget) {
  const std::vector<CaseRecord> records = run("");
  ASSERT_EQ(records.size(), 2u);
  for (const CaseRecord& record : records) EXPECT_EQ(record.status, "pass") << record.reason;
  const std::vector<reports::Waterfall> all = reports::waterfalls(records);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].first(), nullptr) << reports::sentence(all[0]);
}

}  // namespace
}  // namespace parity
