#include "references/fsdp/eager.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "references/fsdp/norm.hpp"
#include "references/fsdp/reduction.hpp"

namespace parity::fsdp {
namespace {

using dist::rounded;

struct Local {
  Dtype dtype = Dtype::F32;
  std::vector<float> values = {};
};
using Locals = std::map<std::size_t, Local>;  // one rank's gradients by parameter

class Eager {
 public:
  Eager(const std::vector<const Model*>& ranks, const Config& config, Values whole)
      : ranks_(ranks),
        config_(config),
        whole_(std::move(whole)),
        shards_(shard_ranks(config, static_cast<int>(ranks.size()))),
        layout_(ranks.front()->parameters, config.units, shards_),
        reduced_(whole_.size()),
        state_(whole_.size()) {}

  std::vector<EagerStep> train() {
    std::vector<EagerStep> steps;
    for (int step = 1; step <= config_.steps; ++step) {
      std::vector<Locals> sums(ranks_.size());
      for (int micro = 0; micro < config_.accum; ++micro) {
        const bool sync = config_.sync_each || micro + 1 == config_.accum;
        for (std::size_t r = 0; r < ranks_.size(); ++r)
          accumulate(sums[r], backward(*ranks_[r], step, micro), sync);
        if (!sync) continue;
        for (const Unit& unit : layout_.units()) reduce(unit, sums);
        sums.assign(ranks_.size(), {});
      }
      steps.push_back(finish());
    }
    return steps;
  }

 private:
  Locals backward(const Model& model, int step, int micro) const {
    const Weights weights{[this](std::size_t p) { return std::span<const float>(whole_[p]); }};
    const auto runs = [&](std::size_t s) { return !model.runs || model.runs(s, step, micro); };
    for (std::size_t s = 0; s < model.stages.size(); ++s)
      if (runs(s)) model.forward(s, step, micro, weights);
    Locals locals;
    for (std::size_t s = model.stages.size(); s-- > 0;) {
      if (!runs(s)) continue;
      for (Gradient& g : model.backward(s, step, micro, weights)) {
        const auto [it, first] = locals.try_emplace(g.parameter, Local{g.dtype, g.values});
        if (!first)
          for (std::size_t i = 0; i < g.values.size(); ++i)
            it->second.values[i] = rounded(g.dtype, it->second.values[i] + g.values[i]);
      }
    }
    return locals;
  }

  void accumulate(Locals& sum, Locals fresh, bool sync) const {
    const bool wide = config_.reduce_dtype && config_.reduce_dtype != config_.param_dtype;
    for (auto& [p, local] : fresh) {
      const auto it = sum.find(p);
      const bool alone = it == sum.end();
      const Dtype dtype = wide && (!sync || !alone) ? *config_.reduce_dtype : local.dtype;
      for (std::size_t i = 0; i < local.values.size(); ++i) {
        local.values[i] = rounded(dtype, local.values[i]);
        if (!alone) local.values[i] = rounded(dtype, it->second.values[i] + local.values[i]);
      }
      sum[p] = {dtype, std::move(local.values)};
    }
  }

  // Where element i of member m lies in the unit's buffer of all ranks' parts.
  std::size_t place(std::size_t p, std::int64_t offset, std::int64_t part, std::size_t i) const {
    const auto each = static_cast<std::size_t>(layout_.shard_elements(p));
    return i / each * static_cast<std::size_t>(part) + static_cast<std::size_t>(offset) + i % each;
  }

