// The verdict on one candidate against K references.
//
// Under the hypothesis that the candidate is one more member of the ensemble, the K + 1 runs are
// exchangeable. Each is treated alike: its residuals, its statistics and what these are studentised
// by come from the K others. So the largest studentised statistic over all columns and kinds, one
// number a run, ranks the candidate with equal chance at each of K + 1 places, whatever the law of
// the noise, its tails or its correlation in time and between columns:
//   p = (1 + number of references at least as extreme) / (K + 1)
// and a clean candidate fails with probability floor(alpha (K + 1)) / (K + 1) <= alpha, for the
// whole verdict (maxT of Westfall and Young, "Resampling-Based Multiple Testing", 1993; ranks as in
// conformal prediction, Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/drift/column.hpp"

namespace parity::drift {

enum class Verdict { Pass, Fail, Unproven };
std::string_view name(Verdict);

struct ColumnVerdict {
  std::string name = {};
  bool parameter = false;
  std::int64_t steps = 0;
  double p = 1;           // of this column alone
  double p_adjusted = 1;  // against the extremes of all columns: no more than alpha in all
  double z = 0;           // its largest studentised statistic
  Statistic telling = Statistic::Step;
  double slope_p = 1, signs_p = 1;  // of these statistics alone
  double max_sigma = 0;
  std::int64_t max_step = 0;
  std::optional<std::int64_t> left_band =
      {};  // outside the band that holds for all columns at once
  double left_sigma = 0;
  // The smallest relative shift that is seen in 80 % of runs: over the last half, from the start.
  std::optional<double> detectable = {}, detectable_from_start = {};
  std::optional<std::int64_t> not_finite = {};
};

struct Judgement {
  Verdict verdict = Verdict::Unproven;
  std::string reason = {};
  double p = 1, alpha = 0.05, attainable = 0;  // attainable: the chance to fail a clean candidate
  std::int64_t references = 0, as_extreme = 0;
  double z = 0, critical = 0;  // of the candidate; the largest that passes
  std::size_t telling = 0;     // index of the column that decided
  double band = 1;             // factor on the envelope of the references that is the common band
  std::vector<ColumnVerdict> columns = {};
  std::optional<std::size_t> first_parameter = {};    // that left its band first
  std::optional<std::int64_t> first_difference = {};  // from the reference that was equal longest
  std::size_t equal_longest = 0;                      // that reference, counted from 0
  bool identical = false;                             // to that reference, everywhere
};

// Columns that fed no step are left out; none at all is unproven. `references` all columns share.
Judgement judge(std::span<const Column> columns, double alpha);

}  // namespace parity::drift
