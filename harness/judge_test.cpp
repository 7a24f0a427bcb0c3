// Every status, the order of severity, accounting and waivers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "harness/registry.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ViewResult view(View v, double value, double limit) {
  return {.view = std::string(name(v)), .value = value, .limit = limit};
}

CaseRecord record_with(std::vector<ViewResult> views) {
  CaseRecord record;
  record.id = "softmax/N8/bf16/peak/s0@softmax.online";
  record.tensors.push_back({.name = "y", .views = std::move(views)});
  record.accounting.produced = record.accounting.compared = 16;
  return record;
}

std::string status_of(CaseRecord record) {
  judge(record);
  return record.status;
}

TEST(Judge, PassesOnlyIfValueIsWithinLimit) {
  EXPECT_EQ(status_of(record_with({view(View::Bound, 1, 1)})), "pass");
  EXPECT_EQ(status_of(record_with({view(View::Bound, 1.0000001, 1)})), "fail");
  EXPECT_EQ(
      status_of(record_with({view(View::Bound, std::numeric_limits<double>::quiet_NaN(), 1)})),
      "fail");
  EXPECT_EQ(
      status_of(record_with({view(View::Bound, 0, std::numeric_limits<double>::quiet_NaN())})),
      "fail");
  EXPECT_EQ(status_of(record_with({view(View::Bound, std::numeric_limits<double>::infinity(), 1)})),
            "fail");
}

TEST(Judge, NothingComparedIsUnproven) {
  CaseRecord record;
  judge(record);
  EXPECT_EQ(record.status, "unproven");
  EXPECT_EQ(record.reason, "nothing was compared");
  EXPECT_EQ(status_of(record_with({})), "unproven");
}

TEST(Judge, SeverityDecidesWhichViewIsNamed) {
  CaseRecord record =
      record_with({view(View::Ratio, 2, 1), view(View::Bias, 2, 1), view(View::Bound, 0, 1)});
  record.tensors.push_back(
      {.name = "z", .views = {view(View::Slice, 2, 1), view(View::Finiteness, 1, 0)}});
  judge(record);
  EXPECT_EQ(record.status, "fail");
  EXPECT_EQ(record.view, "finiteness");
  EXPECT_THAT(record.views, ElementsAre("finiteness", "bias", "slice", "ratio"));
  EXPECT_THAT(record.reason, HasSubstr("z: finiteness"));
  EXPECT_EQ(record.tensors[0].view, "bias");
}

TEST(Judge, EveryViewInItsOrder) {
  std::vector<ViewResult> views;
  for (const View v :
       {View::Ratio, View::Floor, View::Slice, View::Bias, View::Grid, View::Bound,
        View::Determinism, View::Discrete, View::Exact, View::Finiteness, View::Accounting})
    views.push_back(view(v, 1, 0));
  CaseRecord record = record_with(views);
  judge(record);
  EXPECT_THAT(record.views,
              ElementsAre("accounting", "finiteness", "exact", "discrete", "determinism", "bound",
                          "grid", "bias", "slice", "floor", "ratio"));
  EXPECT_EQ(record.view, "accounting");
}

TEST(Judge, AccountingFailsOrProvesNothing) {
  const auto with = [](auto change) {
    CaseRecord record = record_with({view(View::Bound, 0, 1)});
    change(record.accounting);
    judge(record);
    return record;
  };
  EXPECT_EQ(with([](Accounting& a) { a.inputs_unchanged = false; }).view, "accounting");
  EXPECT_EQ(with([](Accounting& a) { a.canaries_whole = false; }).status, "fail");
  EXPECT_EQ(with([](Accounting& a) { a.saved_unchanged = false; }).status, "fail");
  EXPECT_EQ(with([](Accounting& a) { a.unwritten = 4; }).status, "fail");
  const CaseRecord uncompared = with([](Accounting& a) { a.compared = 12; });
  EXPECT_EQ(uncompared.status, "unproven");
  EXPECT_EQ(uncompared.reason, "4 of 16 bytes were not compared");
  EXPECT_EQ(with([](Accounting& a) { a.complaints = {"'z' was not produced"}; }).status,
            "unproven");
}

