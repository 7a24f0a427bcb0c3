// The child of some subjects: of each, inputs and truth once and bases once per contract. What is
// written here runs in the child itself; kernels run in a grandchild that is kept while they pass.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "harness/suite.hpp"
#include "harness/walk.hpp"

namespace parity {

// For kill tables, where a mutant stops at its first kill. Subjects and candidates by their number.
struct SuiteHooks {
  // In the child of the subject, before and after each candidate.
  std::function<bool(std::size_t subject, std::size_t candidate)> wanted = {};
  std::function<void(std::size_t subject, std::size_t candidate, const CaseRecord&)> finished = {};
  // In the suite's own process: a record as it comes in, in any order.
  std::function<void(std::size_t subject, std::size_t candidate, const CaseRecord&)> arrived = {};
};
SuiteResult run_suite(const std::vector<Subject>&, const SuiteOptions&, const SuiteHooks&,
                      const Sink&, const ShowProgress&);

// What all candidates of a subject share.
class Groundwork {
 public:
  Groundwork(const Subject&, bool gradients);
  Known known(const Contract&);  // computes base and vacuity of a contract at its first use; throws
                                 // what they threw

 private:
  struct Prepared {
    Base base = {};
    std::vector<std::string> vacuous = {};
    double ms = 0;
    bool done = false;
    std::string failed = {};
  };
  const Subject& subject_;
  bool gradients_;
  Tensors inputs_ = {};
  Expected expected_ = {};
  Times times_ = {};
  std::map<std::string, Prepared> prepared_ = {};
};
bool wants_gradients(const Subject&, std::span<const std::size_t> candidates);

CaseRecord error_record(const Subject&, const Candidate&, const Trouble&);
Trouble trouble_of(std::exception_ptr);  // error kind and reason of what was thrown

// What one child is asked for: candidates of a subject of the suite, by number.
struct Work {
  std::size_t number = 0;
  std::vector<std::size_t> todo = {};
  bool device = false;  // candidates of a GPU: they run in the child itself
};
bool on_device(const Candidate&);

// Does the work in order and writes frames to `out`; `subject_of` finds a subject by its number.
// For a forked child; never returns. A candidate of a GPU that ends in an error is its last.
[[noreturn]] void serve(std::span<const Work>,
                        const std::function<const Subject&(std::size_t)>& subject_of,
                        const SuiteOptions&, const SuiteHooks&, int out);

}  // namespace parity
