#include "golden/io/diff.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

#include "golden/io/memory_file_test.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

using test::file_of;

Tensor tensor(const std::string& name, std::vector<double> values, Dtype dtype = Dtype::F32) {
  return make_tensor({.name = name,
                      .dtype = dtype,
                      .dims = {{"A", static_cast<std::int64_t>(values.size()) / 2}, {"B", 2}}},
                     values);
}

TEST(DiffTensors, NamesWhereAndHowMuchTheFirstDifferenceIs) {
  const TensorFile a = file_of({tensor("same", {1, 2}), tensor("x", {1, 2, 3, 4})});
  const TensorFile b = file_of({tensor("x", {1, 2, 3.5, 6}), tensor("same", {1, 2})});
  const Diff d = diff({.a = a, .b = b});
  ASSERT_EQ(d.tensors.size(), 2u);
  EXPECT_EQ(d.exit(), 1);
  EXPECT_EQ(d.first_difference()->name, "x");
  const TensorDiff& x = d.tensors[1];
  EXPECT_EQ(x.stats.differing, 2);
  EXPECT_EQ(x.first.index, 2);
  EXPECT_EQ(x.first.b, 3.5);
  EXPECT_EQ(x.worst.index, 3);
  EXPECT_EQ(x.stats.max_abs, 2);
  EXPECT_EQ(x.stats.max_rel, 0.5);
  EXPECT_DOUBLE_EQ(x.rel_l2(), std::sqrt(4.25 / 30));
  EXPECT_EQ(diff({.a = a, .b = a}).exit(), 0);
}

// Blocks are joined: a difference behind the first block has its place in the whole tensor.
TEST(DiffTensors, BlocksAreOneTensor) {
  std::vector<double> values(1'200'000, 1.0);
  Tensor changed = tensor("x", values);
  changed.as<float>()[1'100'000] = 2;
  const TensorFile a = file_of({tensor("x", values)}), b = file_of({std::move(changed)});
  const Diff d = diff({.a = a, .b = b});
  EXPECT_EQ(d.tensors[0].first.index, 1'100'000);
  EXPECT_EQ(d.tensors[0].worst.index, 1'100'000);
  EXPECT_EQ(d.tensors[0].stats.worst_index, 1'100'000);
  EXPECT_EQ(d.tensors[0].stats.elements, 1'200'000);
  EXPECT_EQ(d.tensors[0].stats.sum_sq_diff, 1);
}

TEST(DiffTensors, NothingIsGreenThatWasNotCompared) {
  const TensorFile a = file_of({tensor("x", {1, 2}), tensor("y", {1, 2})});
  const TensorFile fewer = file_of({tensor("x", {1, 2})});
  EXPECT_EQ(diff({.a = a, .b = fewer}).only_in_a, std::vector<std::string>{"y"});
  EXPECT_EQ(diff({.a = a, .b = fewer}).exit(), 1);
  EXPECT_EQ(diff({.a = fewer, .b = a}).only_in_b, std::vector<std::string>{"y"});
  EXPECT_EQ(diff({.a = fewer, .b = a}).exit(), 1);
  EXPECT_EQ(diff({.a = a, .b = file_of({tensor("z", {1, 2})})}).exit(), 4);
  EXPECT_EQ(diff({.a = file_of({}), .b = file_of({})}).exit(), 4);
}

TEST(DiffTensors, FormatAndShapeAreDifferences) {
  const TensorFile a = file_of({tensor("x", {1, 2})});
  const Diff dtype = diff({.a = a, .b = file_of({tensor("x", {1, 2.5}, Dtype::BF16)})});
  EXPECT_EQ(dtype.tensors[0].status, DiffStatus::Dtype);
  EXPECT_EQ(dtype.tensors[0].stats.max_abs, 0.5);
  EXPECT_EQ(dtype.exit(), 1);
  const Diff equal_values = diff({.a = a, .b = file_of({tensor("x", {1, 2}, Dtype::BF16)})});
  EXPECT_EQ(equal_values.exit(), 1);
  const Diff shape = diff({.a = a, .b = file_of({tensor("x", {1, 2, 3, 4})})});
  EXPECT_EQ(shape.tensors[0].status, DiffStatus::Shape);
  EXPECT_EQ(shape.exit(), 1);
}

