#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "harness/failure.hpp"
#include "reports/reports.hpp"
#include "reports/sample_test.hpp"

namespace parity::reports {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(dir); }
  void TearDown() override { fs::remove_all(dir); }

  std::string text(const char* file) const {
    std::ifstream in(dir / file, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void put(const std::string& records) const {
    fs::create_directories(dir);
    std::ofstream(dir / "records.jsonl", std::ios::binary) << records;
  }
  std::string complaint() const {
    try {
      (void)read_run(dir);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  const fs::path dir =
      fs::path(testing::TempDir()) /
      (std::string("parity_run_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  const RunFolder sample = test::sample_run(3, true);
};

TEST_F(RunFolderTest, ARunReadsBackFromItsFolder) {
  {
    RecordWriter writer(dir, sample.run, false);
    for (const CaseRecord& record : sample.cases) writer.write(record);
    for (const MutantRecord& mutant : sample.mutants) writer.write(mutant);
    writer.write(*sample.mutation);
    writer.write(Complaint{"golden/x.h5 changed", 5});
  }
  write_reports(sample, dir);
  const RunFolder back = read_run(dir);
  ASSERT_EQ(back.cases.size(), sample.cases.size());
  for (std::size_t i = 0; i < back.cases.size(); ++i)
    EXPECT_EQ(to_json_line(back.cases[i]), to_json_line(sample.cases[i]));
  EXPECT_EQ(to_json_line(back.run), to_json_line(sample.run));
  EXPECT_EQ(back.mutants.size(), 3);
  EXPECT_EQ(back.mutation->clean, 1040);
  EXPECT_EQ(back.complaints.at(0).exit, 5);
  EXPECT_EQ(back.exit, sample.exit);
  EXPECT_EQ(back.wall_ms, sample.wall_ms);
  for (const char* file : {"report.html", "junit.xml", "summary.md", "summary.json"})
    EXPECT_TRUE(fs::exists(dir / file)) << file;
  for (const auto& entry : fs::directory_iterator(dir))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos);
}

TEST_F(RunFolderTest, ResumingKeepsWholeLinesAndDropsTheTornOne) {
  {
    RecordWriter writer(dir, sample.run, false);
    writer.write(sample.cases[0]);
    writer.write(sample.cases[1]);
  }
  std::ofstream(dir / "records.jsonl", std::ios::app)
      << to_json_line(sample.cases[2]).substr(0, 100);  // killed here
  EXPECT_EQ(read_run(dir).cases.size(), 2);
  {
    RecordWriter writer(dir, sample.run, true);
    writer.write(sample.cases[2]);
  }
  EXPECT_EQ(read_run(dir).cases.size(), 3);
  const std::string whole = text("records.jsonl");
  EXPECT_EQ(test::occurrences(whole, "\"kind\":\"run\""), 1);
  EXPECT_EQ(test::occurrences(whole, "\n"), 4);
}

TEST_F(RunFolderTest, ARunThatDiedInItsFirstLineBeginsAnew) {
  put(to_json_line(sample.run).substr(0, 20));
  { RecordWriter writer(dir, sample.run, true); }
  EXPECT_EQ(text("records.jsonl"), to_json_line(sample.run) + "\n");
}

TEST_F(RunFolderTest, ARecordJudgedAgainReplacesTheOlderOne) {
  CaseRecord again = sample.cases[0];
  again.reason = "second";
  put(to_json_line(sample.run) + "\n" + to_json_line(sample.cases[0]) + "\n" +
      to_json_line(sample.cases[1]) + "\n" + to_json_line(again) + "\n");
  const RunFolder back = read_run(dir);
  ASSERT_EQ(back.cases.size(), 2);
  EXPECT_EQ(back.cases[0].reason, "second");
}

TEST_F(RunFolderTest, WithoutASummaryTheRecordsSayTheExit) {
  put(to_json_line(sample.run) + "\n" + to_json_line(sample.cases[0]) + "\n");
  EXPECT_EQ(read_run(dir).exit, 0);
  put(to_json_line(sample.run) + "\n");
  EXPECT_EQ(read_run(dir).exit, 4);  // nothing ran
  put(to_json_line(sample.run) + "\n" + to_json_line(sample.cases[0]) + "\n" +
      to_json_line(Complaint{"changed", 5}) + "\n");
  EXPECT_EQ(read_run(dir).exit, 5);
}

TEST_F(RunFolderTest, WhatIsNoRunIsRefusedWithFileAndLine) {
  EXPECT_NE(complaint().find("is no run: it holds no records.jsonl"), std::string::npos);
  put("");
  EXPECT_NE(complaint().find("is empty"), std::string::npos);
  put("hello\nworld\n");
  EXPECT_NE(complaint().find("records.jsonl:1: no JSON"), std::string::npos);
  put(to_json_line(sample.cases[0]) + "\n");
  EXPECT_NE(complaint().find("records.jsonl:1: the first line of a run"), std::string::npos);
  put(to_json_line(sample.run) + "\n{\"kind\":\n" + to_json_line(sample.cases[0]) + "\n");
  EXPECT_NE(complaint().find("records.jsonl:2: no JSON"), std::string::npos);
}

TEST_F(RunFolderTest, WritingWhereItCannotSaysWhere) {
  EXPECT_THROW(write_atomically("/proc/no/such/file", "x"), UsageError);
  EXPECT_THROW(RecordWriter("/proc/no", sample.run, false), UsageError);
  fs::create_directories(
      dir / "a.txt");  // a folder stands where the file goes: nothing half-written is left
  EXPECT_THROW(write_atomically(dir / "a.txt", "x"), UsageError);
}

TEST(PicturesTest, KeepsThoseOfFailuresAndOfTheWidestSoFar) {
  Pictures pictures;
  const auto kept = [&](double used, const char* kernel) {
    CaseRecord record = test::sample_case("kda", kernel, "f32", "B1", "peak", used, true, 1);
    pictures.thin(record);
    return record.tensors[0].heatmaps.size() + record.tensors[0].profiles.size() > 0;
  };
  EXPECT_TRUE(kept(0.2, "a"));  // the first
  EXPECT_FALSE(kept(0.1, "a"));
  EXPECT_TRUE(kept(0.3, "a"));  // wider
  EXPECT_TRUE(kept(0.1, "b"));  // another kernel
  EXPECT_TRUE(kept(1.5, "a"));  // a failure
  EXPECT_FALSE(kept(0.25, "a"));
}

}  // namespace
}  // namespace parity::reports
