#include "harness/environment.hpp"

#include <gtest/gtest.h>
#include <regex>

#include "harness/build_info.hpp"

namespace parity {
namespace {

TEST(Environment, ARunSaysWhereAndHowItRan) {
  const RunRecord run = describe_run("parity run x", Lane::Smoke, 7);
  EXPECT_EQ(run.command, "parity run x");
  EXPECT_EQ(run.lane, "smoke");
  EXPECT_EQ(run.seed, 7u);
  EXPECT_TRUE(
      std::regex_match(run.started, std::regex("20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")))
      << run.started;
  for (const char* key : {"cpu", "isa", "cores", "os"})
    EXPECT_FALSE(run.host.at(key).empty()) << key;
  EXPECT_GE(std::stoi(run.host.at("cores")), 1);
  for (const char* key : {"id", "version", "build"})
    EXPECT_FALSE(run.compiler.at(key).empty()) << key;
  EXPECT_NE(run.flags.at("all").find("-ffp-contract=off"), std::string::npos);
  EXPECT_NE(run.flags.at("*_avx512.cpp").find("-mavx512f"), std::string::npos);
  EXPECT_FALSE(run.libraries.at("hdf5").empty());
}

// "unknown" is for a tree without git; a hash has a known length.
TEST(Environment, TheCommitIsAHashOrUnknown) {
  const std::string commit(build_info().commit);
  EXPECT_TRUE(std::regex_match(commit, std::regex("unknown|[0-9a-f]{12,40}(\\+changes)?")))
      << commit;
}

TEST(Environment, TodayIsTheDateOfARun) {
  const std::string before = today();
  const std::string started = describe_run("", Lane::Full, {}).started.substr(0, 10);
  const std::string after = today();
  EXPECT_TRUE(started == before || started == after) << before << ' ' << started << ' ' << after;
}

// A build without LibTorch has none, one with LibTorch has it beside the library of the hub.
TEST(Environment, TheTorchLibraryIsNamedOnlyWhereItIs) {
  const std::string path = torch_library_path();
  if (!path.empty()) EXPECT_TRUE(path.ends_with("/libparity_torch.so")) << path;
}

}  // namespace
}  // namespace parity
