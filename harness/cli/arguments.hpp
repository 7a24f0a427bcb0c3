// What the command line says, as data: cli.cpp fills it, the verbs read it. One flag has one
// meaning in every verb.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/case.hpp"

namespace parity::cli {

struct Arguments {
  std::string verb = {};     // "run", "golden verify"
  std::string command = {};  // as typed, for the record

  // which cases
  std::vector<std::string> names = {};  // positional: ids and globs, or files
  std::vector<std::string> only = {};   // globs over ids with kernels
  std::vector<std::string> from = {};   // files of ids, one a line
  std::string lane = {};                // empty: the verb's own
  std::string check = {};
  std::string direction = "both";
  std::string kernel = {};  // glob over kernels
  std::string device = {};  // "", "host", or a number
  std::string shard = {};   // "I/N"
  std::string start = {};   // id
  std::optional<std::uint64_t> seed = {};
  std::vector<std::string> recordings = {};
  std::string fault = {};     // run: a fault of the kernels, switched on
  std::string exec = {};      // run: the command that is the candidate
  std::string contract = {};  // run --exec: by which it is judged; empty: the op's own

  // how they run
  int jobs = 0;
  int repeat = 1;
  bool bitwise = false;
  double timeout_s = 60;
  std::int64_t memory_mib = 8192;
  bool isolate = true;

  // what is written and shown
  std::string out = {};  // empty: parity-out
  bool resume = false;
  bool force = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::string dump = "failed";           // all, failed, none
  std::int64_t dump_limit = 64LL << 20;  // bytes of all dumps of a run

  // single verbs
  bool support = false;                   // list
  bool coverage = false;                  // list
  std::int64_t clean = -1;                // mutate: clean variants at least; -1: the lane's
  std::string write = {};                 // registry: the file
  std::string file = {};                  // golden freeze: the file
  bool contiguous = false;                // golden freeze
  bool digests = false;                   // golden verify
  std::string truth = {};                 // diff: a third file
  std::vector<std::string> renames = {};  // diff: PATTERN=REPLACEMENT
  std::optional<double> bound = {};       // diff
  std::string checkpoint = {};            // show
  std::string model = {};                 // show --checkpoint: "k3", "debug"
};

// The device that --device names is not there: exit 3.
class DeviceAbsent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Each returns the exit code of tolerance.md §7; trouble is thrown (UsageError, GoldenError,
// Failure).
int list(const Arguments&);
int show(const Arguments&);
int show_checkpoint(const Arguments&);
int diff(const Arguments&);
int run(const Arguments&);
int mutate(const Arguments&);
int gate(const Arguments&);
int write_registry(const Arguments&);
int golden_freeze(const Arguments&);
int golden_verify(const Arguments&);
int golden_diff(const Arguments&);
int golden_manifest(const Arguments&);
int golden_info(const Arguments&);

// Parses and runs the verb: its exit code. Trouble is thrown.
int dispatch(int argc, char** argv);
// The same, with what was thrown turned into a message on stderr (with --json also a document on
// stdout) and an exit code.
int main(int argc, char** argv);

}  // namespace parity::cli
