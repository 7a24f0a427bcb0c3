#include "harness/dist/threads.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace parity::dist {
namespace {

Call at(std::string unit, std::string parameter = "w") {
  return {
      .unit = std::move(unit), .parameter = std::move(parameter), .phase = "backward", .step = 1};
}

std::string what_fails(int ranks, const std::function<void(Communicator&)>& body,
                       const ThreadOptions& options = {}) {
  try {
    run_threads(ranks, body, options);
  } catch (const CollectiveError& e) {
    return e.what();
  }
  return "nothing";
}

TEST(Threads, CollectivesMoveWhatTheyShould) {
  for (int n = 1; n <= 9; ++n)
    run_threads(n, [&](Communicator& c) {
      const auto size = static_cast<std::size_t>(n);
      const std::vector<float> mine = {static_cast<float>(c.rank()), 10.f};
      std::vector<float> all(2 * size);
      c.all_gather(mine, all, at("a"));
      for (std::size_t r = 0; r < size; ++r) ASSERT_EQ(all[2 * r], static_cast<float>(r));

      std::vector<float> buffer(3 * size), part(3);
      std::iota(buffer.begin(), buffer.end(), static_cast<float>(c.rank()));
      c.reduce_scatter(buffer, part, {.order = Order::Gloo}, at("b"));
      const float sum = static_cast<float>(n * (n - 1) / 2);
      for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(part[i], sum + static_cast<float>(n * (3 * c.rank() + static_cast<int>(i))));

      std::vector<float> data(5, static_cast<float>(c.rank() + 1));
      c.all_reduce(data, {.combine = Combine::Max, .order = Order::Tree}, at("c"));
      for (const float x : data) ASSERT_EQ(x, static_cast<float>(n));
      data.assign(5, static_cast<float>(c.rank()));
      c.broadcast(data, n - 1, at("d"));
      for (const float x : data) ASSERT_EQ(x, static_cast<float>(n - 1));
      ASSERT_EQ(c.trace().calls.size(), n == 1 ? 0u : 4u);
    });
}

TEST(Threads, ReducesInTheStatedOrderOnEveryRank) {
  // Numbers of very different size: every order gives another sum.
  const auto value = [](int r) { return r == 0 ? 1.f : r == 1 ? 3e7f : r == 2 ? -3e7f : 0.7f; };
  for (const Order order :
       {Order::Rank, Order::Ring, Order::Halving, Order::Doubling, Order::Tree, Order::Gloo}) {
    std::vector<std::vector<float>> buffers(4, std::vector<float>(8));
    for (int r = 0; r < 4; ++r)
      for (std::size_t i = 0; i < 8; ++i)
        buffers[static_cast<std::size_t>(r)][i] = value(r) * static_cast<float>(i + 1);
    std::vector<const float*> parts;
    for (const auto& b : buffers) parts.push_back(b.data());
    std::vector<float> want(8), got(8);
    combine(plan_of(order, 4, 8, 4), Combine::Sum, Dtype::F32, 0, parts, want);
    run_threads(4, [&](Communicator& c) {
      std::vector<float> part(2), all = buffers[static_cast<std::size_t>(c.rank())];
      c.reduce_scatter(all, part, {.order = order}, at("u"));
      std::copy(part.begin(), part.end(), got.begin() + 2 * c.rank());
      c.all_reduce(all, {.order = order, .after = 3}, at("u"));
      for (std::size_t i = 0; i < 8; ++i) ASSERT_EQ(all[i], want[i] / 3.f);
    });
    EXPECT_EQ(got, want) << name(order);
  }
}

TEST(Threads, GroupsOfAGridWorkAtTheSameTime) {
  run_threads(6, [](Communicator& world) {
    const int replica = world.rank() / 3, shard = world.rank() % 3;
    const auto shards = world.group({3 * replica, 3 * replica + 1, 3 * replica + 2});
    const auto replicas = world.group({shard, shard + 3});
    ASSERT_EQ(shards->rank(), shard);
    ASSERT_EQ(replicas->size(), 2);
    std::vector<float> x = {static_cast<float>(world.rank())};
    shards->all_reduce(x, {}, at("s"));
    ASSERT_EQ(x[0], replica == 0 ? 3.f : 12.f);
    replicas->all_reduce(x, {}, at("r"));
    ASSERT_EQ(x[0], 15.f);
    ASSERT_EQ(world.trace().calls.size(), 2u);
    ASSERT_EQ(world.trace().calls[1].group, 2);
  });
}

TEST(Threads, AMismatchIsReportedAtOnceWithRankStepAndParameter) {
  const auto started = std::chrono::steady_clock::now();
  const std::string said = what_fails(3, [](Communicator& c) {
    std::vector<float> x(4);
    c.all_reduce(x, {}, at(c.rank() == 2 ? "vis" : "blocks.0", c.rank() == 2 ? "vis.fc0" : "wq"));
  });
  EXPECT_NE(said.find("rank 2 calls all_reduce of vis (from parameter vis.fc0)"), std::string::npos)
      << said;
  EXPECT_NE(said.find("step 1"), std::string::npos) << said;
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
}

TEST(Threads, BranchesOfEqualSizeDoNotPairUpSilently) {
  const std::string said = what_fails(2, [](Communicator& c) {
    std::vector<float> part(2), all(4);
    c.all_gather(part, all, at(c.rank() == 0 ? "a" : "b"));
  });
  EXPECT_NE(said.find("do not call the same"), std::string::npos) << said;
}

TEST(Threads, ARankThatIsDoneOrDeadIsNamed) {
  EXPECT_NE(what_fails(2,
                       [](Communicator& c) {
                         std::vector<float> x(1);
                         if (c.rank() == 0) c.all_reduce(x, {}, at("u"));
                       })
                .find("rank 1 is gone (it has finished); rank 0 waits in all_reduce of u"),
            std::string::npos);
  EXPECT_EQ(what_fails(3,
                       [](Communicator& c) {
                         std::vector<float> x(1);
                         if (c.rank() == 1) throw std::runtime_error("out of memory");
                         c.all_reduce(x, {}, at("u"));
                       }),
            "rank 1: out of memory");
}

TEST(Threads, ASlowRankIsNamed) {
  const std::string said =
      what_fails(2,
                 [](Communicator& c) {
                   std::vector<float> x(1);
                   if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
                   c.all_reduce(x, {}, at("u"));
                 },
                 {.patience_s = 0.05});
  EXPECT_NE(said.find("rank 1 did not come within 0.05 s; rank 0 waits"), std::string::npos)
      << said;
}

TEST(Trace, TheFirstDifferenceNamesRankStepAndParameter) {
  Call a = at("blocks.0", "blocks.0.wq");
  a.op = "reduce_scatter";
  Call b = a;
  b.step = 2;
  const std::vector<Trace> same = {{0, {a, b}}, {1, {a, b}}};
  EXPECT_EQ(first_difference(same), "");
  const std::vector<Trace> shorter = {{0, {a, b}}, {1, {a, b}}, {2, {a}}};
  EXPECT_EQ(first_difference(shorter),
            "call 2: rank 2 calls nothing more; rank 0 calls reduce_scatter of blocks.0 (from "
            "parameter blocks.0.wq), 0 elements of f32 in step 2, microbatch 0, backward");
  EXPECT_EQ(line(a), "1 0 backward reduce_scatter blocks.0 0 0 float32 - 1");
}

}  // namespace
}  // namespace parity::dist
