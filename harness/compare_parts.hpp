// Inside compare(): one tensor on its way from two arrays to a record. Each part is a file.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "harness/grids.hpp"
#include "harness/noise.hpp"
#include "harness/walk.hpp"

namespace parity {

// allowed_i = relative |x_i| + companion m_i + floor, the one inequality with its constants worked
// out.
struct Allowance {
  double relative = 0, companion = 0, floor = 0;
  std::span<const double> m = {};  // empty where companion is 0

  double operator()(double truth, std::size_t i) const {
    return relative * std::abs(truth) + (m.empty() ? 0 : companion * m[i]) + floor;
  }
};
// What the elements of one tensor may use of their bound: 1, or f max(1, what the base uses).
double limit_of_bound(const Bound&, Fidelity, double base_bound_used);
Allowance allowance(const Bound&, const ExpectedTensor&, const Noise*);

// e / allowed; 0 / 0 is no error, an error where nothing is allowed is infinite, NaN stays NaN, and
// a bound that is not finite bounds nothing.
inline double bound_used(double error, double allowed) {
  if (error == 0) return 0;
  if (!(allowed < std::numeric_limits<double>::infinity()))
    return std::numeric_limits<double>::infinity();
  return std::abs(error) / allowed;
}

struct Compared {
  const Comparison& c;
  const TensorSpec& spec;  // of the expected tensor: its format is the contract
  Grain grain = {};
  std::vector<Slicing> cuts = {};
  std::vector<double> truth = {}, observed = {}, error = {};  // 0 where not compared by value
  std::vector<double> rounded = {};                           // truth in the storage format
  std::vector<double> base = {};                              // of run 0; empty where there is none
  const Noise* noise = nullptr;
  std::vector<std::size_t> nonfinite =
      {};              // elements that are not finite where they should be, or the reverse
  bool exact = false;  // equality with `rounded` is asked for
  Allowance allowed = {};
  double limit = 1;  // of bound_used
  Moments moments = {};
  TruthMoments truth_moments = {};
  Moments from_base = {};  // of observed - base in place of the error

  double n() const { return static_cast<double>(truth.size()); }
};

void compare_bits(const Comparison&, TensorRecord&);  // codes, scales, ids: the whole record
void compare_finiteness(Compared&, TensorRecord&);    // also takes what it covers out of the errors
void compare_metrics(const Compared&, TensorRecord&);
void compare_exact(const Compared&, TensorRecord&);
void compare_bound(Compared&, TensorRecord&);
void compare_ratio(const Compared&, TensorRecord&);  // noise floor and ratio over the tensor
void compare_slices(const Compared&, TensorRecord&);
void compare_bias(const Compared&, TensorRecord&);
void compare_grid(const Compared&, TensorRecord&);
void compare_pattern(const Compared&, TensorRecord&);  // a sentence: where the errors are
void compare_details(const Compared&,
                     TensorRecord&);  // quantiles, worst points, and all for the page

bool same_value(double a, double b,
                bool strict_sign);  // NaN equals NaN; +0 equals -0 unless strict
std::vector<std::size_t> wrong_elements(
    const Compared&);  // that violate finiteness, equality or the bound
WorstPoint point_at(const Compared&, std::size_t index);

}  // namespace parity
