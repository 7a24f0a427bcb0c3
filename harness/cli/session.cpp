#include "harness/cli/session.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>

#include "harness/cli/dump.hpp"
#include "harness/cli/history.hpp"
#include "harness/cli/select.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "reports/waterfall.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "parity-out";

// What a run leaves; nothing else in a folder is ever removed.
void remove_run(const fs::path& dir) {
  for (const char* file : {"records.jsonl", "summary.json", "report.html", "junit.xml",
                           "summary.md", "report.sarif", "annotations.txt"})
    fs::remove(dir / file);
  fs::remove_all(dir / "dumps");
}

fs::path take_folder(const Arguments& args) {
  if (args.resume && args.force)
    throw UsageError("--resume continues a run and --force replaces it: give one of them");
  const fs::path dir = args.out.empty() ? kDefaultFolder : args.out;
  if (!fs::exists(dir)) return dir;
  if (!fs::is_directory(dir)) throw UsageError(fmt::format("--out {}: is a file", dir.string()));
  if (fs::is_empty(dir)) return dir;
  if (!is_run(dir))
    throw UsageError(
        fmt::format("--out {}: holds something that is no run of parity, and is left alone; name "
                    "another folder",
                    dir.string()));
  if (args.resume) return dir;
  if (args.force) {
    remove_run(dir);
    return dir;
  }
  if (!args.out.empty())
    throw UsageError(
        fmt::format("--out {}: exists; --resume continues it, --force replaces it", dir.string()));
  // The folder that nobody named makes way for the next run, and the last one stays beside it.
  const fs::path old = dir.string() + ".old";
  if (is_run(old)) remove_run(old);
  if (fs::exists(old) && fs::is_empty(old)) fs::remove(old);
  if (fs::exists(old))
    throw UsageError(fmt::format("{} is in the way: give --out, or --force to replace {}",
                                 old.string(), dir.string()));
  fs::rename(dir, old);
  return dir;
}

// Whose record it is; nullptr where no subject has it.
std::pair<const Subject*, const Candidate*> found(const std::vector<Subject>& subjects,
                                                  const CaseRecord& record) {
  for (const Subject& subject : subjects)
    for (const Candidate& candidate : subject.candidates)
      if (print_id(subject.problem, candidate.name, candidate.options) == record.id &&
          name(subject.check) == record.check)
        return {&subject, &candidate};
  return {};
}

}  // namespace

Session::Session(const Arguments& args, Lane lane)
    : args_(args), options_(suite_options(args)), dir_(take_folder(args)), progress_(args) {
  // run_suite ends its children on a signal and raises it again: then this process writes its
  // reports before it ends.
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) {});
  const std::uint64_t shift = seed_shift_of(args, lane);
  folder_.run = describe_run(args.command, lane, shift ? std::optional(shift) : std::nullopt);
  if (args.resume && is_run(dir_)) {
    reports::RunFolder before = reports::read_run(dir_);
    if (before.run.commit != folder_.run.commit || before.run.seed != folder_.run.seed)
      throw UsageError(
          fmt::format("--resume {}: that run is of commit {} and seeds {}, this one of {} and {}",
                      dir_.string(), before.run.commit, before.run.seed.value_or(0),
                      folder_.run.commit, shift));
    folder_.run = before.run;
    folder_.wall_ms = before.wall_ms;
    folder_.quantised = std::move(before.quantised);
    for (const CaseRecord& record : before.cases) {
      tally_.add(record);
      finished_.insert(record_key(record));
      records_.add(record);
    }
  }
  writer_ = std::make_unique<reports::RecordWriter>(dir_, folder_.run, args.resume);
  if (!args.json) print(reports::console_header(folder_.run));
}

