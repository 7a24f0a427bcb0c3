// parity explain ID: why a candidate differs from the truth, by the named variant of the reference
// that comes closest to it.
#include "harness/cli/explain.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "harness/cli/candidates.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

struct Given {
  bool all_mutants = false;
} given;

std::string labelled(std::string_view label, std::string_view text) {
  return fmt::format("    {:<9}{}\n", label, reports::visible(text));
}

// One candidate that fails, and what came out.
struct Answer {
  const Candidate* candidate = nullptr;
  CaseRecord record = {};
  Explained explained = {};
  std::string trouble = {};  // why nothing could be said
};

Answer explain_one(const Subject& subject, const Candidate& candidate, CaseRecord record,
                   double seconds) {
  Answer answer{.candidate = &candidate, .record = std::move(record)};
  const std::optional<Direction> direction = direction_of(subject, candidate);
  if (subject.check != Check::Parity && subject.check != Check::Exact)
    answer.trouble = fmt::format("check '{}' compares no values", name(subject.check));
  else if (!direction)
    answer.trouble = "it has no such direction";
  if (!answer.trouble.empty()) return answer;
  const Returned returned = launch_apart(subject, candidate, *direction, subject.inputs(), seconds);
  if (!returned.trouble.kind.empty()) {
    answer.trouble = returned.trouble.reason;
    return answer;
  }
  answer.explained = Explainer(subject, candidate.contract, *direction).explain(returned.tensors);
  return answer;
}

std::string text_of(const Answer& answer, const reports::ConsoleStyle& style) {
  std::string text = reports::console_row(answer.record, style);
  if (!answer.trouble.empty()) return text + labelled("no cause", answer.trouble);
  const Explained& e = answer.explained;
  const bool told = e.cause == Cause::Named || e.cause == Cause::Closest;
  for (std::size_t i = 0; told && i < e.equals; ++i)
    text += fmt::format("{:<11} {}\n", i ? "  or" : word(e.cause), named(e.ranked[i]));
  if (!told)
    text += fmt::format("{:<11} {}\n", word(e.cause),
                        e.cause == Cause::Noise
                            ? "no further from its contract than legal evaluations are"
                            : "none of the variants tried is near it");
  if (told) text += labelled("that is", measured(e.ranked.front().distance));
  text += labelled("contract",
                   fmt::format("{}: {}", answer.candidate->contract.name, measured(e.right)));
  const std::size_t first = told ? e.equals : 0;
  for (std::size_t i = first; i < std::min(first + 2, e.ranked.size()); ++i)
    text += labelled(
        i == first ? "next" : "",
        fmt::format("{:.3g} noise units: {}", e.ranked[i].distance.units(), named(e.ranked[i])));
  if (const TensorRecord* tensor = reports::telling_tensor(answer.record);
      tensor && tensor->status == "fail")
    text += labelled("where", tensor->name + ": " + reports::where_failed(*tensor));
  return text + labelled("tried", reports::count_of(e.tried, "variant") + " that differ here");
}

void json_of(const Answer& answer, reports::JsonWriter& out) {
  out.begin_object()
      .field("id", answer.record.id)
      .field("status", answer.record.status)
      .field("cause", answer.trouble.empty() ? word(answer.explained.cause) : "none")
      .field("reason", answer.trouble);
  out.field("units_from_contract", answer.explained.right.units())
      .field("equals", static_cast<std::int64_t>(answer.explained.equals))
      .key("ranked")
      .begin_array();
  for (const Hypothesis& h : answer.explained.ranked)
    out.begin_object()
        .field("kind", h.kind)
        .field("name", h.name)
        .field("what", h.what)
        .field("code", h.code)
        .field("units", h.distance.units())
        .field("share_equal", h.distance.share_equal())
        .field("rel_l2", h.distance.rel_l2())
        .end_object();
  out.end_array().end_object();
}

int exit_of(const std::vector<Answer>& answers) {
  int exit = 0;
  for (const Answer& answer : answers) {
    const bool open = !answer.trouble.empty() || answer.explained.cause == Cause::Unknown ||
                      answer.explained.cause == Cause::Closest;
    if (answer.record.status == "error")
      exit = worse_exit(exit, 3);
    else if (open)
      exit = worse_exit(exit, 4);
  }
  return exit;
}

int explain_verb(const Arguments& args) {
  if (given.all_mutants) return explain_mutants(args);
  if (args.names.empty() && args.from.empty())
    throw UsageError("parity explain: the id of a case is missing, as a failing run prints it");
  const Lane lane = lane_of(args, Lane::Smoke);
  const std::vector<Subject> subjects = candidates_of(args, lane);
  std::size_t asked = 0;
  for (const Subject& subject : subjects) asked += subject.candidates.size();
  std::vector<Answer> answers;
  for (const Subject& subject : subjects) {
    std::vector<CaseRecord> records;
    run_suite({subject}, suite_options(with_grace(args)),
              [&](const CaseRecord& record) { records.push_back(record); });
    for (CaseRecord& record : records) {
      const auto candidate = std::ranges::find_if(subject.candidates, [&](const Candidate& each) {
        return print_id(subject.problem, each.name, each.options) == record.id;
      });
      const bool failed = record.status == "fail" || record.status == "error";
      if (candidate != subject.candidates.end() && (failed || asked == 1))
        answers.push_back(explain_one(subject, *candidate, std::move(record), args.timeout_s));
    }
  }
  const int exit = exit_of(answers);
  if (args.json) {
    reports::JsonWriter out;
    out.begin_object().field("schema", 1).key("explanations").begin_array();
    for (const Answer& answer : answers) json_of(answer, out);
    print(out.end_array().field("exit", exit).end_object().text() + "\n");
    return exit;
  }
  std::string text;
  for (const Answer& answer : answers) text += text_of(answer, style_of(args));
  if (answers.empty())
    text = fmt::format("nothing fails: {} judged\n",
                       reports::count_of(static_cast<std::int64_t>(asked), "candidate"));
  print(text);
  return exit;
}

const RegisterVerb verb{{
    .path = "explain",
    .what =
        "Why a candidate differs: named variants of the reference (other arithmetic, the faults of "
        "the catalogue, right results in the wrong place), and which of them it is",
    .examples =
        "  parity explain 'l2norm/N44,D128/f32/small_rows/s0@l2norm.mine'\n"
        "  parity explain 'l2norm/*' --plugin ./mine.so    every case that fails\n"
        "  parity explain --all-mutants                    how often it is right: each fault that\n"
        "                                                  the smoke lane kills\n"
        "Exit: 0 every difference has a cause; 4 one has none; 3 a candidate died.",
    .options = {{.names = "--all-mutants",
                 .to = &given.all_mutants,
                 .what = "Explain every mutant by the code of others, and print how often the "
                         "right fault is named"}},
    .shared = {.cases = true, .candidate = true, .execution = true},
    .call = explain_verb,
}};

}  // namespace

std::string_view word(Cause cause) {
  switch (cause) {
    case Cause::Noise:
      return "noise";
    case Cause::Named:
      return "explained";
    case Cause::Closest:
      return "closest";
    case Cause::Unknown:
      return "unexplained";
  }
  return "";
}

std::string named(const Hypothesis& h) {
  return h.name + (h.what.empty() ? "" : ": " + h.what) +
         (h.code.empty() ? "" : " (" + h.code + ")");
}

std::string measured(const Distance& d) {
  return fmt::format(
      "{:.3g} noise units away, {:.3g} % of elements equal bit for bit, rel L2 {:.2g}", d.units(),
      100 * d.share_equal(), d.rel_l2());
}

}  // namespace parity::cli
