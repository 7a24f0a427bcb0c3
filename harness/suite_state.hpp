// What of a suite is still to be done, and the order in which records leave it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/worker.hpp"

namespace parity {

// One slot per candidate of each subject; slots are delivered in order, each as soon as all before
// it are settled.
class Ledger {
 public:
  Ledger(const std::vector<Subject>&, const SuiteOptions&, const SuiteHooks&, const Sink&,
         const ShowProgress&);

  const std::vector<std::size_t>& todo(std::size_t subject) const { return todo_[subject]; }
  void record(std::size_t subject, std::size_t candidate, CaseRecord);
  void skip(std::size_t subject, std::size_t candidate);
  void unsupported(std::size_t subject, std::size_t candidate, const std::string& reason);
  void deliver();
  SuiteResult result() const;

 private:
  enum class Slot : std::uint8_t { Open, Settled };
  struct Row {
    std::vector<Slot> slots = {};
    std::vector<std::optional<CaseRecord>> records = {};
  };
  void settle(std::size_t subject, std::size_t candidate, std::optional<CaseRecord>);
  void show(const std::string& current);

  const std::vector<Subject>& subjects_;
  const SuiteHooks& hooks_;
  const Sink& sink_;
  const ShowProgress& show_;
  std::vector<std::vector<std::size_t>> todo_ = {};
  std::vector<Row> rows_ = {};
  std::size_t at_subject_ = 0, at_candidate_ = 0;
  Tally tally_ = {};
  Progress progress_ = {};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace parity
