// Sums over a tensor, its rows and its columns that ratios, biases and profiles are made of. The
// order of summation is fixed: eight lanes along a row, folded in halves; rows in sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/slices.hpp"

namespace parity {

// Of the error e = got - truth and the truth x. Elements that are not compared enter as e = x = 0.
struct Moments {
  double e = 0, e2 = 0, ex = 0;
  double e2x2 = 0;  // sum of (e x)^2: what the independent-error variance of the gain needs
  std::vector<double> row_e = {}, row_e2 = {}, row_ex = {}, row_e2x2 = {};
  std::vector<double> column_e = {}, column_e2 = {}, column_ex = {}, column_e2x2 = {};
};
Moments moments(std::span<const double> truth, std::span<const double> error, const Grain&);

struct TruthMoments {
  double x2 = 0;
  std::vector<double> row_x2 = {}, column_x2 = {};
};
TruthMoments truth_moments(std::span<const double> truth, const Grain&);

// How far the gain <e, x>/<x, x> and the mean of e would move if the errors were drawn again.
// Errors of neighbours are not independent (they share rounded operands and the carried state), so
// besides the formula for independent errors each way of cutting the tensor into 30 regions or more
// gives a cluster-robust one (Liang and Zeger 1986): the variance of the sums over regions. The
// largest counts, each with Student's factor for its number of regions at tail probability p.
struct Uncertainty {
  double gain = 0, mean = 0;                          // limits: quantile times standard error
  double gain_error = 0, mean_error = 0;              // the standard errors they come from
  double gain_independent = 0, mean_independent = 0;  // standard errors of independent errors
};
Uncertainty uncertainty(const Moments&, const TruthMoments&, const Grain&,
                        const std::vector<Slicing>&, double p);

}  // namespace parity
