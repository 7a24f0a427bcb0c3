// parity check: lint of what is registered. A finding is exit 2: the suite itself is not in order.
#include "harness/cli/check.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>

#include "harness/build_info.hpp"
#include "harness/cli/coverage.hpp"
#include "harness/cli/ledger.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "harness/walk.hpp"
#include "reports/json_writer.hpp"
#include "reports/reports.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

struct Lint {
  const Registry& all;
  std::vector<Finding> findings = {};

  template <class... A>
  void say(std::string_view rule, fmt::format_string<A...> text, A&&... args) {
    findings.push_back({std::string(rule), fmt::format(text, std::forward<A>(args)...)});
  }

  template <class List, class Key>
  void unique(const List& list, std::string_view what, Key key) {
    std::set<std::string> seen;
    for (const auto& item : list)
      if (const std::string name(key(item)); !seen.insert(name).second)
        say("collision", "the {} '{}' is there twice", what, name);
  }

  void names() {
    unique(all.ops, "op", [](const OpDef& d) { return d.name; });
    unique(all.kernels, "kernel", [](const KernelDef& d) { return d.name; });
    unique(all.chains, "chain", [](const ChainDef& d) { return d.name; });
    unique(all.bounds, "bound", [](const BoundDef& d) { return d.op; });
    for (const OpDef& op : all.ops)
      unique(op.faults, fmt::format("fault of {}", op.name),
             [](const FaultDef& f) { return f.id; });
    for (const KernelDef& kernel : all.kernels)
      unique(kernel.faults, fmt::format("fault of {}", kernel.name),
             [](const FaultDef& f) { return f.id; });
    std::set<std::pair<std::string_view, std::string_view>> sets;
    for (const CaseSet& set : all.case_sets)
      if (!sets.emplace(set.op, set.what).second)
        say("collision", "two case sets of {} say '{}'", set.op, set.what);
  }

  void op(const OpDef& op) {
    if (!op.reference) say("reference", "op {} has no reference", op.name);
    if (!op.base)
      say("reference", "op {} has no base: nothing says what its contract costs", op.name);
    if (!op.inputs || !op.outputs)
      say("reference", "op {} does not say what its tensors are", op.name);
    if (op.what.empty()) say("words", "op {} has no formula (what)", op.name);
    if (op.sources.empty())
      say("words", "op {} does not say where its formula comes from", op.name);
    if (!std::ranges::count(all.case_sets, op.name, &CaseSet::op))
      say("case", "op {} has no case", op.name);
    bool mutant = !op.faults.empty() || std::ranges::any_of(all.chains, [&](const ChainDef& c) {
      return !c.faults.empty() && all.op_of(c) == &op;
    });
    for (const KernelDef& kernel : all.kernels)
      mutant = mutant || (kernel.op == op.name && !kernel.faults.empty());
    if (!mutant)
      say("mutant", "op {} has no mutant: nothing shows that its gate can fail", op.name);
  }

  // A chain is judged where a case names it; golden groups alone would be the only eyes on it.
  void chain(const ChainDef& chain) {
    if (chain.what.empty()) say("words", "chain {} does not say what it does (what)", chain.name);
    if (all.op_of(chain) == nullptr)
      say("case", "chain {} has no case: no case set has it as its option 'chain'", chain.name);
  }

  void kernel(const KernelDef& kernel) {
    if (!all.op(kernel.op))
      say("kernel", "kernel {} is of op '{}', which does not exist", kernel.name, kernel.op);
    if (!kernel.name.starts_with(fmt::format("{}.", kernel.op)))
      say("kernel", "kernel {} is not named <op>.<variant>", kernel.name);
    if (!kernel.forward) say("kernel", "kernel {} has no forward", kernel.name);
    if (kernel.what.empty())
      say("words", "kernel {} does not say what it does (what)", kernel.name);
    for (const FaultDef& fault : kernel.faults)
      if (fault.what.empty()) say("words", "fault {} of {} says nothing", fault.id, kernel.name);
  }

