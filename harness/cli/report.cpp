// parity report RUN…: the pages of a finished or interrupted run, or of the parts of one, written
// again from its records; judged by other bounds where that is asked.
#include <filesystem>
#include <fmt/format.h>

#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "reports/reports.hpp"
#include "reports/runs.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

struct Given {
  std::vector<std::string> runs = {};
  std::string out = {}, bounds = {};
  bool propose = false, gate = false;
} given;

// A folder that holds what the parts held: it is a run itself.
void write_records(const reports::RunFolder& folder, const fs::path& to) {
  reports::RecordWriter writer(to, folder.run, /*resume=*/false);
  for (const CaseRecord& record : folder.cases) writer.write(record);
  for (const MutantRecord& mutant : folder.mutants) writer.write(mutant);
  if (folder.mutation) writer.write(*folder.mutation);
  for (const reports::Complaint& complaint : folder.complaints) writer.write(complaint);
}

int print_proposals(const std::vector<reports::RunFolder>& runs) {
  std::string text =
      "# bounds of which no record uses a quarter, and twice what was used: lines "
      "for `parity report RUN --bounds FILE`\n";
  for (const reports::Proposal& p : reports::propose(runs))
    text +=
        fmt::format("{}\t{}\t{:.2g}\t# {} records, at most {} used\n", p.widening.id,
                    p.widening.tensor, p.widening.factor, p.records, reports::number(p.most_used));
  print(text);
  return 0;
}

int report(const Arguments& args) {
  std::vector<reports::RunFolder> runs;
  for (const std::string& run : given.runs) runs.push_back(reports::read_run(run));
  if (given.propose) return print_proposals(runs);
  if (runs.size() > 1 && given.out.empty())
    throw UsageError("parity report: several runs are put together in the folder of --out");
  reports::RunFolder folder = runs.size() > 1 ? reports::merged(runs) : std::move(runs.front());
  if (!given.bounds.empty()) {
    if (given.out.empty())
      throw UsageError("parity report --bounds: give --out, the run itself is left as it was");
    const reports::Rejudged result = reports::rejudge(
        folder, reports::parse_widenings(reports::slurp(given.bounds), given.bounds));
    complain(fmt::format("{} asked by {}, {} changed, {} cannot be judged again",
                         reports::count_of(result.asked, "record"), given.bounds, result.changed,
                         result.cannot.size()));
    for (const std::string& why : result.cannot) complain("  " + why);
  }
  const fs::path to = given.out.empty() ? fs::path(given.runs.front()) : fs::path(given.out);
  fs::create_directories(to);
  if (!given.out.empty()) write_records(folder, to);
  reports::write_reports(folder, to);
  if (args.json)
    print(reports::summary_json(folder, to));
  else
    print(reports::console_header(folder.run) +
          reports::console_result(folder, to, style_of(args)));
  return given.gate ? folder.exit : 0;
}

const RegisterVerb verb{{
    .path = "report",
    .what = "Writes the pages of a finished or interrupted run again, or of several put together",
    .examples =
        "  parity report parity-out\n"
        "  parity report shard-*/ --out all --gate     parts of one run, and its exit code\n"
        "  parity report parity-out --bounds tighter.txt --out tighter\n"
        "  parity report nightly/* --propose-bounds > tighter.txt\n"
        "Exit: 0 the pages were written; with --gate that of the run.",
    .options = {{.names = "runs",
                 .type = "DIR",
                 .to = &given.runs,
                 .what = "Folders of runs",
                 .required = true,
                 .most_words = 4096},
                {.names = "--out",
                 .type = "DIR",
                 .to = &given.out,
                 .what = "Where the pages go, and the records with them; default: into the run's "
                         "folder"},
                {.names = "--gate", .to = &given.gate, .what = "End with the exit code of the run"},
                {.names = "--bounds",
                 .type = "FILE",
                 .to = &given.bounds,
                 .what = "Judge again with bounds so many times as wide: lines 'ID_GLOB "
                         "TENSOR_GLOB FACTOR'; nothing is run"},
                {.names = "--propose-bounds",
                 .to = &given.propose,
                 .what = "Print bounds that could be tighter: twenty records, none of which uses a "
                         "quarter"}},
    .call = report,
}};

}  // namespace
}  // namespace parity::cli
