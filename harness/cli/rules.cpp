// parity rules: the rules of others on the mutants and clean variants of this gate: what each of
// them would have caught, and what it would have refused wrongly.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "harness/cli/mutate.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "harness/hypotheses.hpp"
#include "harness/mutants.hpp"
#include "harness/rival_rules.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

constexpr double kLaunch = 20;  // seconds of a kernel with a fault

// Which rules refuse what a candidate returned. Codes and ids have one right answer for all.
std::vector<bool> refused_by(const Tensors& got, const Known& known) {
  const std::span<const RivalRule> rules = rival_rules();
  std::vector<bool> refused(rules.size());
  for (const ExpectedTensor& truth : known.expected.tensors) {
    const Tensor* tensor = got.find(truth.spec.name);
    if (!tensor) continue;
    if (!truth.bits.empty()) {
      for (std::int64_t i = 0; i < tensor->elements(); ++i)
        if ((truth.ignore.empty() || !truth.ignore[static_cast<std::size_t>(i)]) &&
            load_code(truth.spec.dtype, tensor->bytes.data(), i) !=
                load_code(truth.spec.dtype, truth.bits.data(), i))
          refused.assign(rules.size(), true);
      continue;
    }
    const Values* base = known.base.find(0, truth.spec.name);
    const std::vector<double> candidate = tensor->widened();
    if (!base || base->value.size() != candidate.size() || candidate.size() != truth.value.size() ||
        !truth.ignore.empty())
      continue;
    for (std::size_t r = 0; r < rules.size(); ++r)
      if (!refused[r])
        refused[r] = !rules[r].passes({candidate, truth.value, base->value, truth.spec.dtype});
  }
  return refused;
}

struct Scores {
  std::map<std::size_t, std::vector<bool>> killed = {};  // by mutant
  std::vector<std::int64_t> alarms = std::vector<std::int64_t>(rival_rules().size());
  std::int64_t clean = 0;
};

// All candidates of one case; a mutant that every rule has refused is not asked again.
void judge_subject(const Subject& subject, const std::vector<MutationPlan::Slot>& slots,
                   Scores& scores) {
  if (subject.check == Check::Bitwise) return;
  std::vector<std::size_t> todo(subject.candidates.size());
  for (std::size_t i = 0; i < todo.size(); ++i) todo[i] = i;
  Groundwork ground(subject, wants_gradients(subject, todo));
  for (std::size_t c = 0; c < slots.size(); ++c) {
    const Candidate& candidate = subject.candidates[c];
    const auto direction = direction_of(subject, candidate);
    const auto all_killed = [&](std::size_t mutant) {
      return std::ranges::all_of(scores.killed[mutant], [](bool k) { return k; });
    };
    if (!direction || !candidate.run || !candidate.unsupported.empty()) continue;
    if (!slots[c].clean && std::ranges::all_of(slots[c].mutants, all_killed)) continue;
    const Known known = ground.known(candidate.contract);
    const Returned returned = launch_apart(subject, candidate, *direction, known.inputs, kLaunch);
    if (returned.tensors.empty() && slots[c].clean) continue;
    // Whatever rule there is, a kernel that dies is seen.
    const std::vector<bool> refused = returned.tensors.empty()
                                          ? std::vector<bool>(rival_rules().size(), true)
                                          : refused_by(returned.tensors, known);
    scores.clean += slots[c].clean;
    for (std::size_t r = 0; r < refused.size(); ++r) {
      if (!refused[r]) continue;
      if (slots[c].clean) ++scores.alarms[r];
      for (const std::size_t m : slots[c].mutants) scores.killed[m][r] = true;
    }
  }
}

int rules_verb(const Arguments& args) {
  ProgressLine progress(args);
  const MutationReport ours = mutation_report(args, Lane::Smoke, progress);
  std::vector<Mutant> mutants = mutants_of(registry());
  std::set<std::string> judged;  // those that parity kills or lets live
  for (const MutantRecord& record : ours.mutants)
    if (record.status == "killed" || record.status == "survived") judged.insert(record.id);
  std::erase_if(mutants, [&](const Mutant& m) { return !judged.contains(m.record.id); });
  std::set<std::string> ops;
  Scores scores;
  for (std::size_t m = 0; m < mutants.size(); ++m) {
    ops.insert(mutants[m].record.op);
    scores.killed[m].assign(rival_rules().size(), false);
  }
  std::vector<Case> cases = expand(registry(), Lane::Smoke);
  std::erase_if(cases, [&](const Case& c) {
    return !ops.contains(c.op) || (c.check != Check::Parity && c.check != Check::Exact);
  });
  MutateOptions options;
  options.lane = Lane::Smoke;
  options.clean_minimum = options.clean_minimum_per_op = args.clean >= 0 ? args.clean : 100;
  MutationPlanner planner(registry(), cases, options);
  progress.phase("rules");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.show({.done = static_cast<std::int64_t>(i),
                   .total = std::ssize(cases),
                   .current = cases[i].id()});
    const MutationPlan plan = planner.plan(mutants, std::span(cases).subspan(i, 1));
    for (std::size_t s = 0; s < plan.subjects.size(); ++s) {
      try {
        judge_subject(plan.subjects[s], plan.slots[s], scores);
      } catch (const std::exception& error) {
        throw Failure(fmt::format("{}: {}", cases[i].id(), error.what()));
      }
    }
  }
  progress.clear();
  const auto total = static_cast<double>(std::max<std::size_t>(mutants.size(), 1));
  const auto share = [](double n, double of) { return of > 0 ? 100 * n / of : 0; };
  std::string text = fmt::format("{:<16}{:<38}{:>18}{:>24}\n", "rule", "used by", "mutants caught",
                                 "clean variants refused");
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("rules").begin_array();
  const auto line = [&](std::string_view name, std::string_view where, std::int64_t killed,
                        std::int64_t alarms, std::int64_t clean) {
    text += fmt::format("{:<16}{:<38}{:>9} {:>6.1f} %{:>14} {:>7.2f} %\n", name, where, killed,
                        share(static_cast<double>(killed), total), alarms,
                        share(static_cast<double>(alarms), static_cast<double>(clean)));
    out.begin_object()
        .field("rule", name)
        .field("used_by", where)
        .field("killed", killed)
        .field("mutants", std::ssize(mutants))
        .field("false_alarms", alarms)
        .field("clean", clean)
        .end_object();
  };
  for (std::size_t r = 0; r < rival_rules().size(); ++r) {
    const std::int64_t killed =
        std::ranges::count_if(scores.killed, [&](const auto& mutant) { return mutant.second[r]; });
    line(rival_rules()[r].name, rival_rules()[r].where, killed, scores.alarms[r], scores.clean);
  }
  std::int64_t own = 0;
  for (const MutantRecord& record : ours.mutants)
    own += record.status == "killed" &&
           std::ranges::any_of(mutants, [&](const Mutant& m) { return m.record.id == record.id; });
  line("parity", "here", own, ours.summary.false_alarms, ours.summary.clean);
  text += fmt::format("{} on the cases of the smoke lane; a rule may refuse on any of them\n",
                      reports::count_of(std::ssize(mutants), "mutant"));
  print(args.json ? out.end_array().end_object().text() + "\n" : text);
  return 0;
}

const RegisterVerb verb{{
    .path = "rules",
    .what = "Rules by which others accept a kernel, on the mutants and clean variants of this gate",
    .examples = "  parity rules                       minutes\n"
                "  parity rules --only 'l2norm*'      of one op, in seconds",
    .shared = {.selection = true, .execution = true},
    .call = rules_verb,
}};

}  // namespace
}  // namespace parity::cli