  void case_set(const CaseSet& set) {
    const std::string name = fmt::format("{} '{}'", set.op, set.what);
    if (!all.op(set.op)) return say("case", "case set {}: there is no such op", name);
    if (set.what.empty()) say("words", "a case set of {} does not say what it is for", set.op);
    if (set.sizes.empty() || set.dtypes.empty() || set.fills.empty() || set.options.empty() ||
        set.seeds.empty())
      say("case", "case set {} declares no case", name);
    for (const Fill& fill : set.fills) {
      if (fill.what.empty())
        say("words", "fill {} of {} does not say what it tells apart", fill.name, name);
      if (!fill.row) say("case", "fill {} of {} draws nothing", fill.name, name);
    }
    if (set.zero_share != 0.30 && set.zero_share_why.empty())
      say("case", "case set {} allows {} zeros and does not say why", name, set.zero_share);
    if (set.kernels != "*" && std::ranges::none_of(all.kernels, [&](const KernelDef& k) {
          return k.op == set.op && glob_match(set.kernels, k.name);
        }))
      say("case", "case set {} is for kernels '{}', and there are none", name, set.kernels);
    if (!set.bound && !std::ranges::count(all.bounds, set.op, &BoundDef::op))
      say("bound", "case set {} has no bound", name);
  }

  // Every bound that can be asked for states its derivation: each op, contract, output and option
  // set, once.
  void bounds() {
    std::set<std::string> said;
    for (const Case& problem : expand(all, Lane::Long)) {
      const OpDef* def = all.op(problem.op);
      if (!def || !def->outputs ||
          (!(problem.set && problem.set->bound) &&
           !std::ranges::count(all.bounds, problem.op, &BoundDef::op)))
        continue;
      for (const TensorSpec& spec : def->outputs(problem))
        for (const KernelDef& kernel : all.kernels) {
          const std::vector<Dtype>& dtypes = kernel.contract.dtypes;
          if (kernel.op != problem.op ||
              (!dtypes.empty() && !std::ranges::count(dtypes, problem.dtype)))
            continue;
          const std::string key =
              fmt::format("{} of {} ({}, {}, {})", spec.name, problem.op, name(problem.dtype),
                          kernel.name, name(problem.check));
          if (said.contains(key)) continue;
          const Bound bound = all.bound_of(problem, kernel.contract, spec);
          said.insert(key);
          if (bound.why.empty()) say("bound", "the bound of {} has no derivation (why)", key);
          for (const RoundingTerm& term : bound.roundings)
            if (term.what.empty())
              say("bound", "the bound of {} has a rounding term without a name", key);
        }
    }
  }

  void explanations() {
    for (const Explanation& e : all.explanations) {
      if (!all.op(e.op))
        say("coverage", "an explanation is of op '{}', which does not exist", e.op);
      if (e.why.empty()) say("words", "an explanation of op {} says nothing", e.op);
    }
  }

  void waivers(std::string_view today) {
    std::vector<std::string> ids;
    for (const Case& problem : expand(all, Lane::Long)) {
      ids.push_back(problem.id());
      for (const KernelDef& kernel : all.kernels)
        if (kernel.op == problem.op) ids.push_back(print_id(problem, kernel.name, {}));
    }
    for (const Waiver& waiver : all.waivers) {
      if (waiver.reason.empty() || waiver.owner.empty() || waiver.url.empty() ||
          waiver.expires.empty())
        say("waiver", "waiver '{}' needs a reason, a URL, an owner and an expiry", waiver.id);
      if (waiver.expires.size() != 10)
        say("waiver", "waiver '{}': '{}' is no date (YYYY-MM-DD)", waiver.id, waiver.expires);
      else if (waiver.expires < today)
        say("waiver", "waiver '{}' expired on {} ({})", waiver.id, waiver.expires, waiver.owner);
      if (std::ranges::none_of(ids,
                               [&](const std::string& id) { return glob_match(waiver.id, id); }))
        say("waiver", "waiver '{}' matches no case", waiver.id);
    }
  }
};

