#include "references/fsdp/engine.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "references/fsdp/accumulation.hpp"
#include "references/fsdp/norm.hpp"
#include "references/fsdp/reduction.hpp"

namespace parity::fsdp {
namespace {

using dist::rounded;

// What a rank has of a unit: its shard alone, a slice of the whole shared by a few ranks, or all.
enum class Held : std::uint8_t { Shard, Slice, Whole };

struct UnitState {
  Held held = Held::Shard;
  std::vector<float> buffer = {};  // Slice, Whole: the parts of the ranks, one after the other
  std::vector<std::vector<float>> whole = {};  // Whole: by member, without padding
  bool reduced = false;                        // in this backward
};

class Rank {
 public:
  Rank(const Model& model, const Config& config, const Checkpoint& from, dist::Communicator& world,
       std::string_view fault)
      : model_(model),
        config_(config),
        fault_(fault),
        world_(world),
        shards_(shard_ranks(config, world.size())),
        layout_(model.parameters, config.units, shards_),
        units_(layout_.units().size()),
        local_(from.parameters.size()),
        unreduced_(config, local_.size(), fault),
        gradient_(local_.size()),
        state_(local_.size()),
        done_(from.steps) {
    const int place = world.rank() % shards_;
    shard_group_ = world.group(range(world.rank() - place, shards_, 1));
    if (config.replicas > 1) replica_group_ = world.group(range(place, config.replicas, shards_));
    if (config.reshard == Config::Reshard::Group) {
      const int k = config.reshard_group;
      if (k < 1 || shards_ % k != 0)
        throw UsageError(fmt::format("groups of {} ranks do not divide {}", k, shards_));
      slice_group_ = shard_group_->group(range(place / k * k, k, 1));
    }
    for (std::size_t p = 0; p < local_.size(); ++p) {
      local_[p] = layout_.shard(p, from.parameters[p], place);
      if (from.optimizer.empty() || from.optimizer[p].steps == 0) continue;
      const OptimizerState& whole = from.optimizer[p];
      state_[p].steps = whole.steps;
      state_[p].first = layout_.shard(p, whole.first, place);
      if (!whole.second.empty()) state_[p].second = layout_.shard(p, whole.second, place);
    }
    for (std::size_t s = 0; s < model.stages.size(); ++s) stage_units_.push_back(units_of(s));
  }

  RankRecord train() {
    RankRecord record;
    for (step_ = done_ + 1; step_ <= done_ + config_.steps; ++step_) {
      for (micro_ = 0; micro_ < config_.accum; ++micro_) {
        forward();
        backward();
      }
      --micro_;
      record.steps.push_back(finish_step());
    }
    record.optimizer = state_;
    record.trace = world_.trace();
    record.peak_elements = peak_;
    return record;
  }

 private:
  static std::vector<int> range(int first, int count, int by) {
    std::vector<int> list(static_cast<std::size_t>(count), first);
    for (int i = 0; i < count; ++i) list[static_cast<std::size_t>(i)] += i * by;
    return list;
  }

  bool fault(std::string_view id) const { return fault_ == id; }
  bool last_micro() const { return micro_ + 1 == config_.accum; }
  bool syncs() const { return config_.sync_each || last_micro(); }
  bool is_root(std::size_t u) const { return layout_.units()[u].name == "root"; }
  Dtype original(std::size_t p) const { return model_.parameters[p].original; }
  Dtype gathered(std::size_t u) const {
    return config_.param_dtype.value_or(original(layout_.units()[u].members.front()));
  }

  std::vector<std::size_t> units_of(std::size_t stage) const {
    std::vector<std::size_t> found;
    for (std::size_t p = 0; p < model_.parameters.size(); ++p)
      for (const std::string& module : model_.stages[stage].modules)
        if (model_.parameters[p].name.starts_with(module + "."))
          if (const std::size_t u = layout_.unit_of(p); std::ranges::find(found, u) == found.end())
            found.push_back(u);
    std::ranges::sort(found);
    return found;
  }

  dist::Call call(std::size_t u, std::string_view phase, Dtype dtype) const {
    const Unit& unit = layout_.units()[u];
    return {.unit = unit.name,
            .parameter = model_.parameters[unit.members.front()].name,
            .phase = std::string(phase),
            .step = step_,
            .micro = micro_,
            .dtype = dtype};
  }

