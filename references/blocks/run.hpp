// One evaluation of a composite op: an assembly of layers, written once as a template and run in
// double for the truth, in the contract's precision for the base.
//
//   inputs       by their names, parameters as "params/<state-dict name>"
//   results      outputs and "tap/<name>" intermediates by put(), gradients by grad(), which adds
//   store()      what the contract does where it keeps an intermediate: nothing (truth), a rounding
//   to
//                the point "store" of the contract (bf16 layers), and in the harmless variants a
//                rounding on a randomly shifted grid, or a jitter of half an ulp where nothing
//                narrow is stored
//   sum, products   accumulate in T; the variants in another order
//
// A composite has no magnitude companion that could be derived term by term. Its scale is measured:
// the spread of fp64 evaluations whose intermediates are moved by half an ulp of fp64 and whose
// sums run in other orders, in units of 2^-53 (Parker, Monte Carlo arithmetic, 1997).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"
#include "references/blocks/array.hpp"
#include "references/kda/points.hpp"

namespace parity::net {

template <class T>
class Run {
 public:
  // Truth (variation 0), or an fp64 variant of it.
  Run(const Case&, const Tensors&, bool gradients, int variation = 0, std::uint64_t seed = 0);
  explicit Run(const BaseRequest&);

  const Case& problem() const { return *problem_; }
  const Options& options() const { return problem_->options; }
  bool wants_gradients() const { return gradients_; }
  bool fault(std::string_view id) const { return !fault_.empty() && fault_ == id; }

  bool has(const std::string& input) const { return inputs_->find(input) != nullptr; }
  const Array<T>& in(
      const std::string& input);  // widened once; throws Failure naming what is there
  const Array<T>& param(const std::string& name) { return in("params/" + name); }
  std::vector<std::int64_t> ids(const std::string& input);  // of an integer tensor

  void put(const std::string& name, Array<T> value);    // an output, or "tap/..."
  void grad(const std::string& name, const Array<T>&);  // added to "grads/<name>"
  void param_grad(const std::string& name, const Array<T>& d) { grad("params/" + name, d); }

  void store(Array<T>&) const;
  void keep(Array<T>&) const;  // an intermediate that stays wide under every contract
  bool rounds(std::string_view where) const;  // whether the contract rounds there
  T sum(std::span<const T>) const;
  int variation() const { return variation_; }
  bool truth() const { return truth_ && variation_ == 0; }  // not what some kernel would compute

  // What was put and added so far; ops that take several steps move it aside between them.
  std::map<std::string, Array<T>, std::less<>>& results() { return results_; }
  void replace(const std::string& input, Array<T> value);  // a parameter after a step
  std::map<std::string, Array<T>, std::less<>> take() { return std::move(results_); }

 private:
  const Case* problem_;
  const Tensors* inputs_;
  bool gradients_;
  bool truth_ = false;
  int variation_ = 0;
  std::uint64_t seed_ = 0;
  double reach_ = 0;  // relative; how far a value that is not stored narrow moves
  kda::Point point_ = {};
  std::vector<RoundingPoint> roundings_ = {};
  std::string fault_ = {};
  std::map<std::string, Array<T>, std::less<>> widened_ = {};
  std::map<std::string, Array<T>, std::less<>> results_ = {};
};

// x[R,K] w[N,K]^T -> [R,N];   y[R,N] w[N,K] -> [R,K];   y[R,N]^T x[R,K] -> [N,K]. Leading axes of R
// are kept.
template <class T>
Array<T> times_transposed(const Run<T>&, const Array<T>& x, const Array<T>& w);
template <class T>
Array<T> times(const Run<T>&, const Array<T>& y, const Array<T>& w);
template <class T>
Array<T> transposed_times(const Run<T>&, const Array<T>& y, const Array<T>& x);

template <class T>
void add(Array<T>& to, const Array<T>& what);
template <class T>
Array<T> plus(const Array<T>&, const Array<T>&);

// The op's formulas in both precisions.
struct Formulas {
  void (*wide)(Run<double>&) = nullptr;
  void (*narrow)(Run<float>&) = nullptr;
};

// OpDef::reference and OpDef::base of a composite.
Expected expected_of(const std::vector<TensorSpec>&, const Formulas&, const Case&, const Tensors&,
                     bool gradients);
Evaluation evaluation_of(const std::vector<TensorSpec>&, const Formulas&, const BaseRequest&);

// OpDef::contract of a composite: what a plain implementation in the case's dtype does (bf16:
// stores each layer's result).
Contract composite_contract(const Case&, const std::map<std::string, std::string>& attributes);
// The bound of every composite: by spread of the base's variants.
Bound composite_bound(const Case&, const Contract&, const TensorSpec&);

}  // namespace parity::net
