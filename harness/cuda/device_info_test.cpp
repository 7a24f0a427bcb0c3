#include "harness/cuda/device_info.hpp"

#include <gtest/gtest.h>

namespace parity {
namespace {

TEST(DeviceInfo, EitherDevicesOrTheReasonWhyNot) {
  const DeviceReport report = query_devices();
  EXPECT_EQ(report.devices.empty(), !report.reason.empty()) << report.reason;
  for (const DeviceInfo& d : report.devices) {
    EXPECT_FALSE(d.name.empty());
    EXPECT_GE(d.major, 5);
    EXPECT_GT(d.multiprocessors, 0);
    EXPECT_GT(d.free_bytes, 0);
    EXPECT_LE(d.free_bytes, d.memory_bytes);
    EXPECT_GT(report.driver_version, 0);
  }
}

// The first call must not have initialised CUDA in this process: a child forked afterwards would
// find it unusable.
TEST(DeviceInfo, MayBeAskedAgainAfterAFork) {
  const DeviceReport first = query_devices();
  const DeviceReport second = query_devices();
  EXPECT_EQ(first.reason, second.reason);
  EXPECT_EQ(first.driver_version, second.driver_version);
  EXPECT_EQ(first.runtime_version, second.runtime_version);
  ASSERT_EQ(first.devices.size(), second.devices.size());
  for (std::size_t i = 0; i < first.devices.size(); ++i) {
    EXPECT_EQ(first.devices[i].name, second.devices[i].name);
    EXPECT_EQ(first.devices[i].sm(), second.devices[i].sm());
    EXPECT_EQ(first.devices[i].memory_bytes, second.devices[i].memory_bytes);
  }
}

TEST(DeviceInfo, PrintsTheNamesPeopleUse) {
  EXPECT_EQ((DeviceInfo{.major = 9, .minor = 0}).sm(), "sm_90");
  EXPECT_EQ((DeviceInfo{.major = 10, .minor = 3}).sm(), "sm_103");
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
}

}  // namespace
}  // namespace parity
