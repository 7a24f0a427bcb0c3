// How often `explain` is right: every fault that the lane kills is explained by the code of others,
// where there is any.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "harness/cli/explain.hpp"
#include "harness/cli/mutate.hpp"
#include "harness/failure.hpp"
#include "harness/mutants.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

constexpr double kNamed = 0.80, kWrong = 0.02;  // shares that are asked for
constexpr std::size_t kFew = 3;  // so many names that cannot be told apart still help

struct Trial {
  const Mutant* mutant = nullptr;
  Subject subject = {};
  Candidate candidate = {};
  Direction direction = Direction::Both;
  Explained explained = {};
  bool others = false;  // the fault was looked for in other code than its own
  std::string trouble = {};
  std::string verdict = {};  // "named", "among few", "among many", "form", "wrong", "open"
};

// A contract's name is for people and may hold commas: "...@kda.base[contract=FLA, bf16]".
std::string contract_in(std::string_view candidate) {
  constexpr std::string_view kBegin = "[contract=";
  const std::size_t begin = candidate.find(kBegin);
  if (begin == std::string_view::npos || !candidate.ends_with(']')) return "";
  candidate.remove_prefix(begin + kBegin.size());
  candidate.remove_suffix(1);
  return std::string(candidate.substr(0, candidate.find(",variation=")));
}

// The contract that the name in "op.base[contract=NAME]" stands for.
Contract contract_named(const OpDef& op, const Case& problem, const std::string& wanted) {
  for (const KernelDef& kernel : registry().kernels) {
    if (kernel.op != op.name || kernel.contract.name != wanted) continue;
    if (std::ranges::find(kernel.contract.dtypes, problem.dtype) == kernel.contract.dtypes.end())
      continue;
    Contract contract = kernel.contract;
    if (!kernel.variants.empty())
      contract.chunk = kernel.variants.front().options.integer("chunk", contract.chunk);
    return contract;
  }
  if (op.contract) return op.contract(problem, {});
  throw Failure(fmt::format("no contract '{}' of {}", wanted, op.name));
}

std::optional<Trial> trial_of(const Mutant& mutant, const MutantRecord& killed) {
  if (mutant.kernel && !mutant.kernel->environment.empty()) return {};  // not loaded here
  const std::size_t at = killed.case_id.find('@');
  const Case problem = resolve(registry(), parse_id(killed.case_id.substr(0, at)));
  if (problem.check != Check::Parity && problem.check != Check::Exact) return {};
  Trial trial{.mutant = &mutant, .subject = subject_of(problem, "")};
  if (mutant.kernel) {
    trial.candidate = candidate_of(*mutant.kernel, parse_id(killed.case_id).kernel_options, problem,
                                   mutant.fault);
  } else {
    // Other noise than that of the variant it is to be found by.
    const int variation = problem.check == Check::Exact ? 0 : kVariants + 1;
    const Contract contract =
        contract_named(*mutant.op, problem, contract_in(killed.case_id.substr(at)));
    trial.candidate = base_candidate(*mutant.op, contract, mutant.fault, variation);
  }
  const auto direction = direction_of(trial.subject, trial.candidate);
  if (!direction) return {};
  trial.direction = *direction;
  return trial;
}

bool is_fault(const Mutant& mutant, const std::string& name) {
  return name == mutant.fault || name == mutant.record.fault ||
         (!mutant.record.alias.empty() && name == mutant.record.alias);
}

// Whether a fault of this name stands in other code of the op than the mutant's own.
bool stands_elsewhere(const Mutant& mutant) {
  const auto has = [&](const std::vector<FaultDef>& faults) {
    return std::ranges::any_of(faults, [&](const FaultDef& f) {
      return f.unsupported.empty() && is_fault(mutant, std::string(f.id));
    });
  };
  if (!mutant.kernel) return false;  // a base is found by itself, at another noise
  if (has(mutant.op->faults)) return true;
  return std::ranges::any_of(registry().kernels, [&](const KernelDef& other) {
    return other.op == mutant.op->name && &other != mutant.kernel && other.environment.empty() &&
           has(other.faults);
  });
}

std::string verdict_of(const Trial& trial) {
  const Explained& e = trial.explained;
  if (!trial.trouble.empty() || (e.cause != Cause::Named && e.cause != Cause::Closest))
    return "open";
  // What was done to a right result is said, not by which fault.
  if (e.ranked.front().kind == "form" && e.equals == 1) return "form";
  std::set<std::string> names;
  bool right = false;
  for (std::size_t i = 0; i < e.equals; ++i) {
    names.insert(e.ranked[i].name);
    right |= is_fault(*trial.mutant, e.ranked[i].name);
  }
  if (!right) return "wrong";
  return names.size() == 1 ? "named" : names.size() <= kFew ? "among few" : "among many";
}

