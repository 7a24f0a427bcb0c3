#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "reports/reports.hpp"
#include "reports/sample_test.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

using test::occurrences;
using test::sample_case;
using test::sample_run;

std::string last_line(const std::string& text) {
  const std::string body = text.substr(0, text.find_last_not_of('\n') + 1);
  return body.substr(body.rfind('\n') + 1);
}

TEST(Console, ARowOfEachKind) {
  const CaseRecord pass = sample_case("kda", "kda.f32", "f32", "B1,T64", "peak", 0.25, false, 0);
  EXPECT_EQ(console_row(pass, {}),
            "pass        kda/B1,T64/f32/peak/gate=lower_bound/s0@kda.f32  grads/v ███······· 4.0x "
            "at b=0,t=197,h=2,v=17\n");
  const CaseRecord fail = sample_case("kda", "kda.f32", "f32", "B1,T64", "peak", 2.5, false, 0);
  EXPECT_EQ(console_row(fail, {}),
            "FAIL        kda/B1,T64/f32/peak/gate=lower_bound/s0@kda.f32  grads/v bound 2.5 of 1 "
            "at b=0,t=197,h=2,v=17\n");
  EXPECT_EQ(console_row({.id = "kda/x",
                         .direction = "backward",
                         .status = "error",
                         .reason = "killed by SIGSEGV"},
                        {}),
            "ERROR       kda/x backward  killed by SIGSEGV\n");
}