TEST(DiffTensors, SignedZerosAndNansAreSeen) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const TensorFile a = file_of({tensor("x", {0.0, 1})}), b = file_of({tensor("x", {-0.0, 1})});
  EXPECT_EQ(diff({.a = a, .b = b}).exit(), 1);
  EXPECT_EQ(diff({.a = a, .b = b, .bound = 0}).exit(), 0);
  const TensorFile bad = file_of({tensor("x", {nan, 1})});
  EXPECT_EQ(diff({.a = a, .b = bad, .bound = 1e9}).exit(), 1);
  EXPECT_EQ(diff({.a = bad, .b = bad}).exit(), 0);
}

TEST(DiffTensors, BoundIsInUnitsOfTheRms) {
  const TensorFile a = file_of({tensor("x", {100, -100})}), b = file_of({tensor("x", {101, -100})});
  EXPECT_EQ(diff({.a = a, .b = b, .bound = 0.011}).tensors[0].status, DiffStatus::Within);
  EXPECT_EQ(diff({.a = a, .b = b, .bound = 0.009}).exit(), 1);
}

TEST(DiffTensors, TruthSaysWhichIsFurther) {
  const TensorFile truth = file_of({tensor("x", {1, 2, 3, 4}, Dtype::F64)});
  const TensorFile good = file_of({tensor("x", {1.001, 2, 3, 4})});
  const TensorFile as_good = file_of({tensor("x", {1, 2.001, 3, 4})});
  const TensorFile worse = file_of({tensor("x", {1.01, 2, 3, 4})});
  EXPECT_EQ(diff({.a = good, .b = as_good, .truth = &truth}).exit(), 0);
  const Diff d = diff({.a = good, .b = worse, .truth = &truth});
  EXPECT_EQ(d.exit(), 1);
  EXPECT_NEAR(d.tensors[0].ratio, 10, 0.01);
  EXPECT_EQ(diff({.a = worse, .b = good, .truth = &truth}).exit(), 0);
  // Against an exact A, what the storage format costs is allowed, and no more.
  const TensorFile exact = file_of({tensor("x", {1.001, 2.003, 3.007, 4.01}, Dtype::F64)});
  const TensorFile rounded = file_of({tensor("x", {1.001, 2.003, 3.007, 4.01}, Dtype::BF16)});
  EXPECT_EQ(diff({.a = exact, .b = rounded, .truth = &exact}).exit(), 0);
  // Wrong in the same way on both sides is no proof without truth for it.
  const TensorFile other = file_of({tensor("y", {1, 2})});
  EXPECT_EQ(diff({.a = good, .b = good, .truth = &other}).exit(), 1);
}

TEST(Renames, StarsCaptureInOrder) {
  const std::vector<Rename> rules = {parse_rename("_orig_mod.*=*"), parse_rename("a.*.b.*=*/*")};
  EXPECT_EQ(renamed(rules, "_orig_mod.w"), "w");
  EXPECT_EQ(renamed(rules, "a.1.b.2"), "1/2");
  EXPECT_EQ(renamed(rules, "a.b.b.c.b.d"), "b/c.b.d");
  EXPECT_EQ(renamed(rules, "other"), "other");
  EXPECT_EQ(renamed({parse_rename("*aab=<*>")}, "aaaab"), "<aa>");
  EXPECT_THROW(parse_rename("no"), UsageError);
  EXPECT_THROW(parse_rename("a*=**"), UsageError);
  const TensorFile a = file_of({tensor("p.x", {1, 2}), tensor("x", {1, 2})});
  EXPECT_THROW(diff({.a = a, .b = a, .renames = {parse_rename("p.*=*")}}), UsageError);
}

}  // namespace
}  // namespace parity::io
