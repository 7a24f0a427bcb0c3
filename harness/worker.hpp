// The child of one subject: inputs and truth once, bases once per contract, then one grandchild per candidate.
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

// Decisions that are taken where the candidates run, in the subject's child (kill tables: a mutant stops at its first kill).
struct SuiteHooks {
  std::function<bool(const Subject&, const Candidate&)> wanted = {};
  std::function<void(const Subject&, const Candidate&, const CaseRecord&)> finished = {};
  // Which of the waiting subjects comes next (their indices, ascending); default: the first.
  std::function<std::size_t(std::span<const std::size_t>)> next = {};
};
SuiteResult run_suite(const std::vector<Subject>&, const SuiteOptions&, const SuiteHooks&, const Sink&, const ShowProgress&);

// What all candidates of a subject share.
class Groundwork {
 public:
  Groundwork(const Subject&, bool gradients);
  Known known(const Contract&);  // computes base and vacuity of a contract at its first use; throws what they threw

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

// Runs the candidates of `todo` in order and writes frames to `out`. For a forked child; never returns.
[[noreturn]] void serve_subject(const Subject&, std::span<const std::size_t> todo, const SuiteOptions&, const SuiteHooks&,
                                int out);

}  // namespace parity