  void reduce(const Unit& unit, const std::vector<Locals>& ranks) {
    std::vector<std::pair<std::size_t, std::int64_t>> members;  // parameter, offset
    std::int64_t part = 0;
    for (const std::size_t p : unit.members) {
      if (!ranks.front().contains(p)) continue;
      members.emplace_back(p, part);
      part += layout_.shard_elements(p);
    }
    if (members.empty()) return;
    const Dtype dtype =
        config_.reduce_dtype.value_or(ranks.front().at(members.front().first).dtype);
    const Divisors by = divisors(config_, static_cast<int>(ranks_.size()), dtype);
    const auto size = static_cast<std::size_t>(part * shards_);
    Values replicas;
    for (int g = 0; g < config_.replicas; ++g) {
      Values buffers;
      for (int w = 0; w < shards_; ++w) {
        std::vector<float> buffer(size);
        const Locals& local = ranks[static_cast<std::size_t>(g * shards_ + w)];
        for (const auto& [p, offset] : members)
          for (std::size_t i = 0; i < local.at(p).values.size(); ++i)
            buffer[place(p, offset, part, i)] =
                dist::divided(dtype, rounded(dtype, local.at(p).values[i]), by.before);
        buffers.push_back(std::move(buffer));
      }
      replicas.push_back(sum(buffers, dtype));
      if (by.average)
        for (float& x : replicas.back()) x = dist::divided(dtype, x, by.scatter);
    }
    std::vector<float> total = replicas.front();
    if (config_.replicas > 1)
      for (int w = 0; w < shards_; ++w) {
        Values parts;
        for (const std::vector<float>& replica : replicas)
          parts.emplace_back(replica.begin() + w * part, replica.begin() + (w + 1) * part);
        std::ranges::copy(sum(parts, dtype), total.begin() + w * part);
      }
    for (float& x : total) {
      if (by.average && config_.replicas > 1) x = dist::divided(dtype, x, config_.replicas);
      x = dist::divided(dtype, x, by.after);
    }
    for (const auto& [p, offset] : members) {
      const Dtype original = ranks_.front()->parameters[p].original;
      std::vector<float> g(whole_[p].size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        g[i] = rounded(original, total[place(p, offset, part, i)]);
        if (reduced_[p]) g[i] = rounded(original, (*reduced_[p])[i] + g[i]);
      }
      reduced_[p] = std::move(g);
    }
  }

  std::vector<float> sum(const Values& parts, Dtype dtype) const {
    std::vector<const float*> pointers;
    for (const std::vector<float>& x : parts) pointers.push_back(x.data());
    std::vector<float> out(parts.front().size());
    dist::combine(dist::plan_of(config_.order, static_cast<int>(parts.size()),
                                static_cast<std::int64_t>(out.size()), dist::itemsize(dtype)),
                  dist::Combine::Sum, dtype, 0, pointers, out);
    return out;
  }

  EagerStep finish() {
    EagerStep record{.gradients = reduced_};
    if (config_.clip_norm > 0) {
      record.clip_total = total();
      const float c = clip_coefficient(record.clip_total, config_.clip_norm, Dtype::F32);
      for (auto& g : reduced_)
        if (g)
          for (float& x : *g) x *= c;
    }
    for (std::size_t p = 0; p < whole_.size(); ++p) {
      if (reduced_[p]) step(config_.optimizer, Dtype::F32, whole_[p], *reduced_[p], state_[p]);
      reduced_[p].reset();
    }
    record.parameters = whole_;
    return record;
  }

  // The norm of norms of the pieces that the ranks would hold.
  float total() const {
    const double p = config_.clip_type;
    Values partial(static_cast<std::size_t>(shards_));
    for (std::size_t q = 0; q < whole_.size(); ++q)
      for (int w = 0; reduced_[q] && w < shards_; ++w)
        partial[static_cast<std::size_t>(w)].push_back(to_partial(
            local_norm(layout_.shard(q, *reduced_[q], w), p, Dtype::F32), p, Dtype::F32));
    std::vector<float> norms;
    if (std::isinf(p)) {
      for (const std::vector<float>& x : partial) norms.insert(norms.end(), x.begin(), x.end());
    } else {
      norms = sum(partial, Dtype::F32);
      for (float& x : norms) x = from_partial(x, p, Dtype::F32);
    }
    return local_norm(norms, p, Dtype::F32);
  }

  const std::vector<const Model*>& ranks_;
  const Config& config_;
  Values whole_;
  int shards_;
  Layout layout_;
  std::vector<std::optional<std::vector<float>>> reduced_;
  std::vector<OptimizerState> state_;
};

}  // namespace

std::vector<EagerStep> train_eager(const std::vector<const Model*>& ranks, const Config& config,
                                   Values whole) {
  return Eager(ranks, config, std::move(whole)).train();
}

}  // namespace parity::fsdp
