// What several runs say together: shards put together, two runs compared, a history looked through,
// bounds changed after the fact.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/reports.hpp"

namespace parity::reports {

// The parts of one run (--shard), or lanes of one commit. A record that stands in several is taken
// once, the worst of them. UsageError where commits or seeds differ.
RunFolder merged(const std::vector<RunFolder>&);

// What moved between two runs of the same cases.
struct Move {
  enum class Kind : std::uint8_t { Worse, Better, Missing, New, Step };
  Kind kind = Kind::Step;
  std::string id = {}, tensor = {};  // no tensor: the whole record
  std::string text = {};
  double factor = 1;       // of the error (relative L2 against the truth), B over A
  double noise_units = 0;  // its change, over the noise floor of the base
};
struct RunDiff {
  std::vector<Move> moves = {};
  std::int64_t common = 0;  // records in both
  int exit() const;         // 1 something is worse or missing, 4 nothing in common, else 0
};
RunDiff compare_runs(const RunFolder& a, const RunFolder& b);

// Steps of the last run against the median of those before it, inside the bound or not.
struct Series {
  std::string id = {}, tensor = {};
  std::vector<double> rel_l2 = {}, bound_used = {};  // by run, in order; NaN: not in that run
  double factor = 1, noise_units = 0;                // of the last one
  bool step = false;
};
std::vector<Series> history(const std::vector<RunFolder>&);  // the oldest first
std::string history_page(const std::vector<RunFolder>&, const std::vector<Series>&);

// A bound that is to be so many times as wide: a line "ID_GLOB TENSOR_GLOB FACTOR".
struct Widening {
  std::string id = {}, tensor = {};
  double factor = 1;
};
std::vector<Widening> parse_widenings(const std::string& text, const std::string& file);
struct Rejudged {
  std::int64_t asked = 0, changed = 0;
  std::vector<std::string> cannot = {};  // records that other views decided, or that have no bound
};
// The largest share of the bound is stored, so this verdict needs no tensors. What waives or
// refutes stays as it was.
Rejudged rejudge(RunFolder&, const std::vector<Widening>&);

// Bounds that could be tighter: where every one of at least twenty records uses less than a
// quarter.
struct Proposal {
  Widening widening = {};
  std::int64_t records = 0;
  double most_used = 0;
};
std::vector<Proposal> propose(const std::vector<RunFolder>&);

}  // namespace parity::reports
