// A registered kernel as a part of another: its tensors in f32, named as the op names them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"

namespace parity::unit_kernel {

class Nested {
 public:
  // The kernel's default variant. What follows from the sizes (cu_seqlens) is filled in.
  Nested(std::string_view kernel, Case problem, int threads, std::string_view fault = {});

  std::span<float> in(std::string_view name);  // cotangents too
  void set(std::string_view name, std::span<const float> values);
  void forward();
  void backward();                                          // behind a forward
  std::span<const float> out(std::string_view name) const;  // outputs, and gradients

 private:
  Launch launch(std::vector<Tensor>& results, std::span<std::byte> workspace);

  const KernelDef& kernel_;
  Case case_;
  Options options_ = {};
  int threads_;
  std::string_view fault_;
  std::vector<Tensor> inputs_ = {}, outputs_ = {}, gradients_ = {}, saved_ = {};
  std::vector<TensorView> views_[3] = {};  // of the launch under way
};

}  // namespace parity::unit_kernel
