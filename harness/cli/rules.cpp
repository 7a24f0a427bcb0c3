// parity rules: the rules of others on the mutants and clean variants of this gate: what each of
// them would have caught, and what it would have refused wrongly.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "harness/cli/select.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "harness/hypotheses.hpp"
#include "harness/mutants.hpp"
#include "harness/rival_rules.hpp"
#include "harness/walk.hpp"
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

// The rules of others, and last the verdict of this gate on the same values.
const std::size_t kRules = rival_rules().size() + 1;

struct Scores {
  std::map<std::size_t, std::vector<bool>> killed = {};  // by mutant; those that were tried
  std::vector<std::int64_t> alarms = std::vector<std::int64_t>(kRules);
  std::int64_t clean = 0;
};

std::vector<bool> judged(const Subject& subject, const Candidate& candidate, const Known& known,
                         const Returned& returned) {
  // Whatever rule there is, a kernel that dies is seen.
  if (returned.tensors.empty()) return std::vector<bool>(kRules, true);
  std::vector<bool> refused = refused_by(returned.tensors, known);
  Candidate shown = candidate;
  shown.stored = true;  // its values alone, as the others see them
  shown.run = [&](const RunRequest&) { return Observed{.tensors = returned.tensors}; };
  const CaseRecord record = run_case(subject, shown, known, {.details = false, .waive = false});
  refused.push_back(record.status == name(Status::Fail));
  return refused;
}

// All candidates of one case; a mutant that every rule has refused is not asked again.
void judge_subject(const Subject& subject, const std::vector<MutationPlan::Slot>& slots,
                   Scores& scores) {
  std::vector<std::size_t> todo(subject.candidates.size());
  for (std::size_t i = 0; i < todo.size(); ++i) todo[i] = i;
  Groundwork ground(subject, wants_gradients(subject, todo));
  for (std::size_t c = 0; c < slots.size(); ++c) {
    const Candidate& candidate = subject.candidates[c];
    const auto direction = direction_of(subject, candidate);
    const auto all_killed = [&](std::size_t mutant) {
      const auto tried = scores.killed.find(mutant);
      return tried != scores.killed.end() &&
             std::ranges::all_of(tried->second, [](bool k) { return k; });
    };
    if (!direction || !candidate.run || !candidate.unsupported.empty()) continue;
    if (!slots[c].clean && std::ranges::all_of(slots[c].mutants, all_killed)) continue;
    const Known known = ground.known(candidate.contract);
    const Returned returned = launch_apart(subject, candidate, *direction, known.inputs, kLaunch);
    if (returned.tensors.empty() && slots[c].clean) continue;
    const std::vector<bool> refused = judged(subject, candidate, known, returned);
    scores.clean += slots[c].clean;
    for (const std::size_t m : slots[c].mutants)
      scores.killed.try_emplace(m, std::vector<bool>(kRules));
    for (std::size_t r = 0; r < refused.size(); ++r) {
      if (!refused[r]) continue;
      if (slots[c].clean) ++scores.alarms[r];
      for (const std::size_t m : slots[c].mutants) scores.killed[m][r] = true;
    }
  }
}

// Cases of values in the smoke lane that the arguments name.
std::vector<Case> cases_of(const Arguments& args) {
  std::vector<Case> cases = expand(registry(), lane_of(args, Lane::Smoke));
  const std::vector<std::string> globs = patterns_of(args);
  std::erase_if(cases, [&](const Case& c) {
    const bool named = globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
                         return glob_match(glob, c.id());
                       });
    return !named || (c.check != Check::Parity && c.check != Check::Exact);
  });
  if (cases.empty()) throw UsageError("parity rules: no case of values is named");
  return cases;
}

std::string table(const Scores& scores, bool json) {
  const auto total = static_cast<std::int64_t>(scores.killed.size());
  const auto share = [](std::int64_t n, std::int64_t of) {
    return of > 0 ? 100 * static_cast<double>(n) / static_cast<double>(of) : 0;
  };
  std::string text = fmt::format("{:<16}{:<38}{:>18}{:>24}\n", "rule", "used by", "mutants caught",
                                 "clean variants refused");
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("rules").begin_array();
  for (std::size_t r = 0; r < kRules; ++r) {
    const bool here = r + 1 == kRules;
    const std::string_view rule = here ? "parity" : rival_rules()[r].name,
                           where = here ? "here, by values alone" : rival_rules()[r].where;
    const std::int64_t killed =
        std::ranges::count_if(scores.killed, [&](const auto& mutant) { return mutant.second[r]; });
    text +=
        fmt::format("{:<16}{:<38}{:>9} {:>6.1f} %{:>14} {:>7.2f} %\n", rule, where, killed,
                    share(killed, total), scores.alarms[r], share(scores.alarms[r], scores.clean));
    out.begin_object()
        .field("rule", rule)
        .field("used_by", where)
        .field("killed", killed)
        .field("mutants", total)
        .field("false_alarms", scores.alarms[r])
        .field("clean", scores.clean)
        .end_object();
  }
  if (json) return out.end_array().end_object().text() + "\n";
  return text + fmt::format("{}, {}; a rule may refuse a mutant on any of the cases\n",
                            reports::count_of(total, "mutant"),
                            reports::count_of(scores.clean, "clean variant"));
}

int rules_verb(const Arguments& args) {
  const std::vector<Case> cases = cases_of(args);
  const std::vector<Mutant> mutants = mutants_of(registry());
  MutateOptions options;
  options.clean_minimum = options.clean_minimum_per_op = 100;
  MutationPlanner planner(registry(), cases, options);
  Scores scores;
  ProgressLine progress(args);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.show({.done = static_cast<std::int64_t>(i),
                   .total = std::ssize(cases),
                   .current = cases[i].id()});
    const MutationPlan plan = planner.plan(mutants, std::span(cases).subspan(i, 1));
    for (std::size_t s = 0; s < plan.subjects.size(); ++s)
      judge_subject(plan.subjects[s], plan.slots[s], scores);
  }
  progress.clear();
  print(table(scores, args.json));
  return 0;
}

const RegisterVerb verb{{
    .path = "rules",
    .what = "Rules by which others accept a kernel, on the mutants and clean variants of this gate",
    .examples = "  parity rules                         minutes\n"
                "  parity rules 'kda/*/normal/*'        on ordinary inputs of one op",
    .shared = {.selection = true, .execution = true},
    .call = rules_verb,
}};

}  // namespace
}  // namespace parity::cli
