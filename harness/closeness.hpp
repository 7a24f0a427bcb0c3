// How far a candidate is from one evaluation, in units of the noise that legal evaluations have:
// what ranks the explanations of a difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/bound.hpp"

namespace parity {

// Of one output: by how much legal evaluations of it differ.
struct Yardstick {
  std::string name = {};
  std::vector<double> sigma = {};  // per element; empty: every difference counts in full
  double relative = 0;             // the same, over the size of the value
};
std::vector<Yardstick> yardsticks(const Expected&, const Base&);

// The loss of an element that is z noise units off is that of Student's distribution with four
// degrees of freedom, 5 ln(1 + z^2/4): what is far off says that it is wrong, and no more, so that
// most elements decide. It is about 1 where the differences are the noise.
struct TensorDistance {
  std::string name = {};
  std::int64_t elements = 0, equal = 0;  // equal: bit for bit, in the format of the output
  double loss = 0;                       // mean over the elements
  double mean_square = 0;                // in noise units, each at most kFarthest
  double rel_l2 = 0;                     // of the difference, over the evaluation
};
inline constexpr double kFarthest = 1000;  // noise units; beyond it an element is merely wrong

struct Distance {
  double loss = 0;         // over the tensors, each with one vote; more noise costs its logarithm
  double total = 0;        // loss of all elements: minus twice a logarithm of likelihood
  double mean_square = 0;  // over the tensors
  std::int64_t elements = 0, equal = 0;
  std::vector<TensorDistance> tensors = {};
  double units() const;
  double share_equal() const;
  double rel_l2() const;  // of the tensor that is farthest
};
// `spread`: how much louder than legal evaluations this one is, for each tensor; empty: not at all.
Distance distance(const Tensors& candidate, const Evaluation&, const Expected&,
                  const std::vector<Yardstick>&, const std::vector<double>& spread = {});
// How much further apart two evaluations are than legal ones, for each tensor; at least 1.
std::vector<double> spread_of(const Evaluation&, const Evaluation&, const Expected&,
                              const std::vector<Yardstick>&);

// What a launch returned, in the form of an evaluation.
Evaluation evaluation_of(const Tensors&, const Expected&);

}  // namespace parity
