#include "reports/json.hpp"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/reports.hpp"
#include "reports/sample_test.hpp"

namespace parity::reports {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(JsonWriter, FloatsAreTheShortestThatReadBack) {
  for (const double value :
       {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789012345680.0, 1e-7}) {
    const std::string text = JsonWriter().value(value).text();
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
  }
  EXPECT_EQ(JsonWriter().value(0.1).text(), "0.1");
  EXPECT_EQ(JsonWriter().value(std::vector{kNan, kInf, -kInf}).text(), R"(["nan","inf","-inf"])");
}

TEST(JsonWriter, AnyBytesGiveAValidDocument) {
  std::string hostile;
  for (int c = 0; c < 256; ++c) hostile += static_cast<char>(c);
  hostile +=
      "\xED\xA0\x80\xF4\x90\x80\x80\xC0\xAF\xE2\x82";  // surrogate, beyond Unicode, overlong, torn
  const std::string text = JsonWriter().begin_object().field("a", hostile).end_object().text();
  const auto parsed = nlohmann::json::parse(text);  // throws on what is no JSON or no UTF-8
  EXPECT_EQ(parsed["a"].get<std::string>().substr(0, 128), hostile.substr(0, 128));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(JsonWriter, NestsAndSeparates) {
  JsonWriter out;
  out.begin_object()
      .field("n", 1)
      .key("list")
      .begin_array()
      .value(true)
      .begin_object()
      .end_object()
      .null()
      .end_array();
  out.field("big", std::uint64_t{18446744073709551615U}).end_object();
  EXPECT_EQ(out.text(), R"({"n":1,"list":[true,{},null],"big":18446744073709551615})");
}

TEST(Json, ACaseReadsBackAsItWas) {
  CaseRecord record = test::sample_case("kda", "kda.chunked_bf16", "bf16", "B1,T3+0+5", "peak", 2.5,
                                        true, 18446744073709551615U);
  record.tensors[0].bound_used = kNan;
  record.tensors[0].max_rel = kInf;
  record.tensors[0].gain = -kInf;
  record.tensors[0].heatmaps[0].cells[3] = kInf;
  record.tensors[1].worst.reset();
  record.tensors[1].scatter.reset();
  record.expected = "fail";
  record.reason = "line\nbreak \"quoted\" <tag> \\ \x01";
  record.accounting.complaints = {"canary of o broken at offset 4096"};
  const std::string line = to_json_line(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = std::get<CaseRecord>(parse_line(line));
  EXPECT_EQ(to_json_line(back), line);  // every field is written, so equal text is an equal record
  EXPECT_TRUE(std::isnan(back.tensors[0].bound_used));
  EXPECT_EQ(back.tensors[0].max_rel, kInf);
  EXPECT_EQ(back.tensors[0].worst->index, (std::vector<std::int64_t>{0, 197, 2, 17}));
  EXPECT_EQ(back.seed, record.seed);
  EXPECT_EQ(back.reason, record.reason);
}

TEST(Json, KeysAreThoseThatScriptsDependOn) {
  CaseRecord record =
      test::sample_case("kda", "kda.chunked_f32", "f32", "B1,T256", "peak", 0.5, false, 3);
  auto line = nlohmann::json::parse(to_json_line(record));
  for (const char* key :
       {"kind", "id", "op", "kernel", "dtype", "fill", "seed", "sizes", "options", "direction",
        "check", "status", "reason", "hw_verified", "tensors", "accounting", "time_ms", "repro"})
    EXPECT_TRUE(line.contains(key)) << key;
  EXPECT_FALSE(line.contains("expected"));
  EXPECT_FALSE(line.contains("view"));
  EXPECT_FALSE(line.contains("error_kind"));
  const auto& tensor = line["tensors"][0];
  for (const char* key : {"name",
                          "role",
                          "shape",
                          "dtype",
                          "elements",
                          "max_abs",
                          "max_rel",
                          "rel_l2",
                          "cosine",
                          "max_ulp",
                          "norm_ratio",
                          "mismatches",
                          "offset_z",
                          "gain",
                          "gain_base",
                          "gain_z",
                          "zero_fraction",
                          "bound_used",
                          "base_bound_used",
                          "floor",
                          "bound_kind",
                          "bound_that_would_pass",
                          "detectable",
                          "quantiles",
                          "worst",
                          "status"})
    EXPECT_TRUE(tensor.contains(key)) << key;
  EXPECT_EQ(tensor["grid"], (nlohmann::json{{"format", "bfloat16"}, {"share", 1.0}}));
  EXPECT_TRUE(tensor["pattern"].is_null());
  EXPECT_EQ(line["sizes"]["T"], 256);

  record.status = "fail";
  record.view = "bound";
  record.views = {"bound", "slice"};
  record.expected = "fail";
  line = nlohmann::json::parse(to_json_line(record));
  EXPECT_EQ(line["view"], "bound");
  EXPECT_EQ(line["views"].size(), 2);
  EXPECT_EQ(line["expected"], "fail");

  const auto run = nlohmann::json::parse(to_json_line(RunRecord{.command = "parity run"}));
  EXPECT_EQ(run["schema"], 1);
  EXPECT_EQ(run["kind"], "run");
  EXPECT_TRUE(run["device"].is_null());
  EXPECT_TRUE(run["seed"].is_null());
}

TEST(Json, OtherLinesReadBack) {
  const MutantRecord mutant{.id = "kda.base!F-1",
                            .op = "kda",
                            .fault = "F-1",
                            .what = "mask",
                            .status = "killed",
                            .case_id = "kda/x",
                            .view = "bound",
                            .margin = kInf};
  EXPECT_EQ(to_json_line(std::get<MutantRecord>(parse_line(to_json_line(mutant)))),
            to_json_line(mutant));
  const MutationSummary mutation{.killed = 3, .survived = 1, .clean = 1000};
  EXPECT_EQ(std::get<MutationSummary>(parse_line(to_json_line(mutation))).clean, 1000);
  const Complaint complaint{"golden/x.h5: changed", 5};
  EXPECT_EQ(std::get<Complaint>(parse_line(to_json_line(complaint))).exit, 5);
  EXPECT_TRUE(
      std::holds_alternative<std::monostate>(parse_line(R"({"kind":"of a later version"})")));
}

TEST(Json, WhatIsNoRecordSaysWhy) {
  const auto complaint = [](std::string_view line) -> std::string {
    try {
      (void)parse_line(line);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint("{\"kind\":\"case\""), "no JSON");
  EXPECT_EQ(complaint("[1]"), "an object is expected, not array");
  EXPECT_EQ(complaint("{}"), "no key 'kind'");
  EXPECT_EQ(complaint(R"({"kind":"case","tensors":7})"), "key 'tensors' holds number");
  EXPECT_EQ(complaint(R"({"kind":"case","tensors":[{"elements":1e300}]})"), "1e+300 is no integer");
  EXPECT_EQ(complaint(R"({"kind":"case","tensors":[{"gain":"large"}]})"), "'large' is no number");
  EXPECT_EQ(complaint(R"({"kind":"run","schema":2})"),
            "schema 2 is not known here; this parity reads schema 1");
}

TEST(Json, SummaryCountsAndPoints) {
  RunFolder folder = test::sample_run(6, true);
  const auto summary = nlohmann::json::parse(summary_json(folder, "out"));
  EXPECT_EQ(summary["schema"], 1);
  EXPECT_EQ(summary["counts"]["pass"], 6);
  EXPECT_EQ(summary["counts"]["fail"], 2);
  EXPECT_EQ(summary["counts"]["expected_fail"], 1);
  EXPECT_EQ(summary["exit"], 1);
  EXPECT_EQ(summary["mutants"]["survived"], 1);
  EXPECT_EQ(summary["paths"]["report.html"], "out/report.html");
  folder.mutation.reset();
  EXPECT_TRUE(nlohmann::json::parse(summary_json(folder, "out"))["mutants"].is_null());
  EXPECT_EQ(parse_summary(summary_json(folder, "out")).exit, 1);
}

}  // namespace
}  // namespace parity::reports
