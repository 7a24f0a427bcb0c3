// What a candidate may have computed instead: the op's base with another arithmetic, with a fault
// of the catalogue, a kernel's own fault, or a right result put wrongly. And which of them is the
// one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/closeness.hpp"
#include "harness/worker.hpp"

namespace parity {

struct Hypothesis {
  std::string kind = {};  // "arithmetic", "fault", "form"
  std::string name = {};  // "accumulate f64", "F-24", "y: times 2 (2)"
  std::string what = {};  // a sentence; may be empty
  std::string code = {};  // of a fault: whose code shows it, "l2norm.base", "l2norm.rows"
  Distance distance = {};
};

enum class Cause : std::uint8_t {
  Noise,    // the candidate is what its contract says
  Named,    // as close to the first of `ranked` as its evaluations are to each other
  Closest,  // close to it in most elements, and to no other
  Unknown
};

struct Explained {
  Cause cause = Cause::Unknown;
  Distance right = {};                  // from the nearest right answer at its contract
  std::vector<Hypothesis> ranked = {};  // nearest first; the first `equals` cannot be told apart
  std::size_t equals = 0;
  int tried = 0;
};

// The hypotheses of one case at one contract, evaluated once for many candidates.
class Explainer {
 public:
  Explainer(const Subject&, const Contract&, Direction);
  ~Explainer();
  // `usable` may leave faults out (a fault, whose code).
  using Usable = std::function<bool(const std::string& fault, const std::string& code)>;
  Explained explain(const Tensors& candidate, const Usable& usable = {}) const;
  int hypotheses() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a candidate returns, launched in a child; its trouble, where it returned nothing.
struct Returned {
  Tensors tensors = {};
  Trouble trouble = {};
};
Returned launch_apart(const Subject&, const Candidate&, Direction, const Tensors& inputs,
                      double seconds);

}  // namespace parity
