#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

Checkpoint checkpoint_of(const Layout& layout, const std::vector<RankRecord>& ranks, int steps) {
  Checkpoint whole{.steps = steps};
  const auto merged = [&](std::size_t p, const auto& part) {
    std::vector<std::span<const float>> parts;
    for (int r = 0; r < layout.ranks(); ++r)
      parts.push_back(part(ranks[static_cast<std::size_t>(r)]));
    return layout.merge(p, parts);
  };
  for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
    whole.parameters.push_back(merged(p, [&](const RankRecord& r) {
      return std::span<const float>(r.steps.back().parameters[p]);
    }));
    OptimizerState state{.steps = ranks.front().optimizer[p].steps};
    if (state.steps > 0)
      state.first = merged(
          p, [&](const RankRecord& r) { return std::span<const float>(r.optimizer[p].first); });
    if (!ranks.front().optimizer[p].second.empty())
      state.second = merged(
          p, [&](const RankRecord& r) { return std::span<const float>(r.optimizer[p].second); });
    whole.optimizer.push_back(std::move(state));
  }
  return whole;
}

}  // namespace parity::fsdp