  // ---- parameters: gathered before use, freed after

  void gather(std::size_t u, std::string_view phase) {
    UnitState& state = units_[u];
    if (state.held == Held::Whole) return;
    const Unit& unit = layout_.units()[u];
    const Dtype dtype = gathered(u);
    std::vector<float> all(static_cast<std::size_t>(unit.elements * shards_));
    if (state.held == Held::Slice) {
      slice_group_->all_gather(state.buffer, all, call(u, phase, dtype));
    } else {
      std::vector<float> mine;
      for (const std::size_t p : unit.members) {
        const std::size_t end = mine.size() + static_cast<std::size_t>(layout_.shard_elements(p));
        for (const float x : local_[p]) mine.push_back(rounded(dtype, x));
        mine.resize(end, 0.f);
      }
      shard_group_->all_gather(mine, all, call(u, phase, dtype));
      if (fault("P-fsdp-stale-gather") && step_ > 1 && !state.buffer.empty()) all = state.buffer;
    }
    state.buffer = std::move(all);
    state.whole.clear();
    for (std::size_t m = 0; m < unit.members.size(); ++m) state.whole.push_back(member(u, m));
    state.held = Held::Whole;
    note_peak();
    // Its parts are wanted again only where a slice of them stays.
    if (config_.reshard != Config::Reshard::Group && !fault("P-fsdp-stale-gather"))
      state.buffer = {};
  }

  void note_peak() {
    std::size_t held = 0;
    for (const std::vector<float>& shard : local_) held += shard.size();
    for (const UnitState& state : units_) {
      held += state.buffer.size();
      for (const std::vector<float>& whole : state.whole) held += whole.size();
    }
    peak_ = std::max(peak_, static_cast<std::int64_t>(held));
  }

  std::vector<float> member(std::size_t u, std::size_t m) const {
    const Unit& unit = layout_.units()[u];
    const std::size_t p = unit.members[m];
    std::vector<std::span<const float>> parts;
    for (int r = 0; r < shards_; ++r)
      parts.push_back(std::span(units_[u].buffer)
                          .subspan(static_cast<std::size_t>(r * unit.elements + unit.offset[m]),
                                   static_cast<std::size_t>(layout_.shard_elements(p))));
    std::vector<float> whole = layout_.merge(p, parts);
    if (fault("P-fsdp-padding") && layout_.rows_padded(p) * shards_ > model_.parameters[p].shape[0])
      std::rotate(whole.begin(), whole.begin() + 1, whole.end());
    return whole;
  }

  void free_unit(std::size_t u) {
    if (!fault("P-fsdp-stale-gather")) units_[u].buffer = {};
    units_[u].whole = {};
    units_[u].held = Held::Shard;
  }

  void reshard_after_forward(std::size_t u) {
    if (config_.reshard == Config::Reshard::Always ||
        (config_.reshard == Config::Reshard::Default && !is_root(u)))
      return free_unit(u);
    if (config_.reshard != Config::Reshard::Group) return;
    if (slice_group_->size() == shards_) return free_unit(u);
    UnitState& state = units_[u];
    const std::size_t part = state.buffer.size() / static_cast<std::size_t>(slice_group_->size());
    const auto mine =
        state.buffer.begin() + static_cast<std::ptrdiff_t>(part) * slice_group_->rank();
    state.buffer = std::vector<float>(mine, mine + static_cast<std::ptrdiff_t>(part));
    state.whole.clear();
    state.held = Held::Slice;
  }

  Weights weights() const {
    return {[this](std::size_t p) -> std::span<const float> {
      const UnitState& state = units_[layout_.unit_of(p)];
      if (state.held != Held::Whole)
        throw Failure(
            fmt::format("parameter {} is read while it is sharded", model_.parameters[p].name));
      return state.whole[layout_.order_in_unit(p)];
    }};
  }

  bool runs(std::size_t stage) const { return !model_.runs || model_.runs(stage, step_, micro_); }

