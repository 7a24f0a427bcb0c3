// One column of all runs (loss, say), fed step by step in the order of the steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/drift/leave_one_out.hpp"
#include "harness/drift/running.hpp"

namespace parity::drift {

// A step as a chart shows it. Of neighbours, the one with the candidate's largest residual is kept:
// a point is always one that was there.
struct Point {
  std::int64_t step = 0;
  double candidate = 0, median = 0;  // of the references
  double low95 = 0, low50 = 0, high50 = 0, high95 = 0;
  double residual = 0;  // sigma
};

// Where the candidate was further outside the envelope of the references than ever before.
struct Excursion {
  std::int64_t step = 0;
  double ratio = 0, residual = 0;
};

struct ColumnOptions {
  std::string name = {};
  std::size_t runs = 0;     // the candidate, then the references
  std::int64_t steps = 0;   // that will be added
  bool parameter = false;   // a norm of one parameter's gradient
  bool detectable = false;  // find the smallest shift that would have been seen
  bool keep_all = false;    // keep every difference of the candidate, for its growth
};

// Shifts of a reference by these factors, to see which are found.
enum class Onset { Start, Half };  // from the first step, over the last half
std::span<const double> planted_shifts();
std::size_t planted_members(std::size_t runs);  // references that carry them

class Column {
 public:
  explicit Column(ColumnOptions);
  // values[0] is the candidate's. `unit`: the last printed place, which no sigma is below.
  void add(std::int64_t step, std::span<const double> values, double unit);

  const ColumnOptions& options() const { return options_; }
  std::int64_t steps() const { return at_; }
  // Infinite where the run had a value that is no number.
  Statistics statistics(std::size_t run) const;
  Statistics planted(std::size_t member, Onset, std::size_t shift) const;  // members count from 0
  std::optional<std::int64_t> not_finite(std::size_t run) const;           // the first such step
  // The first step at which the candidate's value was not this reference's.
  std::optional<std::int64_t> first_difference(std::size_t reference) const;
  // The first step at which the references differed among themselves.
  std::optional<std::int64_t> first_spread() const { return first_spread_; }
  bool positive() const { return positive_; }  // every value: differences are of logarithms
  double largest() const { return states_.front().largest(); }
  std::int64_t largest_step() const { return largest_step_; }
  const std::vector<Excursion>& excursions() const { return excursions_; }
  const std::vector<Point>& points() const { return points_; }
  // log of the candidate over the median of the references (their difference, where a value is not
  // positive), by step; empty unless keep_all.
  const std::vector<double>& differences() const { return differences_; }
  const std::vector<std::int64_t>& difference_steps() const { return difference_steps_; }

 private:
  double sigma(const Spread& others, double unit) const;
  void add_finite(std::int64_t step, double unit);
  void chart(const Point&);

  ColumnOptions options_;
  LeaveOneOut leave_one_out_ = {};
  std::vector<Running> states_ = {}, planted_ = {};
  std::vector<std::optional<std::int64_t>> not_finite_ = {}, first_difference_ = {};
  std::optional<std::int64_t> first_spread_ = {};
  std::vector<double> raw_ = {}, values_ = {}, residuals_ = {}, differences_ = {};
  std::vector<std::size_t> runs_ = {};  // of values_
  std::vector<std::int64_t> difference_steps_ = {};
  std::vector<Point> points_ = {};
  std::vector<Excursion> excursions_ = {};
  std::int64_t at_ = 0, largest_step_ = 0, per_point_ = 1;
  bool positive_ = true;
};

}  // namespace parity::drift
