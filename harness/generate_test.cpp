#include <algorithm>
#include <gtest/gtest.h>

#include "harness/numeric/philox.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

void normal_row(const RowDraw& draw, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = draw.rng.normal(static_cast<std::uint64_t>(draw.first) + i);
}

std::vector<TensorSpec> two_inputs(const Case& problem) {
  const std::vector<Dim> dims = {{"N", problem.sizes["N"]}, {"K", problem.sizes["K"]}};
  return {{.name = "a", .dtype = problem.dtype, .dims = dims},
          {.name = "codes", .dtype = Dtype::E2M1, .dims = dims}};
}

const CaseSet kSet{.op = "generate_test",
                   .sizes = {{{"N", 1}, {"K", 1}}},
                   .fills = {{.name = "normal", .row = normal_row}}};

Case case_of(std::int64_t n, std::int64_t k, Dtype dtype) {
  return {.op = "generate_test",
          .sizes = {{"N", n}, {"K", k}},
          .dtype = dtype,
          .fill = "normal",
          .seed = 5,
          .set = &kSet};
}

bool same_bits(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a.list(), b.list(), {}, &Tensor::bytes, &Tensor::bytes);
}

TEST(Generate, BitsDoNotDependOnTheThreadCount) {
  const OpDef op{.name = "generate_test", .inputs = two_inputs};
  for (const std::int64_t k : {7, 64, 1001}) {
    const Case problem = case_of(701, k, Dtype::BF16);
    const Tensors one = generate(problem, op, 1);
    for (const int threads : {2, 3, 8})
      EXPECT_TRUE(same_bits(one, generate(problem, op, threads))) << k << ' ' << threads;
  }
}

TEST(Generate, EachTensorAndSeedDrawsItsOwnNumbers) {
  const OpDef op{.name = "generate_test", .inputs = two_inputs};
  Case problem = case_of(4, 64, Dtype::F32);
  const Tensors first = generate(problem, op, 1);
  problem.seed = 6;
  const Tensors second = generate(problem, op, 1);
  EXPECT_FALSE(same_bits(first, second));
  const std::vector<double> codes = first.at("codes").widened();
  std::vector<double> rounded = first.at("a").widened();
  for (double& x : rounded) x = round_to(Dtype::E2M1, x);
  EXPECT_NE(codes, rounded);
}

// Frozen: the same bits on every machine. FNV-1a over the bytes.
TEST(Generate, KnownBits) {
  const OpDef op{.name = "generate_test", .inputs = two_inputs};
  const Tensors tensors = generate(case_of(3, 16, Dtype::F32), op, 1);
  std::uint64_t hash = 1469598103934665603ull;
  for (const Tensor& tensor : tensors.list())
    for (const std::byte byte : tensor.bytes)
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211ull;
  EXPECT_EQ(hash, 18322412265841698925ull);
}

TEST(Generate, RoundsOnceToTheStorageFormat) {
  const OpDef op{.name = "generate_test", .inputs = two_inputs};
  const Tensors tensors = generate(case_of(5, 33, Dtype::BF16), op, 2);
  const Rng rng(5, 0);
  const std::vector<double> values = tensors.at("a").widened();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], round_to(Dtype::BF16, rng.normal(i)));
}

}  // namespace
}  // namespace parity
