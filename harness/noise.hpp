// What the base and its K variants say about the noise of one output: how large a legal error is,
// per element and per region, and how far the tensor's own metrics move from one legal evaluation
// to the next. The derivations stand in noise.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/moments.hpp"
#include "harness/slices.hpp"

namespace parity {

// Tail probability of one view of one tensor: a family-wise target of 1e-6 over a nominal 1e4
// tensors, whatever the size of the run, so that a case that is run alone gets the same verdict.
inline constexpr double kTail = 1e-10;
// Family-wise target of the elements of one tensor.
inline constexpr double kElementAlpha = 1e-6;
// Fewer elements than this are not judged by ratio (at n = 1 one clean run in twelve exceeds 8).
inline constexpr double kSmallestSlice = 16;
// Fewer variants than this give no noise floor.
inline constexpr std::size_t kFewestVariants = 4;

// One evaluation against the truth.
struct RunSummary {
  double rmse = 0;
  double gain = 0;
  double mean = 0;  // of e
};

// One way of cutting the tensor (slices.hpp), in its order.
struct SliceNoise {
  std::vector<double> mean_square = {};  // error expected of the base in each region
  std::vector<double> widening =
      {};  // of the ratio factor, for the region's size; 0: too small to judge
  std::vector<double> gain = {};  // of the base
  std::vector<double> gain_crowding =
      {};               // variance of the gain against that of independent errors
  double crowding = 1;  // elements that share one independent error, at least 1
};

struct Noise {
  std::string name = {};
  std::vector<RunSummary> runs = {};  // the base, then its variants
  bool finite = true;                 // the base is finite wherever the truth is
  std::vector<double> sigma = {};     // RMS error of a legal evaluation, per element
  double dof = 0;                     // degrees of freedom behind a sigma
  double crowding = 1;                // of the whole tensor
  double widening = 1;  // of the ratio factor over the whole tensor; 0: too few elements
  std::vector<SliceNoise> slices = {};
  Uncertainty pooled = {};  // standard errors of gain and mean, root mean square over the runs
  // Their variance over the runs against that of `pooled`, at least 1.
  double gain_crowding = 1, mean_crowding = 1;
  Moments base = {};  // of the base alone
  TruthMoments truth = {};
  std::vector<double> grid_share = {};  // largest of the runs, per format of coarser_grids()
};

// The c of allowed = rho u |x*| + c sigma: Student's two-sided quantile that all n elements of a
// clean tensor stay within with probability 1 - kElementAlpha.
double sigma_factor(double n, double dof);

}  // namespace parity
