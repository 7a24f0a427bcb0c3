// fsdp: a sharded training run, bit for bit that of one process which adds in the same stated order
// (k3.md §7, tolerance.md §12); and recorded runs of FSDP2, from their local gradients on.
#include <algorithm>

#include "references/fsdp/bits.hpp"
#include "references/fsdp/ranks.hpp"
#include "references/fsdp/replay.hpp"
#include "references/fsdp/training.hpp"

namespace parity::fsdp {
namespace {

std::vector<TensorSpec> inputs(const Case& c) {
  return is_replay(c) || !training_refuses(c).empty() ? std::vector<TensorSpec>{}
                                                      : training_inputs(c);
}
std::vector<TensorSpec> outputs(const Case& c) {
  if (is_replay(c)) return replay_outputs(c);
  return training_refuses(c).empty() ? training_outputs(c) : std::vector<TensorSpec>{};
}
std::string refuses(const Case& c) { return is_replay(c) ? "" : training_refuses(c); }

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Expected expected = is_replay(c) ? replay(c, tensors) : train_in_one(c, tensors);
  if (!gradients)
    std::erase_if(expected.tensors,
                  [](const ExpectedTensor& t) { return t.spec.role == Role::Gradient; });
  return expected;
}

// No rounding is left open, so that every variant is the base itself.
Evaluation base(const BaseRequest& request) {
  Evaluation evaluation;
  for (ExpectedTensor& t : reference(request.problem, request.inputs, request.gradients).tensors)
    evaluation.push_back({std::move(t.spec.name), std::move(t.value), std::move(t.bits)});
  return evaluation;
}

Contract contract(const Case&, const std::map<std::string, std::string>&) {
  return {.name = "stated_order", .fidelity = Fidelity::Twin};
}

const Register op{OpDef{
    .name = "fsdp",
    .what = "a sharded training run = one process that adds in the stated order, bit for bit",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
                "https://github.com/pytorch/torchtitan"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = contract,
    .import = import_replay,
}};

Bound exact_bound(const Case&, const Contract&, const TensorSpec&) {
  return every_bit(
      "the same local gradients, added, divided and rounded as stated: every bit follows");
}
const Register bound{BoundDef{.op = "fsdp", .bound = exact_bound}};

void launch(const Launch& l) { launch_on_threads(l, train_sharded); }

const Register threads{KernelDef{
    .op = "fsdp",
    .name = "fsdp.threads",
    .what = "FSDP2 on ranks that are threads: shards, gathers, reduce-scatters in the stated order",
    .contract = {.name = "stated_order",
                 .dtypes = {Dtype::F32, Dtype::BF16},
                 .fidelity = Fidelity::Twin},
    .forward = launch,
    .backward = launch,
    .faults = training_faults(),
}};

}  // namespace
}  // namespace parity::fsdp