  void forward() {
    used_.clear();
    ran_.clear();
    for (UnitState& state : units_) state.reduced = false;
    if (is_root(0)) gather(0, "forward");
    for (std::size_t s = 0; s < model_.stages.size(); ++s) {
      if (model_.runs && !model_.runs(s, step_, micro_)) continue;
      for (const std::size_t u : stage_units_[s])
        if (!is_root(u)) gather(u, "forward");
      model_.forward(s, step_, micro_, weights());
      ran_.push_back(s);
      for (const std::size_t u : stage_units_[s])
        if (!is_root(u)) {
          used_.push_back(u);
          reshard_after_forward(u);
        }
    }
    if (!is_root(0)) return;
    used_.push_back(0);
    reshard_after_forward(0);
  }

  // The unit that is needed now, and the one that ran before it in forward.
  void before_backward(std::size_t u) {
    gather(u, "backward");
    const auto at = std::ranges::find(used_, u);
    if (at != used_.begin() && at != used_.end()) gather(*(at - 1), "backward");
  }

  void backward() {
    if (is_root(0)) before_backward(0);
    for (std::size_t i = ran_.size(); i-- > 0;) {
      const std::size_t s = ran_[i];
      for (const std::size_t u : stage_units_[s])
        if (!is_root(u)) before_backward(u);
      for (Gradient& g : model_.backward(s, step_, micro_, weights()))
        unreduced_.collect(std::move(g));
      if (!model_.stages[s].inputs_need_gradient) continue;
      for (const std::size_t u : stage_units_[s])
        if (!is_root(u)) after_backward(u);
    }
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (!units_[u].reduced) after_backward(u);
  }

  void after_backward(std::size_t u) {
    units_[u].reduced = true;
    for (const std::size_t p : layout_.units()[u].members) unreduced_.accumulate(p, syncs());
    if (config_.reshard_after_backward || last_micro()) free_unit(u);
    if (syncs()) reduce(u);
  }

  // ---- gradients: one flat buffer a unit, its parts combined and kept by their ranks

  void reduce(std::size_t u) {
    const Unit& unit = layout_.units()[u];
    std::vector<std::size_t> members;
    for (const std::size_t p : unit.members)
      if (unreduced_.has(p)) members.push_back(p);
    if (members.empty()) return;
    const Dtype dtype = reduce_dtype(members);
    std::vector<float> all;
    for (int r = 0; r < shards_; ++r)
      for (const std::size_t p : members) {
        const std::vector<float> part = layout_.padded_shard(p, unreduced_.at(p).values, r);
        for (const float x : part) all.push_back(rounded(dtype, x));
      }
    std::vector<float> mine(all.size() / static_cast<std::size_t>(shards_));
    const Divisors by = divisors(config_, world_.size(), dtype, fault_);
    dist::Call at = call(u, "backward", dtype);
    at.parameter = model_.parameters[members.front()].name;
    at.reduce = by.average ? "avg" : "sum";
    dist::Reduction how{.order = config_.order, .before = by.before};
    how.after = by.average ? by.scatter : 1;
    shard_group_->reduce_scatter(all, mine, how, at);
    if (replica_group_) {
      how = {.order = config_.order, .after = by.average ? config_.replicas : 1.0};
      replica_group_->all_reduce(mine, how, at);
    }
    for (float& x : mine) x = dist::divided(dtype, x, by.after);
    keep(members, mine);
  }

  Dtype reduce_dtype(const std::vector<std::size_t>& members) const {
    const Dtype own = unreduced_.at(members.front()).dtype;
    for (const std::size_t p : members)
      if (unreduced_.at(p).dtype != own)
        throw UsageError(fmt::format("gradients of {} in {} and of {} in {}: one dtype a unit",
                                     model_.parameters[members.front()].name, name(own),
                                     model_.parameters[p].name, name(unreduced_.at(p).dtype)));
    if (fault("P-fsdp-bf16-reduce")) return Dtype::BF16;
    return config_.reduce_dtype.value_or(own);
  }

  // Reduced parts become gradients of the shards; with a sync each microbatch they add up.
  void keep(const std::vector<std::size_t>& members, const std::vector<float>& mine) {
    auto at = mine.begin();
    for (const std::size_t p : members) {
      const auto count = static_cast<std::ptrdiff_t>(local_[p].size());
      const Dtype dtype = original(p);
      std::optional<std::vector<float>>& kept = gradient_[p];
      std::vector<float> fresh(at, at + count);
      for (float& x : fresh) x = rounded(dtype, x);
      if (kept)
        for (std::size_t i = 0; i < fresh.size(); ++i)
          fresh[i] = rounded(dtype, (*kept)[i] + fresh[i]);
      kept = std::move(fresh);
      unreduced_.take(p);
      at += static_cast<std::ptrdiff_t>(layout_.shard_elements(p));
    }
  }

