#include "references/fsdp/replay.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/dist/threads.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/fsdp/bits.hpp"
#include "references/fsdp/merge.hpp"
#include "references/fsdp/recorded_config.hpp"

namespace parity::fsdp {
namespace {

using Values = std::vector<std::vector<float>>;  // by parameter

// What is stored about all ranks.
struct Recorded {
  int ranks = 1;
  std::vector<std::string> names = {};
  std::vector<Parameter> parameters = {};
  Values before = {};
  Config config = {};
};

Values cut(const std::vector<float>& flat, const std::vector<Parameter>& parameters) {
  Values values;
  auto at = flat.begin();
  for (const Parameter& p : parameters) {
    if (flat.end() - at < p.count())
      throw GoldenError("a parameter set is shorter than its shapes");
    values.emplace_back(at, at + p.count());
    at += p.count();
  }
  if (at != flat.end()) throw GoldenError("a parameter set is longer than its shapes");
  return values;
}

Recorded recorded(const Case& c, const Tensors& inputs) {
  Recorded r{.ranks = static_cast<int>(c.sizes["R"])};
  r.config = config_of(c);
  r.names = text_lines(inputs.at("param_names"));
  r.config.units = units_of(c.options.get("wrap", "block"), r.names);
  const std::vector<double> shape = inputs.at("param_shape").widened();
  if (shape.size() != 2 * r.names.size()) throw GoldenError("param_shape does not fit param_names");
  const std::vector<std::string> columns = split(c.options.get("shard1", ""), ',');
  const Tensor& before = inputs.at("params_before");
  for (std::size_t p = 0; p < r.names.size(); ++p) {
    Parameter parameter{.name = r.names[p], .original = before.spec.dtype};
    parameter.shape.push_back(static_cast<std::int64_t>(shape[2 * p]));
    if (shape[2 * p + 1] >= 0)
      parameter.shape.push_back(static_cast<std::int64_t>(shape[2 * p + 1]));
    for (const std::string& suffix : columns)
      if (parameter.name.find(suffix) != std::string::npos) parameter.shard_dim = 1;
    r.parameters.push_back(std::move(parameter));
  }
  r.before = cut(floats(before), r.parameters);
  return r;
}

bool has_image(const Tensors& inputs, const Recorded& r, int step, int micro, int rank) {
  const Tensor* image = inputs.find("inputs/has_image");
  if (image == nullptr) return true;
  const std::int64_t at =
      (static_cast<std::int64_t>(step - 1) * r.config.accum + micro) * r.ranks + rank;
  return image->widened().at(static_cast<std::size_t>(at)) != 0;
}

// The recorded model: its stages, and as their backward what was handed to the reduction.
Model model_of(const Case& c, const Recorded& r, const Tensors& inputs, int rank) {
  Model model{.parameters = r.parameters};
  const bool tied = std::ranges::find(r.names, "head.weight") == r.names.end();
  model.stages = {{"tok", {"tok"}, false}, {"vis", {"vis"}, false}};
  for (const UnitSpec& block : units_of("block", r.names))
    model.stages.push_back({block.name, block.modules, true});
  model.stages.push_back({"head", {"norm", tied ? "tok" : "head"}, true});
  const bool dummy = c.options.get("text_rank", "") == "dummy";
  model.runs = [&inputs, &r, rank, dummy](std::size_t stage, int step, int micro) {
    return stage != 1 || dummy || has_image(inputs, r, step, micro, rank);
  };
  model.forward = [](std::size_t, int, int, const Weights&) {};
  // Each stage hands over its own parameters' gradients; those of a stage that sat out come from a
  // dependency or an earlier microbatch, and are complete with the first stage, which runs last.
  const std::vector<Stage> stages = model.stages;
  model.backward = [&r, &inputs, rank, stages, runs = model.runs](std::size_t stage, int step,
                                                                  int micro, const Weights&) {
    std::vector<Gradient> gradients;
    const std::string at = fmt::format("step{}_micro{}", step, micro);
    const Tensor* stored = inputs.find(fmt::format("rank_{}/local_{}", rank, at));
    if (stored == nullptr) return gradients;  // it came with the last microbatch
    const Tensor* has = inputs.find(fmt::format("rank_{}/has_{}", rank, at));
    const std::vector<double> there = has ? has->widened() : std::vector<double>();
    Values values = cut(floats(*stored), r.parameters);
    for (std::size_t p = 0; p < values.size(); ++p) {
      if (has && there.at(p) == 0) continue;
      const std::size_t own = owner(r.names[p], stages);
      if (own == stage || (stage == 0 && !runs(own, step, micro)))
        gradients.push_back({p, stored->spec.dtype, std::move(values[p])});
    }
    return gradients;
  };
  return model;
}

ImportedCase unsupported(ImportedCase imported, std::string why) {
  imported.unsupported = std::move(why);
  return imported;
}

bool is_input(const std::string& path) {
  return path == "params_before" || path == "param_names" || path == "param_shape" ||
         path == "inputs/has_image" || path.find("/local_") != std::string::npos ||
         path.find("/has_") != std::string::npos;
}

// Datasets about the model itself and about the unsharded one; no result of sharding.
bool is_left_out(const std::string& path) {
  return path.starts_with("inputs/") || path.starts_with("eager/") || path == "param_offset" ||
         path.ends_with("/loss") || path.ends_with("/logits") ||
         path.find("/eager_") != std::string::npos;
}

// `hsdp` is the number of replicas or of shards of one; where both divide, the stored layout says.
std::int64_t replicas_of(const StoredCase& stored, std::int64_t hsdp, std::int64_t ranks) {
  if (hsdp <= 0) return 1;
  const std::vector<double> padded = stored.read("layout/rows_padded").widened();
  const std::vector<double> shape = stored.read("param_shape").widened();
  for (const std::int64_t replicas : {hsdp, ranks / hsdp}) {
    if (replicas < 1 || ranks % replicas != 0) continue;
    const double shards = static_cast<double>(ranks / replicas);
    bool fits = true;
    for (std::size_t p = 0; p < padded.size(); ++p)
      fits = fits && std::ceil(shape[2 * p] / shards) == padded[p];
    if (fits) return replicas;
  }
  return hsdp;
}

}  // namespace

bool is_replay(const Case& c) { return c.options.get("gradients", "") == "stored"; }

ImportedCase import_replay(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "fsdp";
  for (const char* key : {"n", "wrap", "accum", "steps", "opt"})
    if (!stored.attributes.contains(key))
      return unsupported(std::move(imported), fmt::format("the case does not say '{}'", key));
  const std::int64_t ranks = to_integer(stored.attributes.at("n"), "n");
  c.sizes = Sizes{{"R", ranks, {}}};
  c.options = recorded_options(stored);
  c.options.set("gradients", "stored");
  c.options.set("hsdp", std::to_string(replicas_of(stored, c.options.integer("hsdp", 0), ranks)));
  for (const std::string& path : stored.paths) {
    if (is_input(path)) {
      Tensor tensor = stored.read(path);
      tensor.spec.name = path;
      imported.inputs.add(std::move(tensor));
    } else if (!is_left_out(path) && stored.read(path).elements() > 0) {
      imported.results[path] = path;
    }
  }
  const Tensor* before = imported.inputs.find("params_before");
  if (before == nullptr) return unsupported(std::move(imported), "no params_before");
  c.dtype = before->spec.dtype;
  c.options.set("elements", std::to_string(before->elements()));
  if (const std::string why = refuses(config_of(c).optimizer, c.dtype); !why.empty())
    return unsupported(std::move(imported), why);
  return imported;
}

Expected replay(const Case& c, const Tensors& inputs) {
  const Recorded r = recorded(c, inputs);
  std::vector<Model> models;
  for (int rank = 0; rank < r.ranks; ++rank) models.push_back(model_of(c, r, inputs, rank));
  std::vector<RankRecord> records(static_cast<std::size_t>(r.ranks));
  dist::run_threads(r.ranks, [&](dist::Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    records[rank] = train(models[rank], r.config, {.parameters = r.before}, world);
  });
  const Layout layout(r.parameters, r.config.units, shard_ranks(r.config, r.ranks));
  return {.tensors =
              tables(layout, r.config, records, inputs.at("param_names").spec.dims.back().extent)};
}

std::vector<TensorSpec> replay_outputs(const Case& c) {
  std::vector<TensorSpec> specs;
  for (std::int64_t step = 1; step <= c.options.integer("steps", 1); ++step)
    specs.push_back({.name = fmt::format("grads/step{}", step),
                     .role = Role::Gradient,
                     .dtype = c.dtype,
                     .dims = {{"element", c.options.integer("elements", 1)}}});
  return specs;
}

}  // namespace parity::fsdp
