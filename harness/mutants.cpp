#include "harness/mutants.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace parity {
namespace {

// The name a fault keeps, over all that is registered: either side of a pair may be the id.
std::map<std::string, std::string> kept_names(const Registry& registry) {
  std::map<std::string, std::string> kept;
  const auto note = [&](const std::vector<FaultDef>& faults) {
    for (const FaultDef& f : faults) {
      if (f.alias.empty()) continue;
      const bool swap = f.alias.starts_with("A-") && !f.id.starts_with("A-");
      kept[std::string(swap ? f.id : f.alias)] = swap ? f.alias : f.id;
    }
  };
  for (const OpDef& op : registry.ops) note(op.faults);
  for (const KernelDef& kernel : registry.kernels) note(kernel.faults);
  for (const ChainDef& chain : registry.chains) note(chain.faults);
  return kept;
}

}  // namespace

std::vector<Mutant> mutants_of(const Registry& registry, std::span<const KernelDef> elsewhere) {
  const std::map<std::string, std::string> kept = kept_names(registry);
  std::map<std::string, Mutant> by_id;
  const auto add = [&](const std::string& place, std::string_view op, const FaultDef& f,
                       Mutant mutant) {
    const std::string id(f.id);
    const auto other = kept.find(id);
    MutantRecord& r = mutant.record;
    r.fault = other == kept.end() ? id : other->second;
    r.alias = r.fault == id ? std::string(f.alias) : id;
    r.id = place + "!" + r.fault;
    r.op = op;
    r.what = f.what;
    if (!f.unsupported.empty()) {
      r.status = "unsupported";
      r.reason = f.unsupported;
    }
    mutant.fault = id;
    by_id.emplace(r.id, std::move(mutant));
  };
  for (const std::span<const KernelDef> kernels : {std::span(registry.kernels), elsewhere})
    for (const KernelDef& kernel : kernels)
      for (const FaultDef& f : kernel.faults)
        add(std::string(kernel.name), kernel.op, f,
            {.kernel = &kernel, .op = registry.op(kernel.op)});
  for (const OpDef& op : registry.ops)
    for (const FaultDef& f : op.faults)
      add(fmt::format("{}.base", op.name), op.name, f, {.op = &op});
  for (const ChainDef& chain : registry.chains) {
    const OpDef* op = registry.op_of(chain);
    for (const FaultDef& f : chain.faults)
      add(std::string(chain.name), op == nullptr ? "" : op->name, f, {.op = op, .chain = &chain});
  }
  std::vector<Mutant> all;
  for (auto& [id, mutant] : by_id) all.push_back(std::move(mutant));
  return all;
}

std::vector<MutantRecord> all_mutants(const Registry& registry) {
  std::vector<MutantRecord> records;
  for (const Mutant& m : mutants_of(registry)) records.push_back(m.record);
  return records;
}

}  // namespace parity
