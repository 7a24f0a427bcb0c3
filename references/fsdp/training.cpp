#include "references/fsdp/training.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "references/fsdp/bits.hpp"
#include "references/fsdp/decoder_model.hpp"
#include "references/fsdp/eager.hpp"
#include "references/fsdp/recorded_config.hpp"

namespace parity::fsdp {
namespace {

std::int64_t steps(const Case& c) { return c.options.integer("steps", 1); }
std::int64_t accum(const Case& c) { return c.options.integer("accum", 1); }
std::int64_t rows(const Case& c) { return c.sizes.get("B", 1) * c.sizes["T"]; }

std::vector<Dim> batches(const Case& c) {
  return {{"step", steps(c)}, {"micro", accum(c)}, {"R", c.sizes["R"]}};
}

// A model of that rank with parameters of f32 masters.
DecoderModel model_of(const Case& c, const Tensors& tensors, int rank,
                      std::string_view fault = {}) {
  return DecoderModel(c, tensors, fault == "P-fsdp-same-data" ? 0 : rank, fault);
}

}  // namespace

std::vector<TensorSpec> training_inputs(const Case& c) {
  std::vector<Dim> dims = batches(c);
  dims.insert(dims.end(), {{"B", c.sizes.get("B", 1)}, {"T", c.sizes["T"]}});
  std::vector<TensorSpec> specs = {{.name = "tokens", .dtype = Dtype::I64, .dims = dims},
                                   {.name = "labels", .dtype = Dtype::I64, .dims = dims}};
  if (c.options.integer("vision", 0) > 0)
    specs.push_back({.name = "image",
                     .dims = {{"R", c.sizes["R"]}, {"B", c.sizes.get("B", 1)}, {"C", kImage}}});
  for (TensorSpec& spec : model_parameters(c)) specs.push_back(std::move(spec));
  return specs;
}

std::vector<TensorSpec> training_outputs(const Case& c) {
  std::vector<TensorSpec> specs = {
      {.name = "loss", .role = Role::Output, .dims = batches(c)},
      {.name = "logits",
       .role = Role::Output,
       .dims = {{"R", c.sizes["R"]}, {"T", rows(c)}, {"V", c.sizes["V"]}}},
      {.name = "norm", .role = Role::Output, .dims = {{"step", steps(c)}}}};
  for (const TensorSpec& spec : model_parameters(c))
    specs.push_back(
        {.name = "after/" + spec.name.substr(7), .role = Role::Output, .dims = spec.dims});
  for (const TensorSpec& spec : model_parameters(c))
    specs.push_back({.name = "grads/" + spec.name,
                     .role = Role::Gradient,
                     .dims = spec.dims,
                     .parameter = spec.name.substr(7)});
  return specs;
}

std::string training_refuses(const Case& c) {
  for (const char* size : {"R", "T", "D", "V", "L"})
    if (c.sizes.find(size) == nullptr || c.sizes[size] < 1)
      return "sizes are R ranks, B sequences of T tokens, D, V and L layers";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16) return "parameters are used in f32 or bf16";
  const std::int64_t replicas = std::max<std::int64_t>(c.options.integer("hsdp", 0), 1);
  if (c.sizes["R"] % replicas != 0) return "hsdp is a number of replicas that divides the ranks";
  return "";
}

Config training_config(const Case& c) {
  Config config = config_of(c);
  config.units = model_units(c);
  config.order = dist::parse_order(c.options.get("order", "gloo"));
  if (c.dtype == Dtype::BF16) config.param_dtype = Dtype::BF16;
  return config;
}

Values initial_parameters(const Case& c, const Tensors& tensors) {
  Values whole;
  for (const TensorSpec& spec : model_parameters(c)) whole.push_back(floats(tensors.at(spec.name)));
  return whole;
}

Expected train_in_one(const Case& c, const Tensors& tensors) {
  const auto R = static_cast<int>(c.sizes["R"]);
  std::vector<std::unique_ptr<DecoderModel>> models;
  std::vector<const Model*> ranks;
  for (int r = 0; r < R; ++r) {
    models.push_back(std::make_unique<DecoderModel>(c, tensors, r));
    ranks.push_back(&models.back()->model());
  }
  const Config config = training_config(c);
  const std::vector<EagerStep> run = train_eager(ranks, config, initial_parameters(c, tensors));
  std::vector<float> loss, logits, norm;
  for (std::size_t i = 0; i < static_cast<std::size_t>(steps(c) * accum(c)); ++i)
    for (const auto& model : models) loss.push_back(model->losses().at(i));
  for (const auto& model : models)
    logits.insert(logits.end(), model->logits().begin(), model->logits().end());
  for (const EagerStep& step : run) norm.push_back(step.clip_total);
  Expected expected;
  const std::vector<TensorSpec> specs = training_outputs(c);
  const std::size_t P = ranks.front()->parameters.size(), first = specs.size() - 2 * P;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec& spec = specs[i];
    const std::vector<float>* values = i == 0 ? &loss : i == 1 ? &logits : &norm;
    std::vector<float> none;
    if (i >= first + P) {
      const auto& g = run.back().gradients[i - first - P];
      none.assign(static_cast<std::size_t>(elements(spec.dims)), 0.f);
      values = g ? &*g : &none;
    } else if (i >= first) {
      values = &run.back().parameters[i - first];
    }
    ExpectedTensor t = exact(spec.name, spec.role, spec.dtype, spec.dims, *values);
    t.spec.parameter = spec.parameter;
    expected.tensors.push_back(std::move(t));
  }
  return expected;
}

