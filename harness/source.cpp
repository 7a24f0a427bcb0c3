// Where subjects and candidates come from: generated cases with the registered kernels, and the
// op's own base.
#include "harness/source.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

Subject without_candidates(const Case& problem) {
  const OpDef& op = registry().op_or_throw(problem.op);
  Subject subject{.problem = problem, .check = problem.check};
  subject.inputs = [problem, &op] { return generate(problem, op, /*threads=*/1); };
  // An fp64 candidate is as precise as its truth, whose own error is in every difference: no ratio
  // to the base's noise can be asked for, and the bound alone decides.
  subject.judge_base = problem.dtype != Dtype::F64;
  return subject;
}

bool in_set(const KernelDef& kernel, const Case& problem) {
  return kernel.op == problem.op && (!problem.set || glob_match(problem.set->kernels, kernel.name));
}

bool takes(const KernelDef& kernel, Dtype dtype) {
  const std::vector<Dtype>& list = kernel.contract.dtypes;
  return list.empty() || std::ranges::find(list, dtype) != list.end();
}

// Chains of which the kernel refuses every declared case.
std::set<std::pair<const KernelDef*, std::string>> refused_chains() {
  std::map<std::pair<const KernelDef*, std::string>, bool> taken;
  for (const Case& c : expand(registry(), Lane::Long)) {
    const std::string chain = c.options.get("chain", "");
    if (chain.empty()) continue;
    for (const KernelDef& kernel : registry().kernels) {
      if (kernel.op != c.op || !kernel.refuses || kernel.variants.empty()) continue;
      bool& any = taken[{&kernel, chain}];
      any = any || kernel.refuses(c, kernel.variants.front().options).empty();
    }
  }
  std::set<std::pair<const KernelDef*, std::string>> refused;
  for (const auto& [pair, any] : taken)
    if (!any) refused.insert(pair);
  return refused;
}

// A kernel is no candidate for a chain that it does not implement: nothing is left untested by it,
// and a record that says so for every case would hide those that matter.
bool implements_chain(const KernelDef& kernel, const Case& problem) {
  const std::string chain = problem.options.get("chain", "");
  if (chain.empty()) return true;
  static const auto refused = refused_chains();
  return !refused.contains({&kernel, chain});
}

// The default runs on every case; a variant on the cases of its lane and above.
bool runs(const KernelDef& kernel, std::size_t variant, const Case& problem) {
  return variant == 0 || kernel.variants[variant].lane <= problem.lane;
}

}  // namespace

bool is_candidate(const KernelDef& kernel, const Case& problem) {
  return in_set(kernel, problem) && takes(kernel, problem.dtype) &&
         implements_chain(kernel, problem);
}

Subject subject_of(const Case& problem, std::string_view kernels) {
  Subject subject = without_candidates(problem);
  for (const KernelDef& kernel : registry().kernels) {
    if (!glob_match(kernels, kernel.name)) continue;
    const bool asked_for = kernels == kernel.name;
    if (asked_for ? !in_set(kernel, problem) : !is_candidate(kernel, problem)) continue;
    for (std::size_t v = 0; v < kernel.variants.size(); ++v)
      if (runs(kernel, v, problem))
        subject.candidates.push_back(candidate_of(kernel, kernel.variants[v].options, problem));
  }
  return subject;
}

Subject subject_of(const Case& problem, std::string_view kernel, const Options& kernel_options) {
  Subject subject = without_candidates(problem);
  const KernelDef* found = registry().kernel(kernel);
  if (!found || found->op != problem.op)
    throw UsageError(
        fmt::format("op '{}' has no kernel '{}'; `parity list` shows them", problem.op, kernel));
  subject.candidates.push_back(candidate_of(*found, kernel_options, problem));
  return subject;
}

Candidate base_candidate(const OpDef& op, const Contract& contract, std::string_view fault,
                         int variation) {
  Candidate c{
      .name = fmt::format("{}.base", op.name), .contract = contract, .fault = std::string(fault)};
  c.options.set("contract", contract.name);
  if (variation > 0) c.options.set("variation", std::to_string(variation));
  c.run = [&op, contract, fault = std::string(fault), variation](const RunRequest& request) {
    const bool gradients = request.direction != Direction::Forward;
    const Rng draws{.seed = request.problem.seed,
                    .stream = ~std::uint64_t{0}};  // as run_base draws its variants
    const Evaluation evaluation =
        op.base({.problem = request.problem,
                 .contract = contract,
                 .inputs = request.inputs,
                 .variation = variation,
                 .seed = draws.bits(static_cast<std::uint64_t>(variation)),
                 .fault = fault,
                 .gradients = gradients});
    Observed observed;
    for (const TensorSpec& spec : op.outputs(request.problem)) {
      if (!answers(spec.role, request.direction)) continue;
      const auto values = std::ranges::find(evaluation, spec.name, &Values::name);
      if (values == evaluation.end()) continue;  // shows as bytes that nobody produced
      if (values->bits.empty())
        observed.tensors.add(make_tensor(spec, values->value));  // already of that format: exact
      else
        observed.tensors.add({spec, values->bits});
    }
    return observed;
  };
  return c;
}

bool answers(Role role, Direction direction) {
  if (role == Role::Input || role == Role::Cotangent) return false;
  return direction == Direction::Both ||
         (role == Role::Gradient) == (direction == Direction::Backward);
}

std::optional<Direction> direction_of(const Subject& subject, const Candidate& candidate) {
  bool gradients =
      true;  // of an op that is not registered, or that has no such case, what the source says
  if (const OpDef* op = registry().op(subject.problem.op);
      op && op->outputs && candidate.unsupported.empty()) {
    const std::vector<TensorSpec> outputs = op->outputs(subject.problem);
    gradients =
        std::ranges::any_of(outputs, [](const TensorSpec& s) { return s.role == Role::Gradient; });
  }
  const bool backward = gradients && candidate.backward;
  if (subject.direction == Direction::Forward) return Direction::Forward;
  if (backward) return subject.direction;
  if (subject.direction == Direction::Both) return Direction::Forward;
  return std::nullopt;
}

}  // namespace parity
