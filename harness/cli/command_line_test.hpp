// The command line as tests call it: the executable itself, through a shell.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/wait.h>

#include "harness/test_paths.hpp"

namespace parity::cli {

namespace fs = std::filesystem;

struct Ran {
  std::string out = {}, err = {};
  int exit = -1;
};

// A folder of its own for each test.
class CommandLine : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(dir);
    fs::create_directories(dir);
  }
  void TearDown() override { fs::remove_all(dir); }

  // `arguments` as a shell takes them; runs in the folder of the test.
  Ran parity(const std::string& arguments) const {
    const std::string command = "cd '" + dir.string() + "' && '" + test::kBinaryDir + "/parity' " +
                                arguments + " >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {text("out.txt"), text("err.txt"),
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
  }
  std::string text(const fs::path& file) const {
    std::ifstream in(dir / file, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  void put(const fs::path& file, const std::string& content) const {
    fs::create_directories((dir / file).parent_path());
    std::ofstream(dir / file, std::ios::binary) << content;
  }
  // Refused with exit 2, nothing on stdout and this on stderr.
  void expect_refused(const std::string& arguments, const std::string& words) const {
    const Ran ran = parity(arguments);
    EXPECT_EQ(ran.exit, 2) << arguments << "\n" << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_NE(ran.err.find(words), std::string::npos) << arguments << " said\n" << ran.err;
    EXPECT_EQ(ran.err.find("a fault of parity"), std::string::npos) << arguments << " said\n"
                                                                    << ran.err;
  }

  const fs::path dir =
      fs::path(testing::TempDir()) /
      (std::string("parity_cli_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string goldens = std::string(test::kSourceDir) + "/golden/independent";
  // Two records of a real kernel: enough to exercise a run's folder in a second.
  const std::string recorded =
      "run --recording " + goldens + "/kda_h200_recordings.h5 '*short*' -q --timeout-per-case 60 ";
};

}  // namespace parity::cli
