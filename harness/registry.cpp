#include "harness/registry.hpp"

#include <algorithm>
#include <memory>
#include <tuple>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity {
namespace {

struct Store {
  std::unique_ptr<Registry> current = std::make_unique<Registry>();
  // What was handed out before a library registered more stays where it is: cases and candidates
  // point into it.
  std::vector<std::unique_ptr<Registry>> retired = {};
  bool sorted = false;
};

// Constructed on first use: registrations run before main in no particular order.
Store& store() {
  static Store instance;
  return instance;
}

template <class T>
void add(std::vector<T> Registry::*list, T&& item) {
  Store& s = store();
  if (s.sorted) {
    s.retired.push_back(std::move(s.current));
    s.current = std::make_unique<Registry>(*s.retired.back());
    s.sorted = false;
  }
  (s.current.get()->*list).push_back(std::move(item));
}

}  // namespace

Register::Register(KernelDef def) { add(&Registry::kernels, std::move(def)); }
Register::Register(OpDef def) { add(&Registry::ops, std::move(def)); }
Register::Register(CaseSet def) { add(&Registry::case_sets, std::move(def)); }
Register::Register(BoundDef def) { add(&Registry::bounds, std::move(def)); }
Register::Register(ChainDef def) { add(&Registry::chains, std::move(def)); }
Register::Register(Waiver def) { add(&Registry::waivers, std::move(def)); }
Register::Register(Explanation def) { add(&Registry::explanations, std::move(def)); }

const Registry& registry() {
  Store& s = store();
  if (!s.sorted) {
    Registry& r = *s.current;
    std::ranges::sort(r.ops, {}, &OpDef::name);
    std::ranges::sort(r.kernels, {}, &KernelDef::name);
    // Sets have no name: first by op, then by what they say; equal ones are a finding of `parity
    // check`.
    std::ranges::sort(r.case_sets, {}, [](const CaseSet& c) { return std::pair(c.op, c.what); });
    std::ranges::sort(r.bounds, {}, &BoundDef::op);
    std::ranges::sort(r.chains, {}, &ChainDef::name);
    std::ranges::sort(r.waivers, {}, &Waiver::id);
    std::ranges::sort(r.explanations, {}, [](const Explanation& e) {
      return std::tuple(e.op, e.direction, e.dtype, e.kernel, e.hole);
    });
    s.sorted = true;
  }
  return *s.current;
}

namespace {

template <class T>
const T* by_name(const std::vector<T>& list, std::string_view name) {
  const auto it = std::ranges::find(list, name, &T::name);
  return it == list.end() ? nullptr : &*it;
}

}  // namespace

const OpDef* Registry::op(std::string_view name) const { return by_name(ops, name); }
const KernelDef* Registry::kernel(std::string_view name) const { return by_name(kernels, name); }
const ChainDef* Registry::chain(std::string_view name) const { return by_name(chains, name); }

const ChainDef* Registry::chain_of_group(std::string_view golden_group) const {
  for (const ChainDef& def : chains)
    if (std::ranges::find(def.groups, golden_group) != def.groups.end()) return &def;
  return nullptr;
}

const OpDef* Registry::op_of(const ChainDef& def) const {
  for (const CaseSet& set : case_sets)
    for (const Options& options : set.options)
      if (options.get("chain", "") == def.name) return op(set.op);
  return nullptr;
}

const OpDef& Registry::op_or_throw(std::string_view name) const {
  if (const OpDef* found = op(name)) return *found;
  std::vector<std::string> known;
  for (const OpDef& def : ops) known.emplace_back(def.name);
  const std::string near = nearest(name, known);
  throw UsageError(
      "no op '" + std::string(name) + "'" +
      (near.empty() ? "; `parity list` shows what there is" : "; did you mean '" + near + "'?"));
}

Bound Registry::bound_of(const Case& problem, const Contract& contract,
                         const TensorSpec& spec) const {
  if (problem.set && problem.set->bound) return problem.set->bound(problem, contract, spec);
  const auto it = std::ranges::find(bounds, problem.op, &BoundDef::op);
  if (it == bounds.end()) throw Failure("op '" + problem.op + "' has no bound");
  return it->bound(problem, contract, spec);
}

}  // namespace parity
