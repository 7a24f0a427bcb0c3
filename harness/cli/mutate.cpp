// parity mutate: the kill table and the false alarms.
#include "harness/cli/mutate.hpp"

#include <fmt/format.h>

#include "harness/cli/candidates.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "harness/suite.hpp"
#include "reports/json_writer.hpp"
#include "reports/reports.hpp"

namespace parity::cli {
namespace {

std::string json(const MutationReport& report) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("mutants").begin_array();
  for (const MutantRecord& mutant : report.mutants) {
    out.begin_object().field("id", mutant.id).field("op", mutant.op).field("fault", mutant.fault);
    if (!mutant.alias.empty()) out.field("alias", mutant.alias);
    out.field("what", mutant.what)
        .field("status", mutant.status)
        .field("killed", mutant.status == "killed");
    out.field("case", mutant.case_id)
        .field("view", mutant.view)
        .field("margin", mutant.margin)
        .field("reason", mutant.reason);
    out.end_object();
  }
  out.end_array().key("clean").begin_object();
  out.field("cases", report.summary.clean)
      .field("false_alarms", report.summary.false_alarms)
      .field("ids", report.false_alarm_ids);
  return out.end_object().field("exit", report.exit).end_object().text() + "\n";
}

}  // namespace

MutationReport mutation_report(const Arguments& args, Lane lane, ProgressLine& progress) {
  MutateOptions options;
  options.suite = suite_options(args);
  options.lane = lane;
  options.elsewhere = unloaded_with_faults();
  if (!args.only.empty()) options.only = args.only.front();
  if (args.clean >= 0) options.clean_minimum = args.clean;
  progress.phase("mutants");
  MutationReport report = parity::mutate(options, [&](const Progress& at) { progress.show(at); });
  progress.clear();
  if (report.mutants.empty() && report.summary.clean == 0 && !args.only.empty())
    throw UsageError(
        fmt::format("--only {}: no mutant and no case matches; `parity list --json` "
                    "has the ids of all mutants",
                    args.only.front()));
  return report;
}

int mutate(const Arguments& args) {
  load_plugins();
  ProgressLine progress(args);
  const MutationReport report = mutation_report(args, lane_of(args, Lane::Smoke), progress);
  if (args.json) {
    print(json(report));
    return report.exit;
  }
  std::string text = reports::console_mutants(report.mutants, report.summary, style_of(args));
  for (const std::string& id : report.false_alarm_ids) text += fmt::format("false alarm  {}\n", id);
  print(text);
  return report.exit;
}

}  // namespace parity::cli
