#include "harness/source_path.hpp"

#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

TEST(SourcePath, IsThatOfTheRepository) {
  EXPECT_EQ(in_repository(Failure("any").file), "harness/source_path_test.cpp");
  for (const KernelDef& kernel : registry().kernels) {
    const std::string_view file = in_repository(kernel.where.file_name());
    EXPECT_TRUE(file.starts_with("kernels/") || file.starts_with("references/") ||
                file.ends_with("_test.cpp"))
        << file;
  }
  EXPECT_EQ(in_repository("/usr/include/stdio.h"), "/usr/include/stdio.h");
}

}  // namespace
}  // namespace parity