  // ---- the end of a step: norm, clipping, optimiser

  StepRecord finish_step() {
    StepRecord record;
    const bool stale =
        fault("P-fsdp-stale-shard") && step_ == 1 && world_.rank() + 1 == world_.size();
    const std::vector<std::vector<float>> before =
        stale ? local_ : std::vector<std::vector<float>>();
    record.gradients = gradient_;
    for (std::size_t p = 0; p < local_.size(); ++p)
      record.norms.push_back(
          gradient_[p] ? std::array<float, 2>{local_norm(*gradient_[p], 2, original(p)),
                                              local_norm(*gradient_[p], INFINITY, original(p))}
                       : std::array<float, 2>{});
    if (config_.clip_norm > 0) record.clip_total = clip();
    for (std::size_t p = 0; p < local_.size(); ++p) {
      if (gradient_[p]) step(config_.optimizer, original(p), local_[p], *gradient_[p], state_[p]);
      gradient_[p].reset();
    }
    if (stale) local_ = before;
    record.parameters = local_;
    return record;
  }

  float clip() {
    const double p = config_.clip_type;
    std::vector<float> partial;
    Dtype dtype = Dtype::F32;
    for (std::size_t i = 0; i < local_.size(); ++i) {
      if (!gradient_[i]) continue;
      dtype = original(i);
      if (std::isinf(p) && gradient_[i]->empty())
        throw UsageError(fmt::format(
            "step {}: the infinity norm of parameter {} does not exist on this rank, whose shard "
            "is empty",
            step_, model_.parameters[i].name));
      std::vector<float> counted = *gradient_[i];
      if (fault("P-fsdp-padding-leaks"))
        counted.resize(static_cast<std::size_t>(layout_.shard_elements(i)), 1.f);
      partial.push_back(to_partial(local_norm(counted, p, dtype), p, dtype));
    }
    dist::Call at{.phase = "clip", .step = step_, .micro = micro_, .dtype = dtype};
    float total = 0;
    if (std::isinf(p)) {
      std::vector<float> largest = {local_norm(partial, p, dtype)};
      shard_group_->all_reduce(largest, {.combine = dist::Combine::Max, .order = config_.order},
                               at);
      total = largest.front();
    } else {
      shard_group_->all_reduce(partial, {.order = config_.order}, at);
      for (float& x : partial) x = from_partial(x, p, dtype);
      total = local_norm(partial, p, dtype);
    }
    const float scale = fault("P-fsdp-clip-first") ? static_cast<float>(world_.size()) : 1.f;
    const float c = clip_coefficient(total * scale, config_.clip_norm, dtype);
    for (std::optional<std::vector<float>>& g : gradient_)
      if (g)
        for (float& x : *g) x = rounded(dtype, x * c);
    return total;
  }

  const Model& model_;
  const Config& config_;
  std::string_view fault_;
  dist::Communicator& world_;
  int shards_;
  Layout layout_;
  std::vector<UnitState> units_;
  std::vector<std::vector<std::size_t>> stage_units_ = {};
  std::unique_ptr<dist::Communicator> shard_group_ = {}, replica_group_ = {}, slice_group_ = {};
  std::vector<std::vector<float>> local_;  // shards of the parameters, without padding
  Accumulation unreduced_;
  std::vector<std::optional<std::vector<float>>> gradient_;
  std::vector<OptimizerState> state_;
  std::vector<std::size_t> used_ = {}, ran_ = {};  // units and stages of this forward, in order
  std::int64_t peak_ = 0;
  int done_ = 0, step_ = 1, micro_ = 0;
};

}  // namespace

RankRecord train(const Model& model, const Config& config, const Checkpoint& from,
                 dist::Communicator& world, std::string_view fault) {
  return Rank(model, config, from, world, fault).train();
}

}  // namespace parity::fsdp