bool Session::run(const std::vector<Subject>& subjects, const std::string& phase,
                  const Amend& amend) {
  if (interrupted_) return false;
  options_.finished = finished_;
  progress_.phase(phase);
  const SuiteResult result = run_suite(
      subjects, options_,
      [&](CaseRecord record) {
        if (amend) amend(record);
        const bool failed = record.status == "fail" && record.expected != "fail";
        if (args_.dump == "all" || (args_.dump == "failed" && failed)) dump(subjects, record);
        if (quantised_.takes(record)) show_quantised(subjects, record);
        add(std::move(record));
      },
      [&](const Progress& progress) { progress_.show(progress); });
  progress_.clear();
  folder_.wall_ms += result.wall_ms;
  if (result.interrupted) {
    interrupted_ = true;
    complain(
        fmt::format("interrupted by signal {}: the records are whole, --resume finishes the run",
                    result.interrupted),
        3);
  }
  return !interrupted_;
}

void Session::dump(const std::vector<Subject>& subjects, const CaseRecord& record) {
  const auto [subject, candidate] = found(subjects, record);
  if (candidate == nullptr) return;
  if (dumped_ >= args_.dump_limit) return void(++not_dumped_);
  const fs::path dumps = dir_ / "dumps";
  const std::string why =
      dump_case(*subject, *candidate, record,
                {.bytes = args_.dump_limit - dumped_, .seconds = args_.timeout_s}, dumps);
  if (why.empty()) {
    dumped_ += static_cast<std::int64_t>(fs::file_size(dumps / dump_name(record.id)));
  } else {
    progress_.clear();
    cli::complain(fmt::format("no dump of {}: {}", record.id, why));
  }
}

void Session::show_quantised(const std::vector<Subject>& subjects, const CaseRecord& record) {
  const auto [subject, candidate] = found(subjects, record);
  if (candidate == nullptr) return;
  if (const auto q = quantised_of(*subject, *candidate, record)) {
    writer_->write(*q);
    folder_.quantised.push_back(*q);
  }
}

void Session::add(CaseRecord record) {
  pictures_.thin(record);
  writer_->write(record);
  tally_.add(record);
  records_.add(record);
}

void Session::add_finished(CaseRecord record) {
  if (!interrupted_ && !finished_.contains(record_key(record))) add(std::move(record));
}

void Session::prove(const std::function<MutationReport(ProgressLine&)>& mutants) {
  if (interrupted_) return;
  const MutationReport report = mutants(progress_);
  for (const MutantRecord& mutant : report.mutants) writer_->write(mutant);
  writer_->write(report.summary);
  folder_.mutants = report.mutants;
  folder_.mutation = report.summary;
  worst_ = worse_exit(worst_, report.exit);
}

void Session::complain(const std::string& text, int exit) {
  progress_.clear();
  cli::complain(text);
  folder_.complaints.push_back({text, exit});
  writer_->write(folder_.complaints.back());
  worst_ = worse_exit(worst_, exit);
}

int Session::close() {
  progress_.clear();
  folder_.cases = records_.all();
  folder_.exit = worse_exit(worst_, tally_.exit());
  for (const reports::Waterfall& layers : reports::waterfalls(folder_.cases))
    if (!finished_.contains(record_key(*layers.whole)) ||
        !finished_.contains(record_key(*layers.alone)))  // else a run before this one said it
      writer_->write(layers);
  reports::write_reports(folder_, dir_);
  if (not_dumped_)
    cli::complain(fmt::format("{} not dumped: --dump-limit {} is used up",
                              reports::count_of(not_dumped_, "case"), args_.dump_limit));
  for (const std::string& candidate : tally_.undetected())
    cli::complain(fmt::format("{} is known to be damaged and failed nowhere", candidate));
  if (args_.json) {
    print(reports::summary_json(folder_, dir_));
  } else {
    std::string text;
    if (folder_.mutation)
      text += reports::console_mutants(folder_.mutants, *folder_.mutation, style_of(args_));
    print(text + reports::console_result(folder_, dir_, style_of(args_)));
  }
  return folder_.exit;
}

Session::Amend from_recording(const fs::path& file) {
  return [command = "parity run --recording " + shell_word(file.string())](CaseRecord& record) {
    record.repro = fmt::format("{} {}", command, shell_word(record.id));
  };
}

Session::Amend from_golden(const fs::path& file) {
  return [command = "parity golden verify " + shell_word(file.string())](CaseRecord& record) {
    record.repro = fmt::format("{} --only {}", command, shell_word(record.id));
  };
}

}  // namespace parity::cli
