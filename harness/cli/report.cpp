// parity report RUN: the pages of a finished or interrupted run, written again from its records.
#include <filesystem>

#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "reports/reports.hpp"

namespace parity::cli {
namespace {

struct Given {
  std::string run = {}, out = {};
} given;

int report(const Arguments& args) {
  const std::filesystem::path from = given.run;
  const std::filesystem::path to = given.out.empty() ? from : std::filesystem::path(given.out);
  const reports::RunFolder folder = reports::read_run(from);
  std::filesystem::create_directories(to);
  reports::write_reports(folder, to);
  if (args.json)
    print(reports::summary_json(folder, to));
  else
    print(reports::console_header(folder.run) +
          reports::console_result(folder, to, style_of(args)));
  return 0;  // the pages were written; the run's own exit code is in them
}

const RegisterVerb verb{{
    .path = "report",
    .what = "Writes the pages of a finished or interrupted run again",
    .examples = "  parity report parity-out",
    .options = {{.names = "run",
                 .type = "DIR",
                 .to = &given.run,
                 .what = "Folder of a run",
                 .required = true},
                {.names = "--out",
                 .type = "DIR",
                 .to = &given.out,
                 .what = "Where the pages go; default: into the run's folder"}},
    .call = report,
}};

}  // namespace
}  // namespace parity::cli
