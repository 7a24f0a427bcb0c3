// Many subjects: order, isolation in forked children, time and memory limits, resuming
// (run_suite.cpp, worker.cpp).
//
// For each subject a child computes inputs, truth and bases once and forks a grandchild for each
// candidate; finished records come back through a pipe (wire.cpp). A crash, a hang, exhausted
// memory or an exit costs its candidate only.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/record.hpp"
#include "harness/source.hpp"

namespace parity {

struct SuiteOptions {
  int jobs = 0;                           // subjects at a time; 0: one per core
  double timeout_s = 60;                  // per candidate, and per truth of a subject
  std::int64_t memory_bytes = 8LL << 30;  // address space of a child
  int repeat = 1;                         // launches per candidate; 2 shows nondeterminism
  bool isolate = true;  // false: everything in this process (debuggers, sanitizers)
  bool details = true;  // profiles and histograms for the page
  bool waive = true;    // known failures become `waived`
  Direction direction = Direction::Both;
  std::set<std::string> finished =
      {};  // ids (with kernel, direction, check) that --resume skips: record_key
  std::string torch_library = {};  // path of libparity_torch.so; empty: beside the executable
};

// (id, direction, check)
std::string record_key(const CaseRecord&);

struct Progress {
  std::int64_t done = 0, total = 0;
  std::string current = {};
  double seconds_left = 0;
};

using Sink = std::function<void(const CaseRecord&)>;
using ShowProgress = std::function<void(const Progress&)>;

struct SuiteResult {
  Counts counts = {};
  double wall_ms = 0;
  int exit = 4;  // nothing ran
  int interrupted =
      0;  // the signal that ended it, where the caller handles SIGINT or SIGTERM itself
};

// Records reach the sink in the order of subjects and candidates, each before the next is awaited.
SuiteResult run_suite(const std::vector<Subject>&, const SuiteOptions&, const Sink&,
                      const ShowProgress& = {});

// Counts of a set of finished records and its exit code. Nothing ran, or everything is
// unsupported: 4. An error of the harness is 2, any other 3. Candidates that are known to be
// damaged: each must fail in at least one case (else 4), and its failures are counted as expected.
class Tally {
 public:
  void add(const CaseRecord&);
  const Counts& counts() const { return counts_; }
  int exit() const;
  std::vector<std::string> undetected() const;  // damaged candidates that failed nowhere

 private:
  Counts counts_ = {};
  std::int64_t harness_errors_ = 0;
  std::map<std::string, bool> damaged_ = {};  // candidate -> failed somewhere
};
void count(Counts&, const CaseRecord&);
int exit_of(const Counts&);  // where only the counts are left: errors are infrastructure

// The pipe between processes.
std::string to_wire(const CaseRecord&);
CaseRecord from_wire(std::string_view);

// Kill table and false alarms (mutate.cpp).
struct MutateOptions {
  SuiteOptions suite = {};
  Lane lane = Lane::Smoke;
  std::string only = "*";  // glob over mutants ("<kernel>!<fault>", a fault, an op); where it names
                           // none, over case ids
  std::int64_t clean_minimum = 1000;  // clean variants judged, at least
  std::int64_t clean_minimum_per_op = 100;
  // Kernels with faults of a library that only the suite's worker loads, which finds them by name:
  // nothing to launch here.
  std::vector<KernelDef> elsewhere = {};
};
struct MutationReport {
  std::vector<MutantRecord> mutants = {};
  MutationSummary summary = {};
  std::vector<std::string> false_alarm_ids = {};
  int exit = 4;
};
MutationReport mutate(const MutateOptions&, const ShowProgress& = {});
// Every mutant of the registry, none of them tried yet: id, op, fault, alias, what.
std::vector<MutantRecord> all_mutants(const Registry&);

}  // namespace parity
