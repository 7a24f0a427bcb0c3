#include "harness/cli/values.hpp"

#include <gtest/gtest.h>

namespace parity::cli {
namespace {

TEST(Values, SeedsAreWholeAndFit) {
  for (const char* good : {"0", "7", "18446744073709551615"}) EXPECT_EQ(is_seed(good), "") << good;
  for (const char* bad :
       {"", "-1", "+1", " 1", "1.5", "abc", "0x10", "18446744073709551616", "99999999999999999999"})
    EXPECT_NE(is_seed(bad), "") << bad;
}

TEST(Values, SecondsAreAboveZeroAndFinite) {
  for (const char* good : {"1", "0.25", "1e3", "1000000"}) EXPECT_EQ(is_seconds(good), "") << good;
  for (const char* bad : {"", "0", "-1", "nan", "inf", "1e7", "5s", "ten"})
    EXPECT_NE(is_seconds(bad), "") << bad;
}

}  // namespace
}  // namespace parity::cli
