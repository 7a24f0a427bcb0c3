#include "harness/cuda/launched.hpp"

#include <gtest/gtest.h>

namespace parity {
namespace {

TEST(Launched, NamesAreReadableAndEachIsThereOnce) {
  take_launched();
  note_launched("_ZN6parity4rowsIfEEvPKfl");  // void parity::rows<float>(float const*, long)
  note_launched("_ZN6parity5otherEPFvvE");    // parity::other(void (*)())
  note_launched("_ZN6parity4rowsIfEEvPKfl");
  note_launched("plain_c_name");
  EXPECT_EQ(take_launched(),
            (std::vector<std::string>{"parity::rows<float>", "parity::other", "plain_c_name"}));
  EXPECT_TRUE(take_launched().empty());
}

}  // namespace
}  // namespace parity
