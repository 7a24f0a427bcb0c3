// Text in files from elsewhere: lines of a fixed length, and attributes that stand for a tensor.
#include <gtest/gtest.h>

#include "golden/golden.hpp"
#include "golden/h5.hpp"
#include "harness/failure.hpp"
#include "harness/test_paths.hpp"

namespace parity::golden {
namespace {

const std::filesystem::path kFile =
    std::filesystem::path(test::kSourceDir) / "golden/independent/fsdp2.h5";

TEST(Text, LinesOfAFixedLengthAreTheirCharacters) {
  const Tensor trace = h5::File(kFile).read("n2_fp32_block_adamw/rank_0/trace");
  EXPECT_EQ(trace.spec.dtype, Dtype::U8);
  ASSERT_EQ(trace.spec.dims.size(), 2u);
  EXPECT_EQ(trace.spec.dims[0].extent, 24);
  const std::string first(reinterpret_cast<const char*>(trace.bytes.data()), 24);
  EXPECT_EQ(first, "1 0 forward all_gather r");
}

TEST(Text, AnAttributeStandsForATensor) {
  bool seen = false;
  for (const StoredCase& stored : stored_cases(kFile)) {
    if (stored.name != "collectives/n2_float32_large") continue;
    seen = true;
    EXPECT_EQ(stored.read("@sha256_rank0").elements(), 64);
    EXPECT_THROW(stored.read("@sha256_rank7"), GoldenError);
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace parity::golden