Tensors train_sharded(const Case& c, const Tensors& tensors, dist::Communicator& world,
                      std::string_view fault) {
  const DecoderModel model = model_of(c, tensors, world.rank(), fault);
  const Config config = training_config(c);
  Values whole = initial_parameters(c, tensors);
  if (fault == "P-fsdp-init-seed" && world.rank() > 0)
    for (std::vector<float>& p : whole) std::rotate(p.begin(), p.begin() + 1, p.end());
  const RankRecord record =
      train(model.model(), config, {.parameters = std::move(whole)}, world, fault);

  // Every rank's part to everybody, outside the run that is judged.
  const auto R = static_cast<std::size_t>(world.size());
  const auto collect = [&](const std::vector<float>& mine, const std::string& what) {
    std::vector<float> all(mine.size() * R);
    world.all_gather(mine, all, {.unit = what, .phase = "collect"});
    return all;
  };
  const Layout layout(model.model().parameters, config.units, shard_ranks(config, world.size()));
  const auto merged = [&](std::size_t p, std::vector<float> shard, const std::string& what) {
    const auto each = static_cast<std::size_t>(layout.shard_elements(p));
    shard.resize(each);
    const std::vector<float> all = collect(shard, what);
    std::vector<std::span<const float>> parts;
    for (int r = 0; r < layout.ranks(); ++r)
      parts.push_back(std::span(all).subspan(static_cast<std::size_t>(r) * each, each));
    return layout.merge(p, parts);
  };
  Tensors results;
  const std::vector<TensorSpec> specs = training_outputs(c);
  const auto put = [&](const TensorSpec& spec, const std::vector<float>& values) {
    results.add(make_tensor(spec, std::vector<double>(values.begin(), values.end())));
  };
  const std::vector<float> losses = collect(model.losses(), "loss");
  std::vector<float> by_batch;
  const std::size_t batches = model.losses().size();
  for (std::size_t i = 0; i < batches; ++i)
    for (std::size_t r = 0; r < R; ++r) by_batch.push_back(losses[r * batches + i]);
  put(specs[0], by_batch);
  put(specs[1], collect(model.logits(), "logits"));
  std::vector<float> norm;
  for (const StepRecord& step : record.steps) norm.push_back(step.clip_total);
  put(specs[2], norm);
  const std::size_t P = layout.parameters().size();
  const StepRecord& last = record.steps.back();
  for (std::size_t p = 0; p < P; ++p)
    put(specs[3 + p], merged(p, last.parameters[p], specs[3 + p].name));
  for (std::size_t p = 0; p < P; ++p) {
    const TensorSpec& spec = specs[3 + P + p];
    put(spec, merged(p, last.gradients[p].value_or(std::vector<float>()), spec.name));
  }
  return results;
}

std::vector<FaultDef> training_faults() {
  return {
      {"P-fsdp-no-division", "", "gradients are summed over the ranks and not divided"},
      {"P-fsdp-division-twice", "", "gradients are averaged, then divided by the ranks again"},
      {"P-fsdp-padding", "", "gathered parameters are cut as if the shards had no padding"},
      {"P-fsdp-padding-leaks", "", "the padding of a shard counts in its gradient's norm"},
      {"P-fsdp-stale-gather", "", "a unit gathered in the first step is not gathered again"},
      {"P-fsdp-bf16-reduce", "", "gradients are reduced in bf16 where f32 is stated"},
      {"P-fsdp-dropped-micro", "", "only the first microbatch of a step is accumulated"},
      {"P-fsdp-hook-twice", "", "the hook that accumulates a gradient fires twice"},
      {"P-fsdp-init-seed", "", "the ranks draw their initial parameters from different seeds"},
      {"P-fsdp-same-data", "", "the ranks draw their batches from one seed"},
      {"P-fsdp-clip-first", "", "clipped by the norm of gradients that are not divided yet"},
      {"P-fsdp-stale-shard", "", "one rank's optimiser steps a shard that nobody reads"},
      {"P-fsdp-skipped-branch", "", "the image branch runs on the first rank only"},
      {"P-fsdp-expert-scale", "", "gradients of experts are not divided by the ranks"},
  };
}

}  // namespace parity::fsdp
