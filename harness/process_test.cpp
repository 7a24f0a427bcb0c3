#include "harness/process.hpp"

#include <cstdlib>
#include <gtest/gtest.h>
#include <new>
#include <random>
#include <signal.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "harness/failure.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

std::string framed(const Frame& frame) {
  Pipe pipe = make_pipe();
  send_frame(pipe.write.get(), frame);
  pipe.write.reset();
  std::string bytes(1 << 16, '\0');
  bytes.resize(static_cast<std::size_t>(::read(pipe.read.get(), bytes.data(), bytes.size())));
  return bytes;
}

TEST(Frames, ArriveInAnyPieces) {
  const std::string two =
      framed({FrameKind::Record, 7, std::string(1000, 'r')}) + framed({FrameKind::Skipped, 8});
  for (const std::size_t piece : {1u, 7u, 40u, 5000u}) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < two.size(); i += piece) {
      reader.feed(std::string_view(two).substr(i, piece));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].index, 7u);
    EXPECT_EQ(frames[0].payload, std::string(1000, 'r'));
    EXPECT_EQ(frames[1].kind, FrameKind::Skipped);
    EXPECT_TRUE(reader.empty());
  }
}

TEST(Frames, DamageIsRefused) {
  const std::string whole = framed({FrameKind::Record, 7, "a record of some length"});
  std::mt19937 random(3);
  int silent = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] ^= static_cast<char>(1 + random() % 255);
    FrameReader reader;
    reader.feed(bad);
    try {
      if (reader.next()) ++silent;
    } catch (const Failure&) {
    }
  }
  EXPECT_LE(silent, 4);  // the four spare bytes of the header
  FrameReader reader;
  reader.feed("garbage");
  EXPECT_THROW(reader.next(), Failure);
}

Ending ending_of(void (*last_act)()) {
  const pid_t self = ::getpid(), pid = ::fork();
  if (pid == 0) {
    if (become_child(self)) {
      mute_stderr();
      last_act();
    }
    ::_exit(0);
  }
  return reap(pid);
}

Ending with_rss(Ending ending, std::int64_t mib) {
  ending.max_rss_bytes = mib << 20;
  return ending;
}

[[gnu::noinline]] void allocates_too_much() { throw std::bad_alloc(); }

TEST(Explain, AnAllocationThatFailedSaysSoItself) {
  void (*const acts[])() = {
      [] { die_out_of_memory(); }, [] { std::thread([] { throw std::bad_alloc(); }).join(); },
      [] { std::thread([] { throw std::bad_array_new_length(); }).join(); },
      []() noexcept { allocates_too_much(); },
      [] {  // with the signal blocked, as whoever blocks all of them leaves it
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_BLOCK, &all, nullptr);
        die_out_of_memory();
      }};
  for (const auto act : acts) {
    const Trouble t = explain(ending_of(act));
    EXPECT_EQ(t.kind, "memory");
    EXPECT_NE(t.reason.find("out of memory"), std::string::npos) << t.reason;
  }
}

TEST(Explain, OtherDeathsAreCrashesHoweverLargeTheProcessWas) {
  const Ending aborted = ending_of([] { std::abort(); });
  const Ending uncaught =
      ending_of([] { std::thread([] { throw std::runtime_error("no"); }).join(); });
  const Ending left = ending_of([] { ::_exit(7); });
  for (const Ending& ending : {aborted, uncaught, left})
    for (const std::int64_t mib : {1, 700, 1 << 20}) {
      EXPECT_EQ(explain(with_rss(ending, mib)).kind, "crash") << mib;  // without a limit
      // What was resident when the limit was set is none of the case's.
      const MemoryLimit limit{.more_bytes = 512LL << 20, .start_bytes = mib << 20};
      EXPECT_EQ(explain(with_rss(ending, mib + 400), limit).kind, "crash") << mib;
    }
  EXPECT_EQ(explain(left).reason, "exited with code 7 before it had finished");
}

TEST(Explain, ACrashAtTheLimitIsTakenForAnAllocationThatNobodyChecked) {
  const Ending aborted = ending_of([] { std::abort(); });
  const MemoryLimit limit{.more_bytes = 512LL << 20, .start_bytes = 300LL << 20};
  const Trouble t = explain(with_rss(aborted, 300 + 480), limit);
  EXPECT_EQ(t.kind, "memory");
  EXPECT_NE(t.reason.find("480 MiB of the 512 MiB"), std::string::npos) << t.reason;
  const Ending left = ending_of([] { ::_exit(7); });
  EXPECT_EQ(explain(with_rss(left, 300 + 480), limit).kind, "crash");
}

TEST(Explain, TheLimitIsTheOneThatHolds) {
  const Ending ending = ending_of([] {
    const MemoryLimit none = limit_memory(0), one = limit_memory(1LL << 30),
                      tighter = limit_memory(1LL << 40);
    const bool without = none.more_bytes == 0 && none.start_bytes == 0;
    const bool set = one.more_bytes == 1LL << 30 && one.start_bytes > 0;
    const bool kept = tighter.more_bytes > 0 && tighter.more_bytes <= 1LL << 30;
    const bool refused = one.more_bytes == 0 && tighter.more_bytes == 0;  // under a sanitizer
    ::_exit(without && ((set && kept) || refused) ? 42 : 1);
  });
  EXPECT_EQ(explain(ending).reason, "exited with code 42 before it had finished");
}

TEST(Capability, SaysWhatIsMissing) {
  EXPECT_EQ(missing_capability(""), "");
  EXPECT_NE(missing_capability("abacus"), "");
  EXPECT_NE(missing_capability("sm_"), "");
  EXPECT_NE(missing_capability("sm_x"), "");
  EXPECT_NE(missing_capability("sm_10a"), "");  // no such GPU will ever be here
  // Whoever has AVX-512 has AVX2.
  if (missing_capability("avx512").empty()) {
    EXPECT_EQ(missing_capability("avx2"), "");
  }
}

}  // namespace
}  // namespace parity
