#include "harness/suite_state.hpp"

#include "harness/walk.hpp"

namespace parity {

std::string record_key(const CaseRecord& record) {
  return record.id + " " + record.direction + " " + record.check;
}

Ledger::Ledger(const std::vector<Subject>& subjects, const SuiteOptions& options,
               const SuiteHooks& hooks, const Sink& sink, const ShowProgress& show)
    : subjects_(subjects),
      hooks_(hooks),
      sink_(sink),
      show_(show),
      todo_(subjects.size()),
      rows_(subjects.size()) {
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    const std::vector<Candidate>& candidates = subjects[s].candidates;
    rows_[s] = {.slots = std::vector<Slot>(candidates.size(), Slot::Open),
                .records = std::vector<std::optional<CaseRecord>>(candidates.size())};
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (!options.finished.empty() &&
          options.finished.contains(record_key(blank_record(subjects[s], candidates[c])))) {
        rows_[s].slots[c] = Slot::Settled;
        continue;
      }
      ++progress_.total;
      if (!candidates[c].unsupported.empty())
        unsupported(s, c, candidates[c].unsupported);
      else if (!direction_of(subjects[s], candidates[c]))
        unsupported(s, c, "forward only");
      else
        todo_[s].push_back(c);
    }
  }
}

void Ledger::settle(std::size_t subject, std::size_t candidate, std::optional<CaseRecord> record) {
  Row& row = rows_.at(subject);
  if (row.slots.at(candidate) == Slot::Settled) return;  // once each, whatever a child says
  row.slots[candidate] = Slot::Settled;
  ++progress_.done;
  if (record && hooks_.arrived) hooks_.arrived(subject, candidate, *record);
  show(record ? record->id : "");
  row.records[candidate] = std::move(record);
}

void Ledger::record(std::size_t subject, std::size_t candidate, CaseRecord record) {
  settle(subject, candidate, std::move(record));
}

void Ledger::skip(std::size_t subject, std::size_t candidate) {
  settle(subject, candidate, std::nullopt);
}

void Ledger::unsupported(std::size_t subject, std::size_t candidate, const std::string& reason) {
  CaseRecord record = blank_record(subjects_[subject], subjects_[subject].candidates[candidate]);
  record.status = name(Status::Unsupported);
  record.reason = reason;
  settle(subject, candidate, std::move(record));
}

void Ledger::deliver() {
  for (; at_subject_ < rows_.size(); ++at_subject_, at_candidate_ = 0) {
    Row& row = rows_[at_subject_];
    for (; at_candidate_ < row.slots.size(); ++at_candidate_) {
      if (row.slots[at_candidate_] == Slot::Open) return;
      std::optional<CaseRecord>& record = row.records[at_candidate_];
      if (!record) continue;
      tally_.add(*record);
      if (sink_) sink_(*record);
      record.reset();
    }
  }
}

void Ledger::show(const std::string& current) {
  if (!show_) return;
  if (!current.empty()) progress_.current = current;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  progress_.seconds_left = spent.count() / static_cast<double>(progress_.done) *
                           static_cast<double>(progress_.total - progress_.done);
  show_(progress_);
}

SuiteResult Ledger::result() const {
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start_;
  return {.counts = tally_.counts(), .wall_ms = spent.count(), .exit = tally_.exit()};
}

}  // namespace parity
