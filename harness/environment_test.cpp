#include "harness/environment.hpp"

#include <gtest/gtest.h>
#include <string>
#include <string_view>

#include "harness/build_info.hpp"

namespace parity {
namespace {

// `0` in the pattern stands for a digit, anything else for itself. (<regex> costs four seconds to
// compile.)
bool looks_like(std::string_view text, std::string_view pattern) {
  if (text.size() != pattern.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == '0' ? !digit : text[i] != pattern[i]) return false;
  }
  return true;
}

TEST(Environment, ARunSaysWhereAndHowItRan) {
  const RunRecord run = describe_run("parity run x", Lane::Smoke, 7);
  EXPECT_EQ(run.command, "parity run x");
  EXPECT_EQ(run.lane, "smoke");
  EXPECT_EQ(run.seed, 7u);
  EXPECT_TRUE(looks_like(run.started, "0000-00-00T00:00:00Z")) << run.started;
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
  std::string_view commit = build_info().commit;
  if (commit == "unknown") return;
  if (commit.ends_with("+changes")) commit.remove_suffix(8);
  EXPECT_GE(commit.size(), 12u) << commit;
  EXPECT_EQ(commit.find_first_not_of("0123456789abcdef"), std::string_view::npos) << commit;
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
  EXPECT_TRUE(path.empty() || path.ends_with("/libparity_torch.so")) << path;
}

}  // namespace
}  // namespace parity
