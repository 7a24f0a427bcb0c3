// A router of token-choice mixtures (k3.md §3.1, §9), by tokens T, experts E and choices k.
//   z = x W^T (+ bias), wide under every contract
//   s = sigmoid(z), softmax(z), or for Score::TopkSoftmax z itself
//   chosen: the k largest s + b among the groups that stay; b moves the choice and nothing else
//   groups: a group's score is the sum of its two largest s + b; all but `top_groups` groups are
//           -inf
//   w_i = scale s_i / (sum_chosen s + eps), or scale s_i; TopkSoftmax: scale softmax over the
//   chosen
// Backward, g = dw, S = sum_chosen s + eps, p = s / S:
//   ds_i = scale (g_i - sum_j g_j p_j) / S for the chosen (not renormalised: scale g_i), else 0
//   dz = ds s (1 - s); softmax: s (ds - sum_all ds s); TopkSoftmax: w (g - sum_j g_j w_j / scale)
// Ties: the lowest index wins. Option ties=torch: as torch.topk on a CPU chooses
// (std::nth_element).
#pragma once

#include <string>

#include "references/blocks/run.hpp"

namespace parity::net {

enum class Score : std::uint8_t { Sigmoid, Softmax, TopkSoftmax };

struct RouterRule {
  Score score = Score::Sigmoid;
  std::int64_t k = 1, groups = 1, top_groups = 1;
  bool renorm = true;
  double eps = 1e-20, scale = 1;
  bool torch_ties = false;
  std::string given = "ids";  // an input that replaces the choice, where the case has it

  bool limited() const { return groups > 1 && top_groups < groups; }
};
// From a case: size K, options score, renorm, renorm_eps, scale, groups, top_groups, ties.
RouterRule router_rule(const Case&);
std::string router_refusal(const Case&);  // "" = the sizes and options make sense

template <class T>
struct Routing {
  Array<T> logits, scores;              // [T,E]
  Array<T> weights;                     // [T,k] by slot
  Array<T> margin;                      // [T]: how far the choice is from another one
  std::vector<std::int64_t> ids = {};   // [T,k], ascending within a token
  std::vector<std::int64_t> load = {};  // [E] tokens of each expert
};
// Parameters <gate>.weight, and where the case has them <gate>.bias and
// <gate>.e_score_correction_bias.
template <class T>
Routing<T> route(Run<T>&, const Array<T>& x, const std::string& gate, const RouterRule&);

// d_weights [T,k] by slot. `d_logits`, where it has elements, is added (an auxiliary loss).
template <class T>
struct RouterGradients {
  Array<T> x, logits, scores;
};
template <class T>
RouterGradients<T> route_backward(Run<T>&, const Array<T>& x, const Routing<T>&,
                                  const Array<T>& d_weights, const std::string& gate,
                                  const RouterRule&, const Array<T>& d_logits = {});

// The k largest of `scores`, ascending by index, and how far the choice is from another one.
struct Choice {
  std::vector<std::int64_t> ids = {};
  double margin = 0;  // infinite where there is no other
};
template <class T>
Choice largest(std::span<const T> scores, std::int64_t k, bool torch_ties);

// Slots of token t in the order in which a source keeps them: for each place the slot that holds
// order[t,place], -1 where it was not chosen.
template <class T>
std::vector<std::int64_t> slots_in_order(const Routing<T>&, const std::vector<std::int64_t>& order);
// Values by slot [T,k] in that order, -1 where it names what was not chosen; as they are without an
// order.
template <class T>
Array<T> arranged(const Routing<T>&, const Array<T>& by_slot,
                  const std::vector<std::int64_t>& order);
// Ids or counts as numbers.
template <class T>
Array<T> numbers(const std::vector<std::int64_t>& list, std::vector<std::int64_t> shape);

// How far an evaluation with unit roundoff u may move the logit z = x w: 6 standard errors of a sum
// in a row, whose partial sums are no larger than |z| + sqrt(sum (x w)^2).
double logit_noise(std::span<const double> x, std::span<const double> w, double z, double u);

// 1 for each token whose margin is below what an evaluation in the gate's precision may move it by
// (f32; f64 of a case in f64): another choice is legal there.
std::vector<std::uint8_t> open_tokens(const Case&, const Tensors&, const std::string& gate,
                                      const RouterRule&);

}  // namespace parity::net
