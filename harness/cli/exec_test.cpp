// Commands as candidates, and dumps compared: what a first user does.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

class Commands : public CommandLine {
 protected:
  // The example of the README on one case.
  Ran example(const std::string& arguments, const std::string& flags = "") const {
    return parity("run 'l2norm/N9,D16/f32/*' 'l2norm/N44,D128/f32/small_rows/s0' -q --force " +
                  flags + " --exec 'python3 " + test::kSourceDir + "/ci/examples/l2norm.py " +
                  arguments + "'");
  }
  // One case, a command that goes wrong.
  void expect_error(const std::string& command, const std::string& words,
                    const std::string& kind) const {
    const Ran ran = parity(
        "run 'l2norm/N9,D16/f32/exact_rows/eps=0/s0' -q --force "
        "--timeout-per-case 1 --exec '" +
        command + "'");
    EXPECT_EQ(ran.exit, 3) << command << ran.out;
    const std::string records = text("parity-out/records.jsonl");
    EXPECT_NE(records.find(words), std::string::npos) << records;
    EXPECT_NE(records.find("\"error_kind\":\"" + kind + "\""), std::string::npos) << records;
  }
  void tensor(const std::string& file, const std::string& name, double first,
              Dtype dtype = Dtype::F32) const {
    Tensors tensors;
    tensors.add(make_tensor({.name = name, .dtype = dtype, .dims = {{"A", 2}, {"B", 2}}},
                            std::vector<double>{first, 2, 3, 4}));
    io::write(dir / file, tensors, {});
  }
};

TEST_F(Commands, ARightOneFailsNowhere) {
  const Ran ran = example("{in} {out}");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("2 pass, 0 fail"), std::string::npos) << ran.out;
  EXPECT_NE(text("parity-out/records.jsonl").find("\"direction\":\"both\""), std::string::npos);
}

TEST_F(Commands, AWrongOneFailsAndSaysHowToRunItAgain) {
  const Ran ran = example("{in} {out} eps_outside");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("parity run l2norm/N44,D128/f32/small_rows/s0@exec --exec"),
            std::string::npos)
      << ran.out;
}

TEST_F(Commands, GradientsMayBeLeftOutButNotInTheBackward) {
  EXPECT_EQ(example("{in} {out} no_grads").exit, 0);
  EXPECT_NE(text("parity-out/records.jsonl").find("\"direction\":\"forward\""), std::string::npos);
  const Ran ran = example("{in} {out} no_grads", "--direction backward");
  EXPECT_EQ(ran.exit, 3);
  EXPECT_NE(ran.out.find("'grads/x' was not produced"), std::string::npos) << ran.out;
}

TEST_F(Commands, WhatGoesWrongIsSaid) {
  expect_error("echo boom >&2; false {in} {out}", "ended with exit code 1: boom", "crash");
  expect_error("kill -9 $$ {in} {out}", "ended by signal 9", "crash");
  expect_error("true {in} {out}", "no such file", "crash");
  expect_error("echo x >{out}; true {in}", "too short for a .safetensors file", "crash");
  expect_error("sleep 20; true {in} {out}", "timed out", "timeout");
  const std::string run = "run 'l2norm/N9,D16/f32/exact_rows/eps=0/s0' -q ";
  expect_refused(run + "--exec 'true {in}'", "names no {out}");
  expect_refused(run + "--exec 'true {in.csv} {out}'", "{in.npz}");
  expect_refused(run + "--exec 'true {in} {out}' --contract f33", "contract f33: l2norm knows");
  expect_refused(run + "--contract f32", "--exec");
  // A copy of the inputs produces nothing that was asked for.
  expect_error("cp {in} {out}", "'y' was not produced", "crash");
}

TEST_F(Commands, DiffHasAnExitCodeForEachAnswer) {
  tensor("a.safetensors", "x", 1);
  tensor("same.npz", "x", 1);
  tensor("b.h5", "x", 1.5);
  tensor("y.h5", "y", 1);
  EXPECT_EQ(parity("diff a.safetensors same.npz").exit, 0);
  const Ran ran = parity("diff a.safetensors b.h5");
  EXPECT_EQ(ran.exit, 1);
  EXPECT_NE(ran.out.find("first difference: x"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("first at [0,0]: 1 in A, 1.5 in B"), std::string::npos) << ran.out;
  EXPECT_EQ(parity("diff a.safetensors y.h5").exit, 4);
  EXPECT_EQ(parity("diff a.safetensors y.h5 --rename y=x").exit, 0);
  EXPECT_EQ(parity("diff a.safetensors b.h5 --bound 0.5").exit, 0);
  expect_refused("diff a.safetensors gone.h5", "gone.h5: no such file");
  put("bad.npz", "PK");
  expect_refused("diff a.safetensors bad.npz", "end record");
}

TEST_F(Commands, DiffWritesOneDocument) {
  tensor("a.npz", "x", 1);
  tensor("b.npz", "x", 1.5);
  tensor("c.npz", "x", 1, Dtype::F64);
  const auto json = nlohmann::json::parse(parity("diff a.npz b.npz --truth c.npz --json").out);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["first_difference"], "x");
  EXPECT_EQ(json["exit"], 1);
  EXPECT_EQ(json["only_in_a"].size(), 0u);
  const auto& x = json["tensors"][0];
  EXPECT_EQ(x["equal"], false);
  EXPECT_EQ(x["differing"], 1);
  EXPECT_EQ(x["max_abs"], 0.5);
  EXPECT_EQ(x["first"]["index"], (std::vector<int>{0, 0}));
  EXPECT_EQ(x["error_a"]["rel_l2"], 0);
  EXPECT_EQ(x["ratio"], "inf");
}

}  // namespace
}  // namespace parity::cli
