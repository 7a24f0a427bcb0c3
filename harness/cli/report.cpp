// parity report RUN: the pages of a finished or interrupted run, written again from its records.
#include <filesystem>

#include "harness/cli/arguments.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "reports/reports.hpp"

namespace parity::cli {

int report(const Arguments& args) {
  if (args.names.size() != 1) throw UsageError("parity report: names one folder of a run");
  const std::filesystem::path from = args.names.front();
  const std::filesystem::path to = args.out.empty() ? from : std::filesystem::path(args.out);
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

}  // namespace parity::cli
