// For the tests of the KDA kernels: inputs, launches, and the recurrence token by token in f64
// (kda.md §1, §2, §3), written apart from the references so that the kernels' tests need only the
// kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::kda_kernel::testing {

using Real = std::vector<double>;
using Tables = std::map<std::string, Real>;

struct InputFill {
  double gate = -0.2;        // mean of the gate; raw gates are normal around 0
  double gate_spread = 0.3;  // relative, uniform
  double closed = 0;         // share of gates at -1000
  double correlation = 0;    // of the keys: 0 independent, 1 all equal
};

std::vector<TensorSpec> input_specs(const Case&);
std::vector<TensorSpec> output_specs(const Case&, Direction);
Tensors make_inputs(const Case&, const InputFill&, std::uint64_t seed);

// Outputs, states and gradients by name, all in f64 on the stored inputs.
Tables model(const Case&, const Tensors& inputs);

struct Run {
  Options options = {};
  int threads = 1;
  std::string fault = {};
  bool gradients = true;
};
// Launches the kernel as the harness does: outputs, saved tensors and workspace start as NaN.
Tensors launch(const KernelDef&, const Case&, const Tensors& inputs, const Run&);

Case make_case(std::string_view sizes, Dtype, std::string_view options);

// max |x - y| / rms(y) over a tensor.
double distance(const Tensor& got, const Real& want);

}  // namespace parity::kda_kernel::testing
