// For benchmarks and tests: one declared or invented case of an op with experts, and launches of
// any kernel on its tensors.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity::moe_kernel {

class Workload {
 public:
  Workload(const OpDef& op, Case problem, Tensors inputs)
      : op_(op), case_(std::move(problem)), inputs_(std::move(inputs)) {
    for (TensorSpec& spec : op_.outputs(case_))
      (spec.role == Role::Gradient ? gradients_ : outputs_).add(make_tensor(spec));
  }

  // Inputs of about the sizes of a trained layer's; ids ascending in a row from a start that walks.
  static Workload of(std::string_view op, std::string_view sizes, Dtype dtype) {
    Case c;
    c.op = op, c.dtype = dtype, c.sizes = Sizes::parse(sizes);
    const OpDef& def = registry().op_or_throw(op);
    Tensors inputs;
    for (const TensorSpec& spec : def.inputs(c)) inputs.add(drawn(c, spec));
    return {def, std::move(c), std::move(inputs)};
  }

  void forward(const KernelDef& kernel, int threads) { kernel.forward(launch(outputs_, threads)); }
  void backward(const KernelDef& kernel, int threads) {
    kernel.backward(launch(gradients_, threads));
  }
  const Tensors& outputs() const { return outputs_; }
  const Tensors& gradients() const { return gradients_; }

 private:
  static Tensor drawn(const Case& c, const TensorSpec& spec) {
    std::vector<double> x(static_cast<std::size_t>(elements(spec.dims)));
    const std::int64_t width = spec.dims.empty() ? 1 : spec.dims.back().extent;
    if (spec.role == Role::Ids) {
      const std::int64_t starts = c.sizes["E"] - width + 1;
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<double>(static_cast<std::int64_t>(i) / width * 7 % starts +
                                   static_cast<std::int64_t>(i) % width);
      return make_tensor(spec, x);
    }
    const Rng rng{.seed = 1, .stream = std::hash<std::string>{}(spec.name)};
    rng.fill_normal(0, x);
    if (spec.name.starts_with("params/"))
      for (double& w : x) w /= std::sqrt(static_cast<double>(width));
    return make_tensor(spec, x);
  }

  static std::vector<TensorView> views(Tensors& tensors) {
    std::vector<TensorView> list;
    for (Tensor& t : tensors.list()) list.push_back({.spec = &t.spec, .data = t.bytes.data()});
    return list;
  }

  Launch launch(Tensors& results, int threads) {
    inputs_view_ = views(inputs_);
    results_view_ = views(results);
    return {.problem = case_,
            .options = options_,
            .inputs = inputs_view_,
            .outputs = results_view_,
            .threads = threads};
  }

  const OpDef& op_;
  Case case_;
  Options options_ = {};
  Tensors inputs_, outputs_ = {}, gradients_ = {};
  std::vector<TensorView> inputs_view_ = {}, results_view_ = {};
};

}  // namespace parity::moe_kernel
