// The child of one subject: inputs and truth once, bases once per contract, then one grandchild per
// candidate.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

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

// Runs the candidates of `todo` in order and writes frames to `out`. For a forked child; never
// returns.
[[noreturn]] void serve_subject(const Subject&, std::size_t number,
                                std::span<const std::size_t> todo, const SuiteOptions&,
                                const SuiteHooks&, int out);

}  // namespace parity
