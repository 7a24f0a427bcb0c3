// Fully sharded data parallelism (FSDP2) on one rank, over any model given as a struct of
// functions: gathers before use, frees after, reduces in backward's order, clips, steps. What it
// does and in which order is k3.md §7 and fsdp2.md; how it adds is the communicator's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/dist/communicator.hpp"
#include "references/fsdp/layout.hpp"
#include "references/fsdp/optimizer.hpp"

namespace parity::fsdp {

// Whole parameters, of the units that are gathered; reading another is a Failure.
class Weights {
 public:
  std::function<std::span<const float>(std::size_t parameter)> read = {};
  std::span<const float> operator[](std::size_t parameter) const { return read(parameter); }
};
// A gradient as backward leaves it, on the grid of its dtype.
struct Gradient {
  std::size_t parameter = 0;
  Dtype dtype = Dtype::F32;
  std::vector<float> values = {};
};

struct Stage {
  std::string name = {};                  // "blocks.0"
  std::vector<std::string> modules = {};  // whose parameters it uses
  bool inputs_need_gradient = true;       // else its unit reduces at the end of backward
};

// One rank's model and data. Stages run in order forward, in reverse order backward.
struct Model {
  std::vector<Parameter> parameters = {};  // in named_parameters() order
  std::vector<Stage> stages = {};
  // A conditional module may sit out a microbatch of this rank.
  std::function<bool(std::size_t stage, int step, int micro)> runs = {};
  std::function<void(std::size_t stage, int step, int micro, const Weights&)> forward = {};
  std::function<std::vector<Gradient>(std::size_t stage, int step, int micro, const Weights&)>
      backward = {};
};

struct Config {
  std::vector<UnitSpec> units = {};
  // After forward: nothing said (all but the root), all, none, or down to groups of that many
  // ranks.
  enum class Reshard : std::uint8_t { Default, Always, Never, Group } reshard = Reshard::Default;
  int reshard_group = 0;
  bool reshard_after_backward = true;  // false: kept between the microbatches of a step
  std::optional<Dtype> param_dtype = {}, reduce_dtype = {};
  int replicas = 1;          // HSDP: rank = replica * shards + shard
  double divide_factor = 0;  // 0: the number of ranks
  bool force_sum = false;
  dist::Order order = dist::Order::Gloo;
  int steps = 1, accum = 1;
  bool sync_each = false;  // else gradients add up unsharded, and one reduction ends the step
  double clip_type = 2, clip_norm = 0;  // norm 0: no clipping
  Optimizer optimizer = {};
};

struct StepRecord {
  std::vector<std::optional<std::vector<float>>> gradients = {};  // by parameter: reduced shards
  std::vector<std::array<float, 2>> norms = {};                   // 2 and inf, of each shard
  float clip_total = 0;
  std::vector<std::vector<float>> parameters = {};  // shards after the step
};
struct RankRecord {
  std::vector<StepRecord> steps = {};
  std::vector<OptimizerState> optimizer = {};  // of this rank's shards, after the last step
  dist::Trace trace = {};
  // Most elements of parameters that the rank held at once: its shards, the units gathered (in
  // backward the next one too), and the buffer of the one that is being copied out.
  std::int64_t peak_elements = 0;
};

// What training goes on from: whole parameters and the optimiser's state of each, whatever number
// of ranks left it.
struct Checkpoint {
  std::vector<std::vector<float>> parameters = {};
  std::vector<OptimizerState> optimizer = {};
  int steps = 0;  // done so far
};

// Runs the steps of one rank from a checkpoint. Faults: training_faults() (training.hpp).
RankRecord train(const Model&, const Config&, const Checkpoint&, dist::Communicator& world,
                 std::string_view fault = {});
// From the shards of all ranks (of one replica) after their last step.
Checkpoint checkpoint_of(const Layout&, const std::vector<RankRecord>& ranks, int steps);

int shard_ranks(const Config&, int ranks);  // of a shard group; UsageError where it does not divide

}  // namespace parity::fsdp
