#include "harness/process.hpp"

#include <gtest/gtest.h>
#include <random>
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
