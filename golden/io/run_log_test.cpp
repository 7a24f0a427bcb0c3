#include "golden/io/run_log.hpp"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>

#include "golden/io/bytes.hpp"
#include "golden/io/crc32c.hpp"
#include "golden/io/log_walk.hpp"
#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::io {
namespace {

namespace fs = std::filesystem;

class Logs : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(dir); }
  void TearDown() override { fs::remove_all(dir); }
  fs::path put(const std::string& name, const std::string& content) const {
    fs::create_directories((dir / name).parent_path());
    std::ofstream(dir / name, std::ios::binary) << content;
    return dir / name;
  }
  RunLog read(const std::string& name, const std::string& content) const {
    return read_log(put(name, content), options);
  }
  std::string refusal(const std::string& name, const std::string& content) const {
    try {
      read(name, content);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  const fs::path dir =
      fs::path(testing::TempDir()) /
      (std::string("parity_logs_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  LogOptions options = {.wanted = [](std::string_view name) { return name != "time"; }};
};

std::vector<std::pair<std::int64_t, double>> points(const Series& series) {
  std::vector<std::pair<std::int64_t, double>> list;
  const Series* one = &series;
  walk_common_steps({&one, 1}, [&](std::int64_t step, std::span<const double> values) {
    list.emplace_back(step, values[0]);
  });
  return list;
}

using Points = std::vector<std::pair<std::int64_t, double>>;

// ---- event files, as TensorFlow and PyTorch write them ----

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7F) | 0x80);
  return text + static_cast<char>(value);
}
std::string bytes_field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number << 3 | 2)) + varint(bytes.size()) + bytes;
}
std::string float_field(int number, float value) {
  std::string text = varint(static_cast<std::uint64_t>(number << 3 | 5));
  put_little_endian(text, std::bit_cast<std::uint32_t>(value), 4);
  return text;
}
std::string integer_field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number << 3)) + varint(value);
}
std::string simple(const std::string& tag, float value) {
  return bytes_field(1, bytes_field(1, tag) + float_field(2, value));
}
// As torch's and TF 2's writers store a scalar: a tensor without dimensions.
std::string tensor(const std::string& tag, double value) {
  std::string content;
  put_little_endian(content, std::bit_cast<std::uint64_t>(value), 8);
  return bytes_field(
      1, bytes_field(1, tag) + bytes_field(8, integer_field(1, 2) + bytes_field(4, content)));
}
std::string event(std::int64_t step, const std::string& summary) {
  std::string text = varint(1 << 3 | 1);
  put_little_endian(text, std::bit_cast<std::uint64_t>(1.7e9), 8);
  return text + integer_field(2, static_cast<std::uint64_t>(step)) + bytes_field(5, summary);
}
std::string framed(const std::string& message) {
  std::string text;
  put_little_endian(text, message.size(), 8);
  put_little_endian(text, masked_crc32c(std::as_bytes(std::span(text))), 4);
  text += message;
  put_little_endian(text, masked_crc32c(std::as_bytes(std::span(message))), 4);
  return text;
}
std::string version() { return framed(bytes_field(3, "brain.Event:2")); }

TEST(Crc32c, KnownAnswers) {  // RFC 3720, B.4
  const auto of = [](const std::string& text) { return crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of("123456789"), 0xE3069283U);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62A8AB43U);
}

TEST_F(Logs, CsvWithQuotesTabsAndEmptyCells) {
  const RunLog log = read("a.csv",
                          "\xef\xbb\xbf\"step\"\t\"my \"\"loss\"\"\"\ttime\tval\r\n"
                          "0\t3.5\tx\t\r\n10\t2.25\ty\t1\r\n");
  EXPECT_EQ(log.format, "CSV");
  ASSERT_NE(log.find("my \"loss\""), nullptr);
  EXPECT_EQ(points(*log.find("my \"loss\"")), (Points{{0, 3.5}, {10, 2.25}}));
  EXPECT_EQ(points(*log.find("val")), (Points{{10, 1}}));
  EXPECT_EQ(log.left_out, std::vector<std::string>{"time"});
}

TEST_F(Logs, TheLastLineMayBeCutShort) {
  const RunLog log = read("a.csv", "step,loss,norm\n0,3,1\n1,2,1\n2,1");
  EXPECT_EQ(log.find("loss")->size(), 2);
  ASSERT_EQ(log.remarks.size(), 1U);
  EXPECT_NE(log.remarks[0].find("line 4"), std::string::npos);
  EXPECT_NE(refusal("b.csv", "step,loss,norm\n0,3,1\n1,2\n2,1,1\n").find("line 3"),
            std::string::npos);
}

TEST_F(Logs, JsonlNestedWithNanAndOtherLines) {
  const RunLog log =
      read("a.jsonl",
           "{\"config\": {\"lr\": 1e-3, \"layers\": [1, {\"a\": 2}]}}\n"
           "{\"step\": 1, \"train\": {\"loss\": 2.5, \"note\": null}, \"time\": \"x\"}\n"
           "{\"step\": 2.0, \"train\": {\"loss\": NaN}}\n"
           "{\"step\": 3, \"train\": {\"loss\": -Infinity}}\n");
  const Series* loss = log.find("train/loss");
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->size(), 3);
  EXPECT_EQ(loss->not_finite(), 2);
  EXPECT_EQ(loss->first_not_finite(), 2);
  EXPECT_EQ(log.remarks.size(), 1U);  // one line without a step
}

