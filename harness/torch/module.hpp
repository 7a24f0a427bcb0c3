// An eager LibTorch module as the candidate of a composite op: forward by its function, gradients
// by autograd.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>

#include "harness/kernel.hpp"

namespace parity::torch_module {

// By the op's own names: inputs "x", "params/<name>", integers too; results "y", "loss",
// "tap/<name>".
using Named = std::map<std::string, at::Tensor>;
using Module = Named (*)(const Case&, const Named& inputs);

// Runs the module on the launch's inputs as stored (any dtype, on the CPU) and copies its results
// into the outputs.
void forward(const Launch&, Module);
// The same under autograd: the gradient of sum <result, cotangent> (plus the result "loss", where
// there is one) with respect to every floating input and to results that are taps; zeros where
// autograd has none.
void backward(const Launch&, Module);

// A candidate of `op` for one dtype: contract f64 (fp64 throughout), f32, or bf16 that stores each
// layer's result.
template <Module module>
KernelDef candidate(std::string_view op, std::string_view name, Dtype dtype) {
  Contract contract{.name = dtype == Dtype::F64   ? "f64"
                            : dtype == Dtype::F32 ? "f32"
                                                  : "bf16",
                    .dtypes = {dtype},
                    .accumulate = dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32,
                    .fidelity = Fidelity::Partial};
  if (dtype == Dtype::BF16) contract.roundings = {{.where = "store", .to = Dtype::BF16}};
  return {.op = op,
          .name = name,
          .what = "LibTorch, eager, gradients by autograd",
          .environment = "torch",
          .contract = contract,
          .forward = [](const Launch& l) { forward(l, module); },
          .backward = [](const Launch& l) { backward(l, module); }};
}

}  // namespace parity::torch_module
