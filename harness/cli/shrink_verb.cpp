// parity shrink ID: the smallest case on which the candidate still fails, as a line and a file.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>

#include "harness/cli/candidates.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/shrink.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

constexpr double kMargin = 2;  // a case must stay this far beyond its limit, where it was
constexpr double kTrial = 15;  // seconds of one trial

struct Given {
  std::string save = "parity-shrunk.txt";
} given;

double margin_of(const CaseRecord& record) {
  double margin = 0;
  for (const TensorRecord& tensor : record.tensors)
    for (const ViewResult& view : tensor.views)
      if (!view.ok)
        if (const double beyond = reports::excess(view); !(beyond <= margin)) margin = beyond;
  return margin;
}

class Trials {
 public:
  explicit Trials(Arguments args) : args_(std::move(args)) {
    args_.names.clear();
    args_.from.clear();
    args_.only.clear();
    args_.timeout_s = std::min(args_.timeout_s, kTrial);
    options_ = suite_options(with_grace(args_));
    options_.details = false;
    options_.waive = false;
  }

  // The one candidate that the case is about; its record.
  CaseRecord start(const Subject& subject, const Candidate& candidate) {
    kernel_ = candidate.name;
    kernel_options_ = candidate.options;
    CaseRecord record = judge(subject.problem).value_or(CaseRecord{});
    status_ = record.status;
    error_kind_ = record.error_kind;
    const double margin = margin_of(record);
    least_margin_ = std::isnan(margin) ? 0 : std::min(kMargin, margin);
    return record;
  }
  bool fails(const Case& problem) {
    const std::optional<CaseRecord> record = judge(problem);
    if (!record || record->status != status_ || record->error_kind != error_kind_) return false;
    return status_ != "fail" || !(margin_of(*record) < least_margin_);
  }
  std::string id(const Case& problem) const {
    return print_id(problem, args_.exec.empty() ? kernel_ : "", kernel_options_);
  }
  // Nothing where there is no such case, or where the base itself does not pass it: then the case
  // is at fault.
  std::optional<CaseRecord> judge(const Case& problem) {
    std::vector<Subject> subjects;
    Arguments args = args_;
    args.names = {id(problem)};
    try {
      subjects = candidates_of(args, Lane::Long);
    } catch (const std::exception&) {
      return {};
    }
    std::erase_if(subjects, [&](const Subject& s) { return s.problem.id() != problem.id(); });
    if (subjects.empty() || subjects.front().candidates.empty()) return {};
    Subject& subject = subjects.front();
    const OpDef& op = registry().op_or_throw(problem.op);
    if (op.base)
      subject.candidates.push_back(base_candidate(op, subject.candidates.front().contract, ""));
    std::vector<CaseRecord> records;
    run_suite({subject}, options_, [&](const CaseRecord& r) { records.push_back(r); });
    if (records.size() != subject.candidates.size()) return {};
    const bool sound =
        !op.base || records.back().status == "pass" || records.back().status == "unproven";
    if (!sound) return {};
    if (!args.exec.empty()) amend_command(records.front(), "parity run", args);
    return records.front();
  }

 private:
  Arguments args_;
  SuiteOptions options_ = {};
  std::string kernel_ = {}, status_ = {}, error_kind_ = {};
  Options kernel_options_ = {};
  double least_margin_ = 0;
};

std::vector<std::string> float_inputs(const Case& problem) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : registry().op_or_throw(problem.op).inputs(problem))
    if (format(spec.dtype).is_float) names.push_back(spec.name);
  return names;
}

int shrink_verb(const Arguments& args) {
  if (args.names.empty() && args.from.empty())
    throw UsageError("parity shrink: the id of a case is missing, as a failing run prints it");
  const std::vector<Subject> subjects = candidates_of(args, lane_of(args, Lane::Smoke));
  if (subjects.size() != 1 || subjects.front().candidates.size() != 1)
    throw UsageError("parity shrink: one case and one kernel, as 'op/sizes/dtype/fill/s0@kernel'");
  const Subject& subject = subjects.front();
  Trials trials(args);
  const CaseRecord first = trials.start(subject, subject.candidates.front());
  if (first.status != "fail" && first.status != "error") {
    complain(fmt::format("{}: {}, so there is nothing to shrink", args.names.front(),
                         first.status.empty() ? "its base does not pass it" : first.status));
    return 4;
  }
  const auto begin = std::chrono::steady_clock::now();
  const Shrunk shrunk = shrink(
      subject.problem, [&](const Case& problem) { return trials.fails(problem); }, float_inputs);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const CaseRecord last = trials.judge(shrunk.problem).value_or(first);
  const std::string text = fmt::format("# {}\n# smallest failing case of {}\n{}\n", last.repro,
                                       print_id(subject.problem, subject.candidates.front().name,
                                                subject.candidates.front().options),
                                       trials.id(shrunk.problem));
  reports::write_atomically(given.save, text);
  if (args.json) {
    reports::JsonWriter out;
    out.begin_object()
        .field("schema", 1)
        .field("from", first.id)
        .field("to", last.id)
        .field("status", last.status)
        .field("view", last.view)
        .field("trials", shrunk.trials)
        .field("complete", shrunk.complete)
        .field("repro", last.repro)
        .field("file", given.save)
        .field("exit", 0);
    print(out.end_object().text() + "\n");
    return 0;
  }
  print(reports::console_row(last, style_of(args)) +
        fmt::format(
            "    was      {}\n    repro    {}\n    file     {} ({})\n    tried    {} in {}{}\n",
            first.id, last.repro, given.save,
            reports::bytes_of(static_cast<std::int64_t>(text.size())),
            reports::count_of(shrunk.trials, "case"), reports::duration(took.count()),
            shrunk.complete ? "" : "; the limit of trials or time ended it"));
  return 0;
}

const RegisterVerb verb{{
    .path = "shrink",
    .what = "The smallest case on which a candidate still fails: sizes, then values, then options",
    .examples =
        "  parity shrink 'l2norm/N44,D128/f32/small_rows/s0@l2norm.mine'\n"
        "  parity shrink 'l2norm/N44,D128/f32/small_rows/s0' --exec 'python3 mine.py {in} {out}'\n"
        "  parity run --from parity-shrunk.txt      what it wrote, with the same --fault, "
        "--plugin\n"
        "                                           or --exec\n"
        "A trial counts where the op's base passes the case and the candidate fails it at least\n"
        "twice its limit (where it did so before). Exit: 0; 4 the case does not fail.",
    .options = {{.names = "--save",
                 .type = "FILE",
                 .to = &given.save,
                 .what = "Where the id is written for `parity run --from`; default: "
                         "parity-shrunk.txt"}},
    .shared = {.cases = true, .candidate = true, .execution = true},
    .call = shrink_verb,
}};

}  // namespace
}  // namespace parity::cli
