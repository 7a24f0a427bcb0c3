// Inherited against own error, on a pair of records made up here: five layers, of which the fourth
// is at fault.
#include "reports/waterfall.hpp"

#include <gtest/gtest.h>

#include "reports/json.hpp"
#include "reports/sample_test.hpp"

namespace parity::reports {
namespace {

constexpr std::int64_t kLayers = 5;

TensorRecord result(const std::string& name, double rel_l2, bool over) {
  TensorRecord t = test::sample_tensor(name, name.starts_with("grads/") ? "gradient" : "output",
                                       "f32", over ? 7 : 0.5, false, 1);
  t.rel_l2 = rel_l2;
  if (name.starts_with("grads/params/")) t.parameter = name.substr(13);
  t.views = {{.view = "floor", .value = rel_l2, .limit = 2e-7, .ok = !over}};
  t.status = over ? "fail" : "pass";
  t.view = over ? "floor" : "none";
  return t;
}

// `fault`: the layer whose results are wrong, or with `gradient` one parameter's gradient alone.
std::vector<CaseRecord> pair(std::int64_t fault, bool gradient = false) {
  std::vector<CaseRecord> records(2);
  for (const bool alone : {false, true}) {
    CaseRecord& c = records[alone ? 1 : 0];
    c.id = std::string("decoder/L5/f32/unit/") + (alone ? "isolated=1," : "") + "taps=1/s0@k";
    c.op = "decoder", c.direction = "both", c.check = "parity", c.status = "pass";
    c.options = {{"taps", "1"}};
    if (alone) c.options["isolated"] = "1";
    for (std::int64_t l = 0; l < kLayers; ++l) {
      const std::string layer = "layer" + std::to_string(l) + ".",
                        at = l + 1 < kLayers ? "at/layer" + std::to_string(l + 1) : "at/output";
      const bool wrong = !gradient && (alone ? l == fault : l >= fault);
      c.tensors.push_back(result("tap/" + layer + "prefix", wrong ? 1e-2 : 1e-7, wrong));
      c.tensors.push_back(result("grads/tap/" + layer + "attn", 1e-7, false));
      c.tensors.push_back(result(
          alone ? "grads/inputs/" + at + ".prefix" : "grads/tap/" + layer + "prefix", 1e-7, false));
      const std::string name = "grads/params/model.layers." + std::to_string(l) + ".w.weight";
      c.tensors.push_back(result(name, 1e-7, gradient && l == fault));
    }
    c.tensors.push_back(result("logits", 1e-7, false));
    c.tensors.push_back(result("grads/params/model.embed_tokens.weight", 1e-7, false));
    for (const TensorRecord& t : c.tensors)
      if (t.status == "fail") c.status = "fail";
  }
  return records;
}

TEST(Waterfall, NamesTheLayerWhoseErrorIsItsOwn) {
  const std::vector<CaseRecord> records = pair(3);
  const std::vector<Waterfall> all = waterfalls(records);
  ASSERT_EQ(all.size(), 1u);
  const Waterfall& w = all[0];
  ASSERT_EQ(w.layers.size(), 2u * (kLayers + 1));
  ASSERT_NE(w.first(), nullptr);
  EXPECT_EQ(w.first()->layer, "layer3");
  EXPECT_FALSE(w.first()->backward);
  EXPECT_DOUBLE_EQ(w.layers[3].own, 1e-2);
  EXPECT_DOUBLE_EQ(w.layers[3].inherited, 0);
  EXPECT_DOUBLE_EQ(w.layers[4].inherited, 1e-2 - 1e-7);  // what comes after has it from there
  EXPECT_EQ(w.layers[4].over, nullptr);
  EXPECT_DOUBLE_EQ(w.layers[4].budget, 2e-7);
  EXPECT_NE(sentence(w).find("layer3 is the first over its own budget, in the forward"),
            std::string::npos)
      << sentence(w);
}

TEST(Waterfall, BackwardRunsFromTheHeadDown) {
  const std::vector<CaseRecord> records = pair(1, true);
  const Waterfall w = waterfalls(records).at(0);
  EXPECT_EQ(w.layers[kLayers + 1].layer, "head");
  EXPECT_TRUE(w.layers[kLayers + 1].backward);
  EXPECT_EQ(w.layers.back().layer, "layer0");
  ASSERT_NE(w.first(), nullptr);
  EXPECT_EQ(w.first()->layer, "layer1");
  EXPECT_TRUE(w.first()->backward);
  EXPECT_EQ(w.first()->over->parameter, "model.layers.1.w.weight");
}

TEST(Waterfall, WithoutAFaultEveryLayerIsWithinItsBudget) {
  const std::vector<CaseRecord> records = pair(kLayers);
  const Waterfall w = waterfalls(records).at(0);
  EXPECT_EQ(w.first(), nullptr);
  EXPECT_EQ(sentence(w), "every layer is within its own budget");
}

TEST(Waterfall, NeedsBothRecordsOfTheSameCandidate) {
  std::vector<CaseRecord> records = pair(3);
  EXPECT_EQ(waterfalls({records[1], records[0]}).size(), 1u);
  EXPECT_TRUE(waterfalls({records[1]}).empty());
  records[1].fault = "P-x";
  EXPECT_TRUE(waterfalls(records).empty());
}

TEST(Waterfall, StandsInTheTerminalInTheJsonAndOnThePage) {
  RunFolder folder;
  folder.cases = pair(3);
  const std::string text = console_result(folder, "out", {});
  EXPECT_NE(text.find("<= first"), std::string::npos) << text;
  EXPECT_NE(text.find("head"), std::string::npos) << text;
  const std::string json = to_json_line(waterfalls(folder.cases).at(0));
  EXPECT_NE(json.find(R"("first":"layer3")"), std::string::npos) << json;
  EXPECT_EQ(parse_line(json).index(), RecordLine{}.index());  // derived: a reader passes over it
  const std::string page = test::unpacked(html(folder));
  EXPECT_EQ(test::markup_error(page), "");
  EXPECT_EQ(test::occurrences(page, "<div class=\"waterfall\">"), 2u);
}

}  // namespace
}  // namespace parity::reports
