#include "golden/io/sharded.hpp"

#include <fstream>
#include <gtest/gtest.h>
#include <numeric>

#include "harness/failure.hpp"

namespace parity::io {
namespace {

class Sharded : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "parity_ranks_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Tensor tensor(const std::string& name, std::vector<Dim> dims, double first) {
    std::vector<double> values(static_cast<std::size_t>(elements(dims)));
    std::iota(values.begin(), values.end(), first);
    return make_tensor({.name = name, .dims = std::move(dims)}, values);
  }
  void rank(int r, std::vector<Tensor> list) const {
    Tensors tensors;
    for (Tensor& t : list) tensors.add(std::move(t));
    write(folder_ / ("rank_" + std::to_string(r) + ".npz"), tensors, {});
  }
  fs::path folder_ = {};
};

TEST_F(Sharded, RowsOfUnevenShardsAddUpAndPaddingIsLeftOut) {
  rank(0, {tensor("w", {{"O", 2}, {"I", 2}}, 1), tensor("padded", {{"O", 2}}, 1)});
  rank(1, {tensor("w", {{"O", 1}, {"I", 2}}, 5), tensor("padded", {{"O", 2}}, 3)});
  const RankFiles run = open_ranks(folder_);
  const Merged w = merge(run, "w", std::vector<std::int64_t>{3, 2});
  EXPECT_EQ(w.placement, "Shard(0)");
  EXPECT_EQ(w.whole.widened(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(w.begins, (std::vector<std::int64_t>{0, 2, 3}));
  const Merged padded = merge(run, "padded", std::vector<std::int64_t>{3});
  EXPECT_EQ(padded.whole.widened(), (std::vector<double>{1, 2, 3}));
}

TEST_F(Sharded, ColumnsAreFoundByTheWholesShape) {
  rank(0, {tensor("w", {{"O", 2}, {"I", 1}}, 1)});
  rank(1, {tensor("w", {{"O", 2}, {"I", 1}}, 3)});
  const Merged w = merge(open_ranks(folder_), "w", std::vector<std::int64_t>{2, 2});
  EXPECT_EQ(w.placement, "Shard(1)");
  EXPECT_EQ(w.whole.widened(), (std::vector<double>{1, 3, 2, 4}));
  EXPECT_NE(merge(open_ranks(folder_), "w", std::vector<std::int64_t>{5, 5}).trouble, "");
}

TEST_F(Sharded, ReplicasMustBeEqualToTheBit) {
  rank(0, {tensor("w", {{"O", 2}}, 1), tensor("only", {{"O", 1}}, 1)});
  rank(1, {tensor("w", {{"O", 2}}, 2)});
  const Merged w = merge(open_ranks(folder_), "w", std::vector<std::int64_t>{2});
  EXPECT_EQ(w.placement, "Replicate");
  EXPECT_EQ(w.trouble, "the replica of rank 1 is not that of rank 0");
  EXPECT_EQ(merge(open_ranks(folder_), "only", {}).trouble, "rank 1 has no 'only'");
}

TEST_F(Sharded, ARankThatIsMissingIsNamed) {
  rank(0, {tensor("w", {{"O", 2}}, 1)});
  rank(2, {tensor("w", {{"O", 2}}, 1)});
  EXPECT_THROW(open_ranks(folder_), UsageError);
}

}  // namespace
}  // namespace parity::io
