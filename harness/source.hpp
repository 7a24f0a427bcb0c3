// What enters the walk: a subject is one set of inputs with one truth and the candidates that are
// judged on it. Generated cases, golden files and recordings differ in nothing but these functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/registry.hpp"

namespace parity {

// What came out of a launch (or out of a file), with what the launch itself could see.
struct Observed {
  Tensors tensors = {};
  bool inputs_unchanged = true;
  bool saved_unchanged = true;  // saved tensors, between forward and backward
  bool canaries_whole = true;
  std::int64_t unwritten = 0;                // bytes of outputs that nobody wrote
  std::vector<std::string> complaints = {};  // one sentence each: which tensor, which offset
  double kernel_ms = 0;
  std::vector<std::string> device_kernels = {};  // device functions that were launched, by name
  std::string refused = {};                      // the candidate refuses these inputs, and why
};

// Kernel threads of a launch: fixed, so that no result depends on the machine, and more than one,
// so that a wrong partition of the work shows everywhere.
inline constexpr int kLaunchThreads = 2;

struct RunRequest {
  const Case& problem;
  const Tensors& inputs;  // with the cotangents, where the direction has a backward
  Direction direction = Direction::Both;
  int threads = kLaunchThreads;
  const Expected* expected = nullptr;  // elements that it ignores need not be written
};

struct Candidate {
  std::string name = {};  // "kda.chunked_f32", "recording.fla_0_6_0", "reference"
  Options options = {};
  Contract contract = {};
  std::string fault = {};        // a mutant: the id of its fault
  bool expect_fail = false;      // known to be damaged
  std::string unsupported = {};  // why it does not take this subject here; "" = it does
  std::string environment = {};
  bool hw_verified = false;           // its own target executes it in this run
  bool stored = false;                // nothing is launched: results come from a file
  bool backward = true;               // false: forward only
  const KernelDef* kernel = nullptr;  // that it launches, where there is one
  std::function<Observed(const RunRequest&)> run = {};
};

struct Subject {
  Case problem = {};
  Check check = Check::Parity;
  Direction direction = Direction::Both;
  std::function<Tensors()> inputs = {};
  std::function<Expected(const Tensors& inputs)> truth = {};  // default: the op's reference
  std::function<Bound(const Contract&, const TensorSpec&)> bound = {};  // default: the registry's
  bool judge_base = true;  // false: golden verify, where bound alone decides (no noise floor, no
                           // trivial candidates)
  std::string command = "parity run";  // what reruns it, followed by the quoted id
  std::vector<Candidate> candidates = {};
};

// Whether the kernel is asked about the case at all: its op, the kernels of the case's set, a data
// type and a chain that it has. What else it refuses, it says of the case (candidate_of).
bool is_candidate(const KernelDef&, const Case&);
// The subject of one generated case, with every kernel of its op whose name matches the glob and
// whose contract takes the dtype (a kernel that is named in full and does not take it is a
// candidate that says why).
Subject subject_of(const Case&, std::string_view kernels = "*");
// What an id with "@kernel[options]" names: that candidate alone.
Subject subject_of(const Case&, std::string_view kernel, const Options& kernel_options);
// A kernel as a candidate: poisons, canaries, digests (launch.cpp). `fault` switches a fault on.
Candidate candidate_of(const KernelDef&, const Options&, const Case&, std::string_view fault = {});
// The op's base as a candidate "<op>.base": with a fault switched on, or as a variation that the
// noise floor has not seen.
Candidate base_candidate(const OpDef&, const Contract&, std::string_view fault, int variation = 0);

// The direction in which this candidate answers this subject, Both narrowed to what there is;
// nothing where it has none.
std::optional<Direction> direction_of(const Subject&, const Candidate&);
// Whether a tensor of this role is an answer of that direction.
bool answers(Role, Direction);

}  // namespace parity
