// The table of gradients and the layer that went astray, on records made up here.
#include "reports/gradients.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "reports/json.hpp"
#include "reports/sample_test.hpp"

namespace parity::reports {
namespace {

TensorRecord gradient(std::string parameter, double r) {
  TensorRecord t = test::sample_tensor("grads/params/" + parameter, "gradient", "f32", r, false, 1);
  t.parameter = std::move(parameter);
  return t;
}
TensorRecord tap(const std::string& name, double r) {
  return test::sample_tensor(name, name.starts_with("grads/") ? "gradient" : "output", "f32", r,
                             false, 1);
}

CaseRecord record() {
  CaseRecord c{.id = "decoder/x"};
  c.tensors = {test::sample_tensor("logits", "output", "f32", 0.5, false, 1),
               gradient("model.layers.3.w", 0.2), gradient("model.layers.7.q", 4),
               gradient("model.layers.7.w", 3), gradient("model.layers.12.w", 9)};
  return c;
}

TEST(Gradients, WidestFirstAndSharesAddUp) {
  const CaseRecord c = record();
  const std::vector<GradientRow> rows = gradient_rows(c);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "model.layers.12.w");
  EXPECT_EQ(rows[3].name, "model.layers.3.w");
  double total = 0;
  for (const GradientRow& row : rows) total += row.share;
  EXPECT_NEAR(total, 1, 1e-12);
  EXPECT_NEAR(rows[0].share, 81 / (81 + 16 + 9 + 0.04), 1e-12);
}

TEST(Gradients, NanComesFirst) {
  CaseRecord c = record();
  c.tensors.push_back(gradient("nan", NAN));
  EXPECT_EQ(gradient_rows(c)[0].name, "nan");
}

TEST(Gradients, TheTableSaysHowManyMore) {
  const std::string text = console_gradients(record(), 2);
  EXPECT_EQ(test::occurrences(text, "\n"), 4) << text;
  EXPECT_NE(text.find("and 2 more with"), std::string::npos) << text;
  EXPECT_EQ(text.find("layers.3"), std::string::npos) << text;
  EXPECT_EQ(test::occurrences(console_gradients(record(), 99), "\n"), 5);
  EXPECT_EQ(console_gradients({}, 20), "");
}

TEST(Gradients, StandInTheTerminalAndInTheJson) {
  RunFolder folder;
  folder.cases = {record()};
  folder.cases[0].status = "pass";
  EXPECT_NE(console_result(folder, "out", {}).find("model.layers.12.w"), std::string::npos);
  const std::string json = to_json_line(folder.cases[0]);
  EXPECT_NE(json.find(R"("gradients":[{"parameter":"model.layers.12.w")"), std::string::npos);
  EXPECT_EQ(to_json_line(std::get<CaseRecord>(parse_line(json))), json);
  EXPECT_EQ(to_json_line(test::sample_case("kda", "k", "f32", "B1", "peak", 0.5, false, 0))
                .find("\"gradients\""),
            std::string::npos);
}

TEST(Layers, TheFirstInForwardOrderIsNamed) {
  CaseRecord c = record();
  EXPECT_EQ(first_astray(c).layer, "layer12");  // without taps the last that a gradient passes
  for (const char* name : {"tap/layer11.attn", "tap/layer7.attn", "grads/tap/layer12.attn"})
    c.tensors.push_back(tap(name, 2));
  c.tensors.push_back(tap("tap/layer3.attn", 0.5));
  const Astray astray = first_astray(c);
  ASSERT_NE(astray.tensor, nullptr);
  EXPECT_EQ(astray.layer, "layer7");
  EXPECT_FALSE(astray.backward);
  ASSERT_NE(astray.parameter, nullptr);
  EXPECT_EQ(astray.parameter->parameter, "model.layers.7.q");
  EXPECT_NE(sentence(astray).find("layer7: tap/layer7.attn"), std::string::npos);
}

TEST(Layers, OfGradientsTheLastLayerComesFirst) {
  CaseRecord c = record();
  c.tensors.push_back(tap("grads/tap/layer3.attn", 2));
  c.tensors.push_back(tap("grads/tap/layer7.attn", 2));
  c.tensors.push_back(tap("tap/layer7.attn", 0.5));
  EXPECT_EQ(first_astray(c).layer, "layer7");
  EXPECT_TRUE(first_astray(c).backward);
}

}  // namespace
}  // namespace parity::reports
