// Several runs on the command line: parts put together, compared, a history, other bounds.
#include <gtest/gtest.h>

#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

class ManyRuns : public CommandLine {
 protected:
  void cases(const std::string& flags, const std::string& out, int exit = 0) const {
    const Ran ran =
        parity("run 'l2norm/*/f32/*' --kernel l2norm.rows -q --dump none --force --out " + out +
               " " + flags);
    EXPECT_EQ(ran.exit, exit) << ran.out << ran.err;
  }
};

TEST_F(ManyRuns, ShardsAreOneRunAgain) {
  cases("--shard 1/2", "s1");
  cases("--shard 2/2", "s2");
  cases("", "whole");
  expect_refused("report s1 s2", "--out");
  const Ran ran = parity("report s1 s2 --out all --gate");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.out.find("6 pass, 0 fail"), std::string::npos) << ran.out;
  const Ran diff = parity("diff whole all");
  EXPECT_EQ(diff.exit, 0) << diff.out;
  EXPECT_NE(diff.out.find("6 records in both runs, 0 moved"), std::string::npos) << diff.out;
}

TEST_F(ManyRuns, AFaultMovesThem) {
  cases("", "h/one");
  cases("", "h/two");
  cases("--fault P-l2-dot", "h/wrong", 1);
  Ran ran = parity("diff h/one h/wrong");
  EXPECT_EQ(ran.exit, 1);
  EXPECT_NE(ran.out.find("pass -> fail"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("noise floors"), std::string::npos) << ran.out;
  EXPECT_EQ(parity("report h/wrong --gate").exit, 1);
  EXPECT_EQ(parity("report h/wrong").exit, 0);
  ran = parity("history h");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.out.find("step     l2norm/"), std::string::npos) << ran.out;
  EXPECT_NE(text("h/history.html").find("<svg"), std::string::npos);
  expect_refused("history h/one", "at least two");
}

TEST_F(ManyRuns, BoundsAreTightenedAfterTheFact) {
  cases("", "r");
  put("tighter.txt", "l2norm/*\ty\t0.001\n");
  const Ran ran = parity("report r --bounds tighter.txt --out t --gate");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("2 cannot be judged again"), std::string::npos) << ran.err;
  EXPECT_EQ(parity("report r --gate").exit, 0);  // the run itself is as it was
  EXPECT_NE(parity("report r r r r r r r --propose-bounds").out.find("l2norm/*/f32/*@l2norm.rows"),
            std::string::npos);
}

TEST_F(ManyRuns, FailFastBeginsNothingMore) {
  const Ran ran = parity(
      "run 'l2norm/*/f32/*' --kernel l2norm.rows --fault P-l2-dot --lane full -q --force "
      "--fail-fast --dump none");
  EXPECT_EQ(ran.exit, 1);
  EXPECT_NE(ran.err.find("--fail-fast: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("were not begun"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace parity::cli
