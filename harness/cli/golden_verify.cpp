// parity golden verify: that files are what was frozen, and then the reference (and with --kernel a
// kernel) judged against the truth that they hold. With --digests the first alone.
#include <algorithm>
#include <fmt/format.h>

#include "golden/golden.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/session.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/reports.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

struct VerifiedFile {
  std::string file = {}, family = {}, refused = {};
  std::vector<CaseRecord> records = {};
  int exit = 4;
};

// A file's wholeness as a record: unproven where nothing says what it should be.
CaseRecord whole(const std::string& file, const golden::Integrity& integrity) {
  CaseRecord record{.id = file, .check = "golden", .status = "pass"};
  record.reason =
      fmt::format("{}: {}, {}", integrity.by, reports::count_of(integrity.digests, "digest"),
                  reports::bytes_of(integrity.bytes));
  if (integrity.by.empty()) {
    record.status = "unproven";
    record.reason = "no manifest covers it, and it carries no digests";
  }
  record.repro = "parity golden verify --digests " + shell_word(file);
  return record;
}

VerifiedFile verify_file(const Arguments& args, const std::string& file, ProgressLine& progress) {
  VerifiedFile verified{.file = file};
  Arguments filters = args;
  filters.names.clear();  // they are files, not ids
  try {
    const golden::Integrity integrity = golden::check_integrity(file);
    verified.family = golden::name(golden::family_of(golden::stored_cases(file)));
    if (args.digests) {
      verified.records.push_back(whole(file, integrity));
      Tally tally;
      tally.add(verified.records.back());
      verified.exit = tally.exit();
      return verified;
    }
    const std::vector<Subject> subjects =
        narrow(golden::verify_subjects(file, args.kernel), filters);
    progress.phase(file);
    Tally tally;
    const Session::Amend amend = from_golden(file);
    run_suite(
        subjects, suite_options(args),
        [&](CaseRecord record) {
          amend(record);
          tally.add(record);
          verified.records.push_back(std::move(record));
        },
        [&](const Progress& at) { progress.show(at); });
    verified.exit = tally.exit();
  } catch (const GoldenError& error) {
    verified.refused = error.what();
    verified.exit = 5;
  } catch (const UsageError& error) {
    verified.refused = error.what();
    verified.exit = 2;
  }
  progress.clear();
  return verified;
}

// "kda.h5:case" of an id "op/kda:case@reference", less the op and the candidate.
std::string case_name(const CaseRecord& record) {
  std::string name = record.id.substr(0, record.id.find('@'));
  const std::size_t colon = name.find(':');
  return colon == std::string::npos ? name : name.substr(colon + 1);
}

std::string json(const std::vector<VerifiedFile>& files, int exit) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("files").begin_array();
  for (const VerifiedFile& file : files) {
    out.begin_object()
        .field("file", file.file)
        .field("family", file.family)
        .field("exit", file.exit);
    if (!file.refused.empty()) out.field("refused", file.refused);
    out.key("cases").begin_array();
    for (const CaseRecord& record : file.records) {
      out.begin_object()
          .field("name", case_name(record))
          .field("id", record.id)
          .field("op", record.op)
          .field("kernel", record.kernel);
      out.field("status", record.status)
          .field("reason", record.reason)
          .key("tensors")
          .begin_array();
      for (const TensorRecord& tensor : record.tensors) out.raw(reports::to_json(tensor));
      out.end_array().end_object();
    }
    out.end_array().end_object();
  }
  return out.end_array().field("exit", exit).end_object().text() + "\n";
}

}  // namespace

int golden_verify(const Arguments& args) {
  ProgressLine progress(args);
  std::vector<VerifiedFile> files;
  reports::RunFolder all;  // of all files together
  Tally tally;
  int exit = 0;
  for (const std::string& file : args.names) {
    files.push_back(verify_file(args, file, progress));
    for (const CaseRecord& record : files.back().records)
      tally.add(record), all.cases.push_back(record);
    if (files.back().exit != 4) exit = worse_exit(exit, files.back().exit);
    if (!files.back().refused.empty()) complain(files.back().refused);
  }
  // A file whose cases are all unsupported does not spoil the others; when no file ran anything,
  // nothing was shown.
  if (!all.cases.empty() || exit == 0) exit = worse_exit(exit, tally.exit());
  if (args.json) {
    print(json(files, exit));
    return exit;
  }
  std::string text;
  for (const VerifiedFile& file : files) {
    if (args.digests && file.refused.empty()) {
      text +=
          fmt::format("{:<48} {:<12} {}\n", file.file, file.family, file.records.front().reason);
      continue;
    }
    double widest = 0;
    for (const CaseRecord& record : file.records)
      if (record.status == "pass") widest = std::max(widest, reports::max_bound_used(record));
    text +=
        file.refused.empty()
            ? fmt::format("{:<48} {:<12} {:>10}  widest {} of its bound\n", file.file, file.family,
                          reports::count_of(static_cast<std::int64_t>(file.records.size()), "case"),
                          reports::number(widest))
            : fmt::format("{:<48} refused\n", file.file);
  }
  all.exit = exit;
  if (args.digests) {
    print(text + reports::summary_line(tally.counts()) + "\n");
    return exit;
  }
  print(text + reports::console_verdicts(all, style_of(args)));
  return exit;
}

}  // namespace parity::cli