TEST(Console, AFailureSaysWhatWhereAndHowToRerunIt) {
  const std::string text =
      console_failure(sample_case("kda", "kda.f32", "f32", "B1,T64", "peak", 2.5, false, 0), {});
  for (const char* part :
       {"what     grads/v: bound is 2.5, allowed 1 (at b=0,t=197,h=2,v=17); 512 of 65536 elements "
        "over the bound",
        "bound    estimated: rho u |x*|",
        "one 2.5x as wide would pass; the base itself uses 0.42 of it",
        "views    violated: bound, slice", "also     o (bound), final_state (bound)",
        "where    worst at b=0,t=197,h=2,v=17; every error lies in the last partial chunk, t >= "
        "192",
        "candidate       ulp         r",
        "repro    parity run 'kda/B1,T64/f32/peak/gate=lower_bound/s0@kda.f32'"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  EXPECT_EQ(occurrences(text, "\n             b=0,t="), 10);  // the ten worst points
}

TEST(Console, FitsAScreenHoweverMuchFails) {
  RunFolder folder = sample_run(60, true);
  EXPECT_LE(occurrences(console_result(folder, "out", {}), "\n"), 40);
  for (int i = 0; i < 300; ++i) {
    folder.cases.push_back(sample_case("kda", "kda.f32", "f32", "B1,T64", "peak", 2.5, false,
                                       static_cast<std::uint64_t>(i)));
    CaseRecord odd{.id = "kda/y" + std::to_string(i),
                   .op = "op" + std::to_string(i),
                   .kernel = "op" + std::to_string(i) + ".k"};
    odd.status = i % 3 == 0 ? "pass" : i % 3 == 1 ? "unsupported" : "error";
    odd.reason = "reason " + std::to_string(i);
    folder.cases.push_back(odd);
  }
  const std::string text = console_result(folder, "out", {});
  EXPECT_LE(occurrences(text, "\n"), 40) << text;
  EXPECT_NE(text.find("more that do not pass"), std::string::npos);
  EXPECT_GT(occurrences(console_result(folder, "out", {.verbose = true}), "\n"), 1000);
}

TEST(Console, TheLastLineIsTheSummary) {
  const RunFolder folder = sample_run(120, true);
  EXPECT_EQ(last_line(console_result(folder, "out", {})),
            "120 pass, 2 fail, 1 unproven, 1 unsupported, 2 error, 1 waived, 1 expected fail");
  EXPECT_EQ(last_line(console_verdicts(folder, {})),
            "120 pass, 2 fail, 1 unproven, 1 unsupported, 2 error, 1 waived, 1 expected fail");
  EXPECT_EQ(last_line(console_result({}, "out", {})),
            "0 pass, 0 fail, 0 unproven, 0 unsupported, 0 error, 0 waived");
  EXPECT_NE(console_result({}, "out", {}).find("exit 4"), std::string::npos);
}

TEST(Console, ErrorsOfOneReasonAreToldOnce) {
  RunFolder folder;
  for (int i = 0; i < 50; ++i)
    folder.cases.push_back({.id = "kda/" + std::to_string(i),
                            .op = "kda",
                            .status = "error",
                            .reason = "no bound",
                            .error_kind = "harness"});
  const std::string text = console_result(folder, "out", {});
  EXPECT_EQ(occurrences(text, "no bound"), 1) << text;
  EXPECT_NE(text.find("49 more"), std::string::npos) << text;
}

TEST(Console, AHostileIdIsNoTerminalCommand) {
  RunFolder folder;
  folder.cases.push_back(
      sample_case("kda", "k\x1b[2J", "f32", "B1\r\n", "\x07peak", 2.5, false, 0));
  folder.cases.push_back(
      sample_case("kda", "k\x1b[2J", "f32", "B1\r\n", "\x07peak", 0.5, false, 0));
  folder.cases.back().reason = "\x1b]0;title\x07";
  folder.cases.back().status = "unsupported";
  const std::string text = console_result(folder, "out", {});
  EXPECT_EQ(text.find_first_of("\x1b\x07\r"), std::string::npos);
}

TEST(Console, ColourOnlyWhereAsked) {
  const RunFolder folder = sample_run(6, true);
  EXPECT_EQ(console_result(folder, "out", {}).find('\x1b'), std::string::npos);
  EXPECT_NE(console_result(folder, "out", {.colour = true}).find("\x1b[1;31mFAIL"),
            std::string::npos);
}

TEST(Console, MutantsThatLiveComeOut) {
  const RunFolder folder = sample_run(0, true);
  const std::string text = console_mutants(folder.mutants, *folder.mutation, {});
  EXPECT_EQ(text.find("F-12"), std::string::npos);  // killed: counted
  EXPECT_NE(text.find("survived    kda.base!F-31"), std::string::npos);
  EXPECT_EQ(last_line(text),
            "mutants: 1 killed, 1 survived, 1 unsupported; 0 false alarms on 1040 clean variants");
  EXPECT_NE(console_mutants(folder.mutants, *folder.mutation, {.verbose = true}).find("F-12"),
            std::string::npos);
}

TEST(Words, NumbersReadWell) {
  EXPECT_EQ(number(0.0312345), "0.0312");
  EXPECT_EQ(number(1.234e-7), "1.23e-07");
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(65536), "65536");
  EXPECT_EQ(number(std::nan("")), "nan");
  EXPECT_EQ(number(-INFINITY), "-inf");
  EXPECT_EQ(headroom(0.31), "3.2x");
  EXPECT_EQ(headroom(0), "exact");
  EXPECT_EQ(headroom(1e-6), ">1000x");
  EXPECT_EQ(headroom(1), "none");
  EXPECT_EQ(headroom(std::nan("")), "none");
  EXPECT_EQ(duration(840), "840 ms");
  EXPECT_EQ(duration(125e3), "2 min 5 s");
  EXPECT_EQ(bytes_of(4 << 20), "4.0 MiB");
  EXPECT_EQ(bytes_of(1), "1 byte");
  EXPECT_EQ(escaped("<a href=\"x\">'&\x01"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;?");
}

TEST(Words, TheTellingTensorIsTheMostSevereOne) {
  CaseRecord record = sample_case("kda", "k", "f32", "B1", "peak", 3, false, 0);
  record.tensors[3].views[0].ok = false;  // finiteness outranks the bound, whatever its share
  EXPECT_EQ(telling_tensor(record)->name, record.tensors[3].name);
  EXPECT_EQ(telling_view(*telling_tensor(record))->view, "finiteness");
  EXPECT_TRUE(
      std::isnan(max_bound_used({.tensors = {{.bound_used = 0.2}, {.bound_used = std::nan("")}}})));
}

TEST(Words, AnExitOfFourSaysWhetherMutantsCausedIt) {
  RunFolder folder;
  folder.exit = 4;
  EXPECT_EQ(exit_meaning(folder).find("something was not proven"), 0U);
  folder.mutation = MutationSummary{.killed = 3, .survived = 1, .false_alarms = 2};
  EXPECT_EQ(exit_meaning(folder),
            "the gate itself is not proven: 1 mutant survived, 2 false alarms");
  folder.mutation = MutationSummary{.killed = 3};
  EXPECT_EQ(exit_meaning(folder).find("something was not proven"), 0U);
}

}  // namespace
}  // namespace parity::reports
