#include "harness/child.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace parity {
namespace {

TEST(InChild, AnswersWithWhatItReturns) {
  EXPECT_EQ(in_child([] { return std::string(); }).bytes, "");
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  const ChildAnswer answer = in_child([&] { return large; });
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.bytes, large);
}

TEST(InChild, SaysHowItEnded) {
  ChildAnswer answer = in_child([]() -> std::string { throw std::runtime_error("no luck"); });
  EXPECT_EQ(answer.trouble.kind, "thrown");
  EXPECT_EQ(answer.trouble.reason, "no luck");
  answer = in_child([]() -> std::string { ::raise(SIGSEGV), ::_exit(0); }, {.quiet = true});
  EXPECT_EQ(answer.trouble.kind, "crash");
  answer = in_child([]() -> std::string { ::_exit(0); });  // without a word
  EXPECT_EQ(answer.trouble.kind, "crash");
  answer = in_child(
      []() -> std::string {
        std::this_thread::sleep_for(std::chrono::seconds(30));
        return "late";
      },
      {.seconds = 0.05});
  EXPECT_EQ(answer.trouble.kind, "timeout");
}

}  // namespace
}  // namespace parity
