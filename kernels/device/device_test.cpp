// What GPU kernels come to on this machine: judged where there is a device, `unsupported` with the
// reason where there is none.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/device_info.hpp"
#include "harness/launch.hpp"
#include "harness/suite.hpp"
#include "harness/testing/scaled.hpp"
#include "harness/walk.hpp"
#include "kernels/device/evil_for_test.hpp"

namespace parity {
namespace {

using ::testing::HasSubstr;

std::vector<CaseRecord> run(const Subject& subject) {
  SuiteOptions options;
  options.timeout_s = 6;
  options.details = false;
  std::vector<CaseRecord> records;
  run_suite({subject}, options, [&](const CaseRecord& r) { records.push_back(r); });
  return records;
}

Subject evil_subject() {
  Subject subject = subject_of(test::scaled_case("test_scaled", "N5,D7"), "");
  subject.direction = Direction::Forward;
  for (const test::EvilOnDevice& evil : test::evils_on_device())
    subject.candidates.push_back(candidate_of(evil.kernel, {}, subject.problem));
  return subject;
}

bool takes(const KernelDef& kernel, Dtype dtype) {
  return std::ranges::find(kernel.contract.dtypes, dtype) != kernel.contract.dtypes.end();
}

void expect_unsupported(const CaseRecord& record) {
  EXPECT_EQ(record.status, "unsupported") << record.id;
  EXPECT_THAT(record.reason, HasSubstr("needs an sm_")) << record.id;
  EXPECT_FALSE(record.hw_verified) << record.id;
  EXPECT_TRUE(record.device.empty()) << record.id;
}

// Each gets its own verdict, and none costs another one.
TEST(Device, EachEvilKernelIsNamedForWhatItDid) {
  const Subject subject = evil_subject();
  if (subject.candidates.empty()) return;  // built without nvcc
  const std::vector<CaseRecord> records = run(subject);
  ASSERT_EQ(records.size(), test::evils_on_device().size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const test::EvilOnDevice& evil = test::evils_on_device()[i];
    const CaseRecord& r = records[i];
    if (!subject.candidates[i].unsupported.empty()) {
      expect_unsupported(r);
      continue;
    }
    EXPECT_EQ(r.status, evil.status) << r.id << ": " << r.reason;
    EXPECT_EQ(r.error_kind, evil.error_kind) << r.id << ": " << r.reason;
    EXPECT_EQ(r.view, evil.view.empty() ? "" : evil.view) << r.id << ": " << r.reason;
    EXPECT_THAT(r.reason, HasSubstr(std::string(evil.complaint))) << r.id;
    if (r.status == "error") continue;
    EXPECT_FALSE(r.device.at("name").empty());
    EXPECT_THAT(r.device.at("sm"), HasSubstr("sm_"));
    EXPECT_FALSE(r.device.at("driver").empty());
    EXPECT_THAT(r.device.at("kernels"), HasSubstr("scale<"));
  }
}

// Every registered GPU kernel, on one case of its op.
TEST(Device, WithoutADeviceEveryKernelSaysWhy) {
  const DeviceReport report = query_devices();
  for (const KernelDef& kernel : registry().kernels) {
    if (!runs_on_device(kernel)) continue;
    const std::string missing = missing_capability(kernel.needs);
    if (report.devices.empty()) {
      EXPECT_THAT(missing, HasSubstr(report.reason)) << kernel.name;
    }
    if (missing.empty()) continue;
    for (const Case& c : expand(registry(), Lane::Smoke)) {
      if (c.op != kernel.op || !takes(kernel, c.dtype)) continue;
      Subject subject = subject_of(c, "");
      subject.candidates = {candidate_of(kernel, {}, c)};
      const std::vector<CaseRecord> records = run(subject);
      ASSERT_EQ(records.size(), 1U);
      expect_unsupported(records[0]);
      EXPECT_EQ(records[0].reason, missing);
      break;
    }
  }
}

}  // namespace
}  // namespace parity
