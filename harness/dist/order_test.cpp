#include "harness/dist/order.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "harness/failure.hpp"

namespace parity::dist {
namespace {

TEST(Order, SaysItsTrees) {
  const auto shown = [](Order order, int ranks, std::int64_t elements) {
    std::string all;
    const Plan plan = plan_of(order, ranks, elements, 4);
    for (const Chunk& c : plan.chunks)
      all += std::to_string(c.begin) + ".." + std::to_string(c.end) + " " + text(plan.sums[c.sum]) +
             "; ";
    return all;
  };
  EXPECT_EQ(shown(Order::Rank, 3, 5), "0..5 ((g0 + g1) + g2); ");
  EXPECT_EQ(shown(Order::Ring, 3, 6),
            "0..2 ((g1 + g2) + g0); 2..4 ((g2 + g0) + g1); 4..6 ((g0 + g1) + g2); ");
  EXPECT_EQ(shown(Order::Halving, 4, 1), "0..1 ((g0 + g2) + (g1 + g3)); ");
  EXPECT_EQ(shown(Order::Doubling, 4, 1), "0..1 ((g0 + g1) + (g2 + g3)); ");
  EXPECT_EQ(shown(Order::Tree, 4, 1), "0..1 ((g0 + (g1 + g3)) + g2); ");
  EXPECT_EQ(shown(Order::Halving, 3, 1), "0..1 ((g0 + g2) + g1); ");
  // Parts of 3 elements for 3 ranks: gloo's chunks are 4, so that they leave the parts.
  EXPECT_EQ(shown(Order::Gloo, 3, 9),
            "0..4 ((g2 + g1) + g0); 4..8 ((g0 + g2) + g1); 8..9 ((g1 + g0) + g2); ");
  EXPECT_EQ(shown(Order::Gloo, 3, 0), "");
}

TEST(Order, EveryRankIsAddedOnceByEveryOrder) {
  for (const Order order :
       {Order::Rank, Order::Ring, Order::Halving, Order::Doubling, Order::Tree, Order::Gloo})
    for (int ranks = 1; ranks <= 17; ++ranks)
      for (const std::int64_t elements : {1, 2, 7, 40, 1'000'003}) {
        const Plan plan = plan_of(order, ranks, elements, 2);
        std::int64_t at = 0;
        for (const Chunk& c : plan.chunks) {
          ASSERT_EQ(c.begin, at);
          ASSERT_LT(c.begin, c.end);
          at = c.end;
          std::vector<int> seen(static_cast<std::size_t>(ranks));
          int adds = 0;
          for (const int step : plan.sums[c.sum])
            step == kAdd ? ++adds : ++seen[static_cast<std::size_t>(step)];
          ASSERT_EQ(adds, ranks - 1);
          for (const int n : seen) ASSERT_EQ(n, 1);
        }
        ASSERT_EQ(at, elements);
      }
}

TEST(Order, GlooCutsLargeBuffersBySegmentsOfAMebibyte) {
  // 3 ranks, 3.3 million floats: 13.2 MB are 13 segments, rounded up to 15, five a chunk.
  const Plan plan = plan_of(Order::Gloo, 3, 3'300'000, 4);
  ASSERT_EQ(plan.chunks.size(), 3u);
  EXPECT_EQ(plan.chunks[0].end, 5 * ((3'300'000 * 4 + 14) / 15 + 3) / 4 / 5 * 5);
}

TEST(Order, RoundsAfterEveryAdditionToTheWire) {
  const std::vector<float> a = {256.f}, b = {1.f}, c = {1.f};
  const std::vector<const float*> parts = {a.data(), b.data(), c.data()};
  std::vector<float> out(1);
  combine(plan_of(Order::Rank, 3, 1, 2), Combine::Sum, Dtype::BF16, 0, parts, out);
  EXPECT_EQ(out[0], 256.f);  // 257 is midway and goes down, twice
  combine(plan_of(Order::Rank, 3, 1, 4), Combine::Sum, Dtype::F32, 0, parts, out);
  EXPECT_EQ(out[0], 258.f);
  combine(plan_of(Order::Rank, 3, 1, 4), Combine::Max, Dtype::F32, 0, parts, out);
  EXPECT_EQ(out[0], 256.f);
}

TEST(Order, KeepsMinusZeroAndNan) {
  const float minus = -0.f, nan = std::nanf("");
  const std::vector<const float*> zeros = {&minus, &minus}, nans = {&minus, &nan};
  std::vector<float> out(1, 1.f);
  combine(plan_of(Order::Gloo, 2, 1, 4), Combine::Sum, Dtype::F32, 0, zeros, out);
  EXPECT_TRUE(std::signbit(out[0]));
  combine(plan_of(Order::Gloo, 2, 1, 4), Combine::Max, Dtype::F32, 0, nans, out);
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST(Order, ExplainsADifferenceByAnOrderOrByNone) {
  const std::vector<std::vector<float>> parts = {{1.f, 1e8f}, {1e8f, 1.f}, {-1e8f, -1e8f}};
  const std::vector<float> up = {(1.f + 1e8f) - 1e8f, (1e8f + 1.f) - 1e8f};
  EXPECT_EQ(explaining_order(parts, Dtype::F32, 1, up), "rank");
  const std::vector<float> wrong = {2.f, 1.f};
  EXPECT_FALSE(explaining_order(parts, Dtype::F32, 1, wrong));
  const std::vector<std::vector<float>> four = {
      {1.f, 1.f}, {1e8f, 1e8f}, {-1e8f, -1e8f}, {3.f, 3.f}};
  const std::vector<float> turned = {2.f, 2.f};  // (((1e8 - 1e8) + 3) + 1) / 2
  EXPECT_EQ(explaining_order(four, Dtype::F32, 2, turned), "rank order from 1, up");
}

TEST(Order, NamesWhatItDoesNotKnow) {
  EXPECT_THROW(parse_order("rnig"), UsageError);
  EXPECT_EQ(parse_order("gloo"), Order::Gloo);
  EXPECT_THROW(check_wire(Dtype::E4M3), UsageError);
}

}  // namespace
}  // namespace parity::dist