TEST(Judge, AFailureIsNotHiddenByDoubt) {
  CaseRecord record = record_with({view(View::Bias, 2, 1)});
  record.tensors[0].unproven = "the bound is larger than the output";
  judge(record);
  EXPECT_EQ(record.status, "fail");
  record.tensors[0].views = {view(View::Bias, 0, 1)};
  judge(record);
  EXPECT_EQ(record.status, "unproven");
  EXPECT_THAT(record.reason, HasSubstr("larger than the output"));
}

TEST(Judge, ATensorLeftOpenAltogetherNeedsAnotherThatIsJudged) {
  CaseRecord record = record_with({view(View::Discrete, 0, 0)});
  TensorRecord open{.name = "codes", .elements = 8, .open = 8, .unproven = "left open"};
  record.tensors.push_back(open);
  judge(record);
  EXPECT_EQ(record.status, "pass") << record.reason;
  record.tensors.erase(record.tensors.begin());
  judge(record);
  EXPECT_EQ(record.status, "unproven");
  record = record_with({view(View::Discrete, 0, 0)});
  open.open = 7;
  record.tensors.push_back(open);
  judge(record);
  EXPECT_EQ(record.status, "unproven");
}

TEST(Judge, ErrorAndUnsupportedStay) {
  for (const char* status : {"error", "unsupported"}) {
    CaseRecord record = record_with({view(View::Bound, 2, 1)});
    record.status = status;
    EXPECT_EQ(status_of(record), status);
  }
}

TEST(Judge, IsIdempotent) {
  CaseRecord record = record_with({view(View::Bound, 2, 1)});
  judge(record);
  const std::string reason = record.reason;
  judge(record);
  EXPECT_EQ(record.reason, reason);
  EXPECT_THAT(record.views, ElementsAre("bound"));
}

const Waiver kWaiver{.id = "softmax/*",
                     .reason = "sums in bf16",
                     .url = "https://example.org/1",
                     .owner = "ann",
                     .expires = "2030-06-30"};

TEST(Waivers, CoverFailuresUntilTheyExpire) {
  CaseRecord record = record_with({view(View::Bound, 2, 1)});
  judge(record);
  CaseRecord last_day = record, day_after = record;
  apply_waivers(last_day, std::array{kWaiver}, "2030-06-30");
  EXPECT_EQ(last_day.status, "waived");
  EXPECT_THAT(last_day.reason, HasSubstr("ann"));
  EXPECT_THAT(last_day.views, ElementsAre("bound")) << "what was found stays in the record";
  apply_waivers(day_after, std::array{kWaiver}, "2030-07-01");
  EXPECT_EQ(day_after.status, "fail");
  EXPECT_THAT(day_after.reason, HasSubstr("expired on 2030-06-30"));
}

TEST(Waivers, NeedAnOwnerAndADateAndAMatch) {
  CaseRecord record = record_with({view(View::Bound, 2, 1)});
  judge(record);
  for (const Waiver& w :
       {Waiver{.id = "other/*", .reason = "r", .owner = "o", .expires = "2099-01-01"},
        Waiver{.id = "*", .reason = "r", .owner = "", .expires = "2099-01-01"},
        Waiver{.id = "*", .reason = "r", .owner = "o", .expires = ""},
        Waiver{.id = "*", .reason = "", .owner = "o", .expires = "2099-01-01"}}) {
    CaseRecord tried = record;
    apply_waivers(tried, std::array{w}, "2030-01-01");
    EXPECT_EQ(tried.status, "fail") << w.id;
  }
  CaseRecord pass = record_with({view(View::Bound, 0, 1)});
  judge(pass);
  apply_waivers(pass, std::array{kWaiver}, "2030-01-01");
  EXPECT_EQ(pass.status, "pass");
}

}  // namespace
}  // namespace parity