struct Given {
  bool write_ledger = false;
  std::string explained = {};  // why bounds were loosened
} given;

}  // namespace

std::vector<Finding> lint(const Registry& all, std::string_view today) {
  Lint lint{all};
  if (all.ops.empty()) lint.say("case", "no op is registered: this executable tests nothing{}", "");
  lint.names();
  for (const OpDef& op : all.ops) lint.op(op);
  for (const KernelDef& kernel : all.kernels) lint.kernel(kernel);
  for (const ChainDef& chain : all.chains) lint.chain(chain);
  for (const CaseSet& set : all.case_sets) lint.case_set(set);
  lint.bounds();
  lint.waivers(today);
  lint.explanations();
  return std::move(lint.findings);
}

namespace {

int check(const Arguments& args) {
  std::vector<Finding> findings = lint(registry(), today());
  std::ranges::move(findings_of(coverage()), std::back_inserter(findings));
  const fs::path file = ledger_file();
  LedgerReport ledger;
  if (!given.explained.empty() && !given.write_ledger)
    throw UsageError("--explained goes with --write-ledger");
  if (!file.empty()) {
    const std::vector<LedgerLine> old =
        fs::exists(file) ? parse_ledger(reports::slurp(file)) : std::vector<LedgerLine>{};
    const bool whole = std::ranges::count(build_info().compiler, "cuda", &NamedText::name) > 0;
    ledger = compare_ledger(registry(), old, given.explained, whole);
    findings.insert(findings.end(), ledger.loosened.begin(), ledger.loosened.end());
    if (given.write_ledger) reports::write_atomically(file, print_ledger(ledger.lines));
  } else if (given.write_ledger) {
    throw UsageError(
        "--write-ledger: no golden folder here, nor beside the executable, that would "
        "say where the sources are");
  }
  const int exit = findings.empty() ? 0 : 2;
  if (args.json) {
    reports::JsonWriter out;
    out.begin_object().field("schema", 1).key("findings").begin_array();
    for (const Finding& finding : findings)
      out.begin_object().field("rule", finding.rule).field("what", finding.what).end_object();
    out.end_array().field("ledger_lines", ledger.lines.size()).field("ledger_new", ledger.unknown);
    print(out.field("exit", exit).end_object().text() + "\n");
    return exit;
  }
  std::string text;
  for (const Finding& finding : findings)
    text += fmt::format("{:<10} {}\n", finding.rule, finding.what);
  const Registry& all = registry();
  text += fmt::format("{} on {} ops, {} kernels, {} case sets, {} waivers; ",
                      reports::count_of(static_cast<std::int64_t>(findings.size()), "finding"),
                      all.ops.size(), all.kernels.size(), all.case_sets.size(), all.waivers.size());
  if (file.empty())
    text += "no ledger of bounds here\n";
  else
    text += fmt::format("{} in the ledger{}\n",
                        reports::count_of(static_cast<std::int64_t>(ledger.lines.size()) -
                                              (given.write_ledger ? 0 : ledger.unknown),
                                          "bound"),
                        ledger.unknown && !given.write_ledger
                            ? fmt::format(", {} not yet: --write-ledger adds them", ledger.unknown)
                            : "");
  print(text);
  return exit;
}

const RegisterVerb verb{{
    .path = "check",
    .what =
        "Lint of what is registered: ops without reference, case or mutant, bounds without a "
        "reason or wider than the ledger (cases/BOUNDS.tsv) has them, expired waivers, holes in "
        "the coverage that nothing explains, colliding names",
    .examples = "  parity check\n"
                "  parity check --write-ledger        bounds that are new or tighter\n"
                "  parity check --write-ledger --explained 'P is kept in bf16 now'",
    .options = {{.names = "--write-ledger",
                 .to = &given.write_ledger,
                 .what = "Bring the ledger of bounds up to date"},
                {.names = "--explained",
                 .to = &given.explained,
                 .what = "Why bounds were loosened; goes into their lines of the ledger"}},
    .call = check,
}};

}  // namespace
}  // namespace parity::cli
