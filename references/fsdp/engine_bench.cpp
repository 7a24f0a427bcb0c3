// One training step of the FSDP2 engine on ranks that are threads: 16 blocks of 64 Ki parameters,
// whose gradients are their weights. Time over all ranks, and what one rank holds at most.
#include <algorithm>
#include <benchmark/benchmark.h>

#include "harness/dist/threads.hpp"
#include "references/fsdp/engine.hpp"

namespace parity::fsdp {
namespace {

constexpr std::int64_t kBlocks = 16, kRows = 256, kColumns = 256;

struct Problem {
  Model model = {};
  Config config = {};
  Checkpoint from = {};
};

Problem problem() {
  Problem p;
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    const std::string name = "b" + std::to_string(b);
    p.model.parameters.push_back({name + ".w", {kRows, kColumns}});
    p.model.stages.push_back({name, {name}, true});
    p.config.units.push_back({name, {name}});
    p.from.parameters.emplace_back(kRows * kColumns, 1.f);
  }
  p.model.forward = [](std::size_t, int, int, const Weights&) {};
  p.model.backward = [](std::size_t stage, int, int, const Weights& w) {
    const std::span<const float> values = w[stage];
    return std::vector<Gradient>{{stage, Dtype::F32, {values.begin(), values.end()}}};
  };
  p.config.clip_norm = 1;
  return p;
}

void step(benchmark::State& state, int ranks) {
  const Problem p = problem();
  std::vector<std::int64_t> peaks(static_cast<std::size_t>(ranks));
  for (auto _ : state)
    dist::run_threads(ranks, [&](dist::Communicator& world) {
      peaks[static_cast<std::size_t>(world.rank())] =
          train(p.model, p.config, p.from, world).peak_elements;
    });
  state.SetItemsProcessed(state.iterations() * kBlocks * kRows * kColumns * ranks);
  state.counters["held_share"] = static_cast<double>(*std::ranges::max_element(peaks)) /
                                 static_cast<double>(kBlocks * kRows * kColumns);
}

const bool registered = [] {
  for (const int ranks : {1, 2, 4, 8, 16})
    benchmark::RegisterBenchmark(("fsdp.step/R" + std::to_string(ranks)).c_str(),
                                 [ranks](benchmark::State& state) { step(state, ranks); })
        ->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace parity::fsdp