void explain_trial(Trial& trial, const Explainer& explainer) {
  const Mutant& mutant = *trial.mutant;
  trial.others = stands_elsewhere(mutant);
  const Returned returned =
      launch_apart(trial.subject, trial.candidate, trial.direction, trial.subject.inputs(), 20);
  trial.trouble = returned.trouble.reason;
  if (!trial.trouble.empty()) return;
  trial.explained =
      explainer.explain(returned.tensors, [&](const std::string& fault, const std::string& code) {
        const bool own = mutant.kernel && code == mutant.kernel->name;
        return !(own && trial.others && is_fault(mutant, fault));
      });
}

std::string line_of(const Trial& trial) {
  const Explained& e = trial.explained;
  std::string found = trial.trouble;
  for (std::size_t i = 0; found.empty() && i < std::min(e.equals, kFew); ++i)
    found = fmt::format("{}", e.ranked[i].name);
  for (std::size_t i = 1; trial.trouble.empty() && i < std::min(e.equals, kFew); ++i)
    found += fmt::format(" | {}", e.ranked[i].name);
  const double loss = e.ranked.empty() ? 0 : e.ranked.front().distance.loss;
  return fmt::format("{:<11}{:<48} {:<12} {:>9} {:>9}  {}\n", trial.verdict,
                     trial.mutant->record.id, trial.others ? "other code" : "own code",
                     reports::number(loss), reports::number(e.right.loss), reports::visible(found));
}

}  // namespace

int explain_mutants(const Arguments& args) {
  ProgressLine progress(args);
  const MutationReport killed = mutation_report(args, Lane::Smoke, progress);
  const std::vector<Mutant> mutants = mutants_of(registry());
  // Those of one case and contract share its hypotheses.
  std::map<std::string, std::vector<Trial>> groups;
  std::int64_t left_out = 0, not_values = 0;
  for (const MutantRecord& record : killed.mutants) {
    if (record.status != "killed") continue;
    // Values are right, or there are none: the view has named the cause.
    if (record.view == name(View::Accounting) || record.view == name(View::Determinism) ||
        record.view == "crash" || record.view == "timeout") {
      ++not_values;
      continue;
    }
    const auto mutant = std::ranges::find_if(
        mutants, [&](const Mutant& each) { return each.record.id == record.id; });
    std::optional<Trial> trial = mutant == mutants.end() ? std::nullopt : trial_of(*mutant, record);
    if (!trial) {
      ++left_out;
      continue;
    }
    groups[fmt::format("{} {} {}", trial->subject.problem.id(), trial->candidate.contract.key(),
                       name(trial->direction))]
        .push_back(std::move(*trial));
  }
  std::map<std::string, std::int64_t> counts;
  std::int64_t total = 0, done = 0, others = 0, others_named = 0, others_wrong = 0;
  std::string text;
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("mutants").begin_array();
  progress.phase("explaining");
  for (auto& [key, trials] : groups) {
    progress.show({.done = done++, .total = std::ssize(groups), .current = key});
    const Explainer explainer(trials.front().subject, trials.front().candidate.contract,
                              trials.front().direction);
    for (Trial& trial : trials) {
      explain_trial(trial, explainer);
      trial.verdict = verdict_of(trial);
      ++counts[trial.verdict];
      ++total;
      others += trial.others;
      others_named += trial.others && (trial.verdict == "named" || trial.verdict == "among few");
      others_wrong += trial.others && trial.verdict == "wrong";
      if (args.verbose || trial.verdict != "named") text += line_of(trial);
      out.begin_object()
          .field("id", trial.mutant->record.id)
          .field("case", trial.subject.problem.id())
          .field("verdict", trial.verdict)
          .field("other_code", trial.others)
          .field("name", trial.explained.ranked.empty() ? "" : trial.explained.ranked.front().name)
          .end_object();
    }
  }
  progress.clear();
  const auto share = [&](std::int64_t n) {
    return total ? static_cast<double>(n) / static_cast<double>(total) : 0;
  };
  const std::int64_t right = counts["named"] + counts["among few"];
  const int exit = total > 0 && share(right) >= kNamed && share(counts["wrong"]) <= kWrong ? 0 : 4;
  out.end_array()
      .field("explained", total)
      .field("named", counts["named"])
      .field("among_few", counts["among few"])
      .field("among_many", counts["among many"])
      .field("form", counts["form"])
      .field("open", counts["open"])
      .field("wrong", counts["wrong"])
      .field("by_other_code", others)
      .field("by_other_code_named", others_named)
      .field("by_other_code_wrong", others_wrong)
      .field("exit", exit);
  text += fmt::format(
      "{} explained: {} named alone, {} among two or three ({:.1f} % named), {} among more, {} "
      "as a form, {} open, {} wrong ({:.1f} %). Of {} by other code alone {} are "
      "named and {} wrong. Not asked: {} whose values are right or missing, {} that cannot run "
      "here\n",
      reports::count_of(total, "mutant"), counts["named"], counts["among few"], 100 * share(right),
      counts["among many"], counts["form"], counts["open"], counts["wrong"],
      100 * share(counts["wrong"]), others, others_named, others_wrong, not_values, left_out);
  print(args.json ? out.end_object().text() + "\n" : text);
  return exit;
}

}  // namespace parity::cli