TEST_F(Logs, EventsOfEveryWriter) {
  std::string file = version();
  for (int step = 0; step < 3; ++step) {
    const auto value = static_cast<float>(step);
    file += framed(event(step, simple("loss", value) + tensor("grad_norm", 0.1 * step)));
  }
  for (int step = 0; step < 3; ++step)  // one tag after the other
    file += framed(event(step, simple("late", 7)));
  const RunLog log = read("events.out.tfevents.1", file);
  EXPECT_EQ(log.format, "TensorBoard");
  EXPECT_EQ(points(*log.find("loss")), (Points{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(points(*log.find("grad_norm")), (Points{{0, 0}, {1, 0.1}, {2, 0.2}}));
  EXPECT_EQ(log.find("late")->restarts(), 0);
}

TEST_F(Logs, AFolderOfEventFilesIsOneRun) {
  put("run/events.out.tfevents.1",
      version() + framed(event(0, simple("loss", 3))) + framed(event(1, simple("loss", 2))));
  put("run/events.out.tfevents.2", version() + framed(event(1, simple("loss", 2.5))));
  const RunLog log = read_log(dir / "run", options);
  EXPECT_EQ(points(*log.find("loss")), (Points{{0, 3}, {1, 2.5}}));
  EXPECT_EQ(log.find("loss")->restarts(), 1);
  fs::create_directories(dir / "none");
  EXPECT_THROW(read_log(dir / "none", options), UsageError);
}

// Every prefix of an event file, and every byte of it changed: read in part or refused, never more.
TEST_F(Logs, DamagedEventFilesAreRefusedOrCutShort) {
  const std::string whole =
      version() + framed(event(0, simple("loss", 3))) + framed(event(1, tensor("loss", 2)));
  for (std::size_t n = 12; n < whole.size(); ++n) {
    const std::string said = refusal("cut", whole.substr(0, n));
    if (said.empty()) continue;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    if (i >= 12)
      EXPECT_NE(refusal("bad", damaged), "") << i;
    else
      EXPECT_NE(refusal("bad", damaged).find(dir.string()), std::string::npos);
  }
  // A length beyond the file: cut short, and nothing is allocated for it.
  std::string huge;
  put_little_endian(huge, std::uint64_t{1} << 62, 8);
  put_little_endian(huge, masked_crc32c(std::as_bytes(std::span(huge))), 4);
  const RunLog log = read("huge", whole + huge + "x");
  EXPECT_EQ(log.remarks.size(), 1U);
}

TEST_F(Logs, WhatARestartReplacedIsKeptToBeCompared) {
  Series series("loss");
  for (std::int64_t step = 0; step < 50; ++step) series.append(step, 1);
  for (std::int64_t step = 40; step < 60; ++step) series.append(step, step == 45 ? 2 : 1);
  for (std::int64_t step = 58; step < 80; ++step)
    if (step != 70) series.append(step, 3);
  const StepCensus odd = census(series);
  EXPECT_EQ(odd.steps, 79);
  EXPECT_EQ(odd.missing, 1);
  EXPECT_EQ(odd.first_missing, 70);
  EXPECT_EQ(odd.restarts, 2);
  EXPECT_EQ(odd.first_restart, 40);
  EXPECT_EQ(odd.repeated, 12);
  EXPECT_EQ(odd.repeated_unlike, 3);
  EXPECT_EQ(odd.first_unlike, 45);
  const Points list = points(series);
  EXPECT_EQ(list[45].second, 2);
  EXPECT_EQ(list[58].second, 3);
}

TEST_F(Logs, DifferentIntervalsMeetWhereTheyCan) {
  Series tens("a"), threes("b"), all("c");
  for (std::int64_t step = 0; step <= 300; step += 10) tens.append(step, 1);
  for (std::int64_t step = 0; step <= 300; step += 3) threes.append(step, 2);
  for (std::int64_t step = 5; step <= 290; ++step) all.append(step, 3);
  const std::array<const Series*, 3> series = {&tens, &threes, &all};
  EXPECT_EQ(count_common_steps(series), 9);  // 30, 60, ..., 270
  std::vector<std::int64_t> steps;
  walk_common_steps(series, [&](std::int64_t step, std::span<const double> values) {
    steps.push_back(step);
    EXPECT_EQ(values[2], 3);
  });
  EXPECT_EQ(steps.front(), 30);
  EXPECT_EQ(steps.back(), 270);
}

TEST_F(Logs, ValuesBeyondTheLimitComeBackFromTheirFile) {
  set_log_memory(1 << 20);
  Series series("loss");
  const Rng rng{.seed = 5};
  constexpr std::int64_t kSteps = 300'000;
  for (std::int64_t step = 0; step < kSteps; ++step)
    series.append(step, rng.uniform01(static_cast<std::uint64_t>(step)));
  set_log_memory(std::int64_t{1} << 30);
  std::int64_t wrong = 0;
  const Series* one = &series;
  walk_common_steps({&one, 1}, [&](std::int64_t step, std::span<const double> values) {
    wrong += values[0] != rng.uniform01(static_cast<std::uint64_t>(step));
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(Logs, ResolutionIsThatOfTheLastPrintedPlace) {
  const RunLog coarse = read("a.csv", "step,loss\n0,2.3097\n1,2.31\n");
  EXPECT_DOUBLE_EQ(coarse.find("loss")->resolution().unit(2.3), 1e-4);
  const RunLog fine = read("b.csv", "step,loss\n0,2.30966306\n1,1.25e-05\n");
  EXPECT_LT(fine.find("loss")->resolution().unit(2.3), 3e-7);  // an fp32 ulp
  EXPECT_GT(fine.find("loss")->resolution().unit(2.3), 1e-7);
}

}  // namespace
}  // namespace parity::io
