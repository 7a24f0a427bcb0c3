// For benchmarks: the tensors of one attention, and launches of a kernel on them.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"

namespace parity::attention_kernel {

class Workload {
 public:
  Workload(const KernelDef& kernel, std::string_view sizes, Dtype dtype) : kernel_(kernel) {
    case_.op = "attention", case_.sizes = Sizes::parse(sizes), case_.dtype = dtype;
    const OpDef& op = registry().op_or_throw("attention");
    for (TensorSpec& spec : op.inputs(case_)) inputs_.push_back(drawn(std::move(spec)));
    for (TensorSpec& spec : op.outputs(case_))
      (spec.role == Role::Gradient ? gradients_ : outputs_).push_back(make_tensor(std::move(spec)));
    if (kernel.saved)
      for (TensorSpec& spec : kernel.saved(case_, options_))
        saved_.push_back(make_tensor(std::move(spec)));
    if (kernel.workspace) workspace_.resize(kernel.workspace(case_, options_, Direction::Backward));
  }

  void forward(int threads) { kernel_.forward(launch(outputs_, threads)); }
  void backward(int threads) { kernel_.backward(launch(gradients_, threads)); }

  // Of the products of a causal attention, the upper triangle left out: two forward, five backward.
  double forward_flops() const {
    const auto size = [&](const char* name) { return static_cast<double>(case_.sizes[name]); };
    return 2 * size("T") * size("T") * size("D") * size("H");
  }

 private:
  Tensor drawn(TensorSpec spec) {  // uniform; the bits do not matter here
    std::vector<double> x(static_cast<std::size_t>(elements(spec.dims)));
    for (double& value : x) {
      state_ = state_ * 1664525u + 1013904223u;
      value = (state_ >> 8) * 0x1p-23 - 1;
    }
    return make_tensor(std::move(spec), x);
  }
  static std::vector<TensorView> views(std::vector<Tensor>& tensors) {
    std::vector<TensorView> list;
    for (Tensor& t : tensors) list.push_back({.spec = &t.spec, .data = t.bytes.data()});
    return list;
  }
  Launch launch(std::vector<Tensor>& results, int threads) {
    views_ = {views(inputs_), views(results), views(saved_)};
    return {.problem = case_,
            .options = options_,
            .inputs = views_[0],
            .outputs = views_[1],
            .saved = views_[2],
            .workspace = workspace_,
            .threads = threads};
  }

  const KernelDef& kernel_;
  Case case_ = {};
  Options options_ = {};
  std::uint32_t state_ = 12345;
  std::vector<Tensor> inputs_ = {}, outputs_ = {}, gradients_ = {}, saved_ = {};
  std::vector<std::byte> workspace_ = {};
  std::vector<std::vector<TensorView>> views_ = {};
};

}  // namespace parity::attention_kernel
