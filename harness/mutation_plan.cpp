#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

#include "harness/mutants.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

using Slot = MutationPlan::Slot;

// Contracts at which the base of a case is asked for: those of the kernels that take it, else the
// op's own.
std::vector<Contract> contracts_of(const Registry& registry, const OpDef& op, const Case& problem) {
  std::map<std::string, Contract> by_key;
  for (const KernelDef& kernel : registry.kernels) {
    if (kernel.op != op.name || !kernel.environment.empty()) continue;
    if (problem.set && !glob_match(problem.set->kernels, kernel.name)) continue;
    if (std::ranges::find(kernel.contract.dtypes, problem.dtype) == kernel.contract.dtypes.end())
      continue;
    const Options options = kernel.variants.empty() ? Options{} : kernel.variants.front().options;
    if (kernel.refuses && !kernel.refuses(problem, options).empty()) continue;
    Contract contract = kernel.contract;
    contract.chunk = options.integer("chunk", contract.chunk);
    by_key.emplace(contract.key(), contract);
  }
  std::vector<Contract> contracts;
  for (auto& [key, contract] : by_key) contracts.push_back(contract);
  if (contracts.empty() && op.contract) contracts.push_back(op.contract(problem, {}));
  return contracts;
}

bool judged(const Case& c) {
  return c.check == Check::Parity || c.check == Check::Exact || c.check == Check::Sharded;
}

}  // namespace

// One subject while it is put together.
struct MutationPlanner::Builder {
  Subject subject;
  std::vector<Slot> slots = {};
  std::map<std::string, std::size_t> clean =
      {};  // candidates by name and options, bases by contract

  std::size_t add_clean(Candidate c, const std::string& key) {
    const auto known = clean.find(key);
    if (known != clean.end()) return known->second;
    clean[key] = slots.size();
    subject.candidates.push_back(std::move(c));
    slots.push_back({.clean = true});
    return slots.size() - 1;
  }
  void add_mutant(Candidate c, std::size_t twin, std::size_t mutant) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Candidate& other = subject.candidates[i];
      // A chain's mutant and its op's are the same candidate here.
      if (!slots[i].clean && slots[i].twin == twin && other.name == c.name &&
          other.fault == c.fault)
        return slots[i].mutants.push_back(mutant);
    }
    subject.candidates.push_back(std::move(c));
    slots.push_back({.twin = twin, .mutants = {mutant}});
  }
};

MutationPlanner::MutationPlanner(const Registry& registry, const std::vector<Case>& cases,
                                 const MutateOptions& options)
    : registry_(registry) {
  for (const KernelDef& kernel : registry.kernels) kernels_.push_back(&kernel);
  for (const KernelDef& kernel : options.elsewhere) kernels_.push_back(&kernel);
  std::map<std::string, std::int64_t> bases;  // per op, over all its cases
  for (const Case& c : cases) {
    std::int64_t& count = bases[c.op];
    if (const OpDef* op = registry.op(c.op); op && op->base && c.check == Check::Parity)
      count += std::ssize(contracts_of(registry, *op, c));
  }
  const auto ops = std::max<std::int64_t>(1, std::ssize(bases));
  const std::int64_t wanted =
      std::max(options.clean_minimum_per_op, (options.clean_minimum + ops - 1) / ops);
  for (const auto& [op, count] : bases)
    held_out_[op] = count > 0 ? (wanted + count - 1) / count : 0;
}

std::string MutationPlanner::never(std::size_t mutant) const {
  const auto known = why_not_.find(mutant);
  return known == why_not_.end() ? std::string(kNoCase) : known->second;
}

MutationPlan MutationPlanner::plan(const std::vector<Mutant>& mutants,
                                   std::span<const Case> cases) {
  MutationPlan plan;
  for (const Case& c : cases) {
    const OpDef* op = registry_.op(c.op);
    if (!op) continue;
    Builder b{.subject = subject_of(c, "")};  // of no kernel
    add_kernels(b, mutants, c);
    if (op->base && judged(c)) add_bases(b, mutants, c, *op);
    if (b.slots.empty()) continue;
    plan.subjects.push_back(std::move(b.subject));
    plan.slots.push_back(std::move(b.slots));
  }
  return plan;
}

void MutationPlanner::add_kernels(Builder& b, const std::vector<Mutant>& mutants, const Case& c) {
  for (const KernelDef* const known : kernels_) {
    const KernelDef& kernel = *known;
    if (!is_candidate(kernel, c)) continue;
    for (const Variant& variant : kernel.variants) {
      Candidate clean = candidate_of(kernel, variant.options, c);
      const std::string why = clean.unsupported;
      const std::string key = fmt::format("{}[{}]", kernel.name, variant.options.str());
      const std::size_t twin = why.empty() ? b.add_clean(std::move(clean), key) : 0;
      for (std::size_t m = 0; m < mutants.size(); ++m) {
        if (mutants[m].kernel != &kernel || !mutants[m].record.status.empty()) continue;
        if (!why.empty()) {
          why_not_.emplace(m, why);
          continue;
        }
        why_not_[m].clear();
        b.add_mutant(candidate_of(kernel, variant.options, c, mutants[m].fault), twin, m);
      }
    }
  }
}

void MutationPlanner::add_bases(Builder& b, const std::vector<Mutant>& mutants, const Case& c,
                                const OpDef& op) {
  for (const Contract& contract : contracts_of(registry_, op, c)) {
    std::optional<std::size_t> twin;
    for (std::size_t m = 0; m < mutants.size(); ++m) {
      const Mutant& mutant = mutants[m];
      if (mutant.kernel || mutant.op != &op || !mutant.record.status.empty()) continue;
      if (mutant.chain && c.options.get("chain", "") != mutant.chain->name) continue;
      if (!twin) twin = b.add_clean(base_candidate(op, contract, ""), contract.key());
      why_not_[m].clear();
      b.add_mutant(base_candidate(op, contract, mutant.fault), *twin, m);
    }
    // Variants that the noise floor has not seen. Equality has no floor: they round where it
    // demands equality.
    if (c.check == Check::Exact || c.check == Check::Sharded) continue;
    for (std::int64_t v = 1; v <= held_out_[c.op]; ++v) {
      const int variation = kVariants + static_cast<int>(v);
      b.add_clean(base_candidate(op, contract, "", variation),
                  fmt::format("{} {}", contract.key(), variation));
    }
  }
}

}  // namespace parity
