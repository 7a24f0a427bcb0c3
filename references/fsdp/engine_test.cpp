// The engine on a model of two small modules whose gradients are told, on ranks that are threads.
#include "references/fsdp/engine.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "harness/dist/threads.hpp"

namespace parity::fsdp {
namespace {

using dist::Communicator;

// Stage a always runs, b where it is told; the gradient of each element is rank + 1.
Model told(int rank, const std::vector<Parameter>& parameters, bool runs_b = true,
           const std::string& b = "b") {
  Model m{.parameters = parameters};
  m.stages = {{"a", {"a"}, true}, {b, {b}, true}};
  m.runs = [runs_b](std::size_t stage, int, int) { return stage == 0 || runs_b; };
  m.forward = [](std::size_t, int, int, const Weights&) {};
  m.backward = [parameters, rank, b](std::size_t stage, int, int, const Weights&) {
    std::vector<Gradient> gradients;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      if (parameters[p].name.starts_with(stage == 0 ? "a." : b + "."))
        gradients.push_back({p, Dtype::F32,
                             std::vector<float>(static_cast<std::size_t>(parameters[p].count()),
                                                static_cast<float>(rank + 1))});
    return gradients;
  };
  return m;
}

const std::vector<Parameter> kTwo = {{"a.w", {5, 2}}, {"b.w", {3}}};
const std::vector<std::vector<float>> kOnes = {std::vector<float>(10, 1.f),
                                               std::vector<float>(3, 1.f)};

Config apart() {
  Config config;
  config.units = {{"a", {"a"}}, {"b", {"b"}}};
  config.optimizer = sgd();
  return config;
}

std::string what_fails(int ranks, const Config& config,
                       const std::function<Model(int rank)>& model) {
  try {
    dist::run_threads(ranks, [&](Communicator& world) {
      train(model(world.rank()), config, {.parameters = kOnes}, world);
    });
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing";
}

TEST(Engine, AveragesGradientsOverAnyNumberOfRanks) {
  for (int n = 1; n <= 8; ++n)
    dist::run_threads(n, [&](Communicator& world) {
      const RankRecord record =
          train(told(world.rank(), kTwo), apart(), {.parameters = kOnes}, world);
      for (const auto& g : record.steps.front().gradients)
        for (const float x : *g) ASSERT_EQ(x, static_cast<float>(n + 1) / 2.f);
      // Gathers a, b; again b, a; reduces b, a.
      ASSERT_EQ(record.trace.calls.size(), n == 1 ? 0u : 6u);
    });
}

TEST(Engine, ReplicasOfShardsAverageTwice) {
  Config config = apart();
  config.replicas = 2;
  dist::run_threads(6, [&](Communicator& world) {
    const RankRecord record = train(told(world.rank(), kTwo), config, {.parameters = kOnes}, world);
    for (const auto& g : record.steps.front().gradients)
      for (const float x : *g) ASSERT_EQ(x, 3.5f);
  });
}

TEST(Engine, ABranchThatOneRankSkipsIsNamedWithItsParameter) {
  const std::string own = what_fails(2, apart(), [](int r) { return told(r, kTwo, r == 0); });
  EXPECT_NE(own.find("the ranks do not call the same"), std::string::npos) << own;
  EXPECT_NE(own.find("b.w"), std::string::npos) << own;
  Config root = apart();
  root.units = {{"a", {"a"}}};
  const std::string shared = what_fails(2, root, [](int r) { return told(r, kTwo, r == 0); });
  EXPECT_NE(shared.find("reduce_scatter of root (from parameter b.w)"), std::string::npos)
      << shared;
}

TEST(Engine, BranchesOfEqualSizeDoNotPairUp) {
  const std::vector<Parameter> three = {{"a.w", {5, 2}}, {"b.w", {3}}, {"c.w", {3}}};
  Config config = apart();
  config.units = {{"a", {"a"}}, {"b", {"b"}}, {"c", {"c"}}};
  std::string said = "nothing";
  try {
    dist::run_threads(2, [&](Communicator& world) {
      const Checkpoint from{.parameters = {kOnes[0], kOnes[1], kOnes[1]}};
      train(told(world.rank(), three, true, world.rank() == 0 ? "b" : "c"), config, from, world);
    });
  } catch (const dist::CollectiveError& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("rank 1 calls all_gather of c (from parameter c.w)"), std::string::npos)
      << said;
  EXPECT_NE(said.find("rank 0 calls all_gather of b (from parameter b.w)"), std::string::npos)
      << said;
}

TEST(Engine, TheInfinityNormOfAnEmptyShardIsNamed) {
  Config config = apart();
  config.clip_norm = 1;
  config.clip_type = INFINITY;
  const std::string said = what_fails(4, config, [](int r) { return told(r, kTwo); });
  EXPECT_NE(said.find("rank 3: step 1: the infinity norm of parameter a.w"), std::string::npos)
      << said;
}

TEST(Engine, AScalarParameterIsNamed) {
  const std::string said = what_fails(2, apart(), [](int r) {
    return told(r, {{"a.s", {}}, {"b.w", {3}}});
  });
  EXPECT_NE(said.find("parameter a.s has no dimension"), std::string::npos) << said;
}

TEST(Engine, AScaledSumIsRefused) {
  Config config = apart();
  config.divide_factor = 1;
  EXPECT_NE(what_fails(2, config, [](int r) { return told(r, kTwo); }).find("scaled sum"),
            std::string::npos);
}

TEST(Engine, ReadingAParameterThatWasFreedIsAFailure) {
  const std::string said = what_fails(2, apart(), [](int r) {
    Model m = told(r, kTwo);
    m.forward = [](std::size_t stage, int, int, const Weights& w) {
      if (stage == 1) static_cast<void>(w[0]);
    };
    return m;
  });
  EXPECT_NE(said.find("parameter a.w is read while it is sharded"), std::string::npos) << said;
}

std::vector<RankRecord> run(int ranks, const Config& config, const Checkpoint& from) {
  std::vector<RankRecord> records(static_cast<std::size_t>(ranks));
  dist::run_threads(ranks, [&](Communicator& world) {
    records[static_cast<std::size_t>(world.rank())] =
        train(told(0, kTwo), config, from, world);  // the same gradients on every rank
  });
  return records;
}

bool same(const Checkpoint& a, const Checkpoint& b) {
  for (std::size_t p = 0; p < a.parameters.size(); ++p)
    if (a.parameters[p] != b.parameters[p] || a.optimizer[p].first != b.optimizer[p].first ||
        a.optimizer[p].second != b.optimizer[p].second ||
        a.optimizer[p].steps != b.optimizer[p].steps)
      return false;
  return a.steps == b.steps;
}

TEST(Engine, ACheckpointGoesOnAnyNumberOfRanks) {
  Config config = apart();
  config.optimizer = adamw();
  config.steps = 2;
  const auto layout = [](int ranks) { return Layout(kTwo, apart().units, ranks); };
  const Checkpoint straight = checkpoint_of(layout(4), run(4, config, {.parameters = kOnes}), 2);
  config.steps = 1;
  const Checkpoint half = checkpoint_of(layout(4), run(4, config, {.parameters = kOnes}), 1);
  EXPECT_FALSE(same(half, straight));
  for (const int ranks : {1, 2, 3, 4, 7})
    EXPECT_TRUE(same(checkpoint_of(layout(ranks), run(ranks, config, half), 2), straight)) << ranks;
}

// Twelve equal blocks: a rank holds its shards, the unit in use, the one gathered ahead of it, and
// the buffer that is copied out; never the model.
TEST(Engine, ARankHoldsItsShardsAndAFewUnits) {
  constexpr std::int64_t kBlocks = 12, kRows = 48, kColumns = 4;
  Model m;
  Config config;
  config.optimizer = sgd();
  Checkpoint from;
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    const std::string name = "b" + std::to_string(b);
    m.parameters.push_back({name + ".w", {kRows, kColumns}});
    m.stages.push_back({name, {name}, true});
    config.units.push_back({name, {name}});
    from.parameters.emplace_back(kRows * kColumns, 1.f);
  }
  m.forward = [](std::size_t, int, int, const Weights&) {};
  m.backward = [](std::size_t stage, int, int, const Weights& w) {
    const std::span<const float> values = w[stage];
    return std::vector<Gradient>{{stage, Dtype::F32, {values.begin(), values.end()}}};
  };
  constexpr std::int64_t kUnit = kRows * kColumns;
  for (const int ranks : {2, 4, 8, 16})
    dist::run_threads(ranks, [&](Communicator& world) {
      const std::int64_t peak = train(m, config, from, world).peak_elements;
      ASSERT_LE(peak, kBlocks * kUnit / ranks + 3 * kUnit);
      ASSERT_GT(peak, kBlocks * kUnit / ranks + kUnit);
    });
}

}  // namespace
}  // namespace parity::fsdp
