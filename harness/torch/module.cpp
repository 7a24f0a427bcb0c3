#include "harness/torch/module.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <vector>

#include "harness/failure.hpp"

namespace parity::torch_module {
namespace {

at::ScalarType scalar_type(const TensorSpec& spec) {
  switch (spec.dtype) {
    case Dtype::F64:
      return at::kDouble;
    case Dtype::F32:
      return at::kFloat;
    case Dtype::BF16:
      return at::kBFloat16;
    case Dtype::F16:
      return at::kHalf;
    case Dtype::I64:
      return at::kLong;
    case Dtype::I32:
      return at::kInt;
    case Dtype::U8:
      return at::kByte;
    default:
      throw Failure("LibTorch modules take no tensor like '" + spec.name + "'");
  }
}

at::Tensor wrap(const TensorView& view) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : view.spec->dims) sizes.push_back(dim.extent);
  return at::from_blob(view.data, sizes, at::TensorOptions().dtype(scalar_type(*view.spec)));
}

bool is_cotangent(const TensorView& view) { return view.spec->name.starts_with("cotangents/"); }

Named inputs_of(const Launch& l, bool gradients) {
  Named in;
  for (const TensorView& view : l.inputs) {
    if (is_cotangent(view)) continue;
    at::Tensor t = wrap(view);
    if (gradients && t.is_floating_point()) t = t.detach().requires_grad_(true);
    in[view.spec->name] = t;
  }
  return in;
}

std::string input_of(const std::string& gradient) {  // "grads/inputs/x" -> "x"
  std::string of = gradient.substr(std::string_view("grads/").size());
  if (of.starts_with("inputs/")) of = of.substr(std::string_view("inputs/").size());
  return of;
}

}  // namespace

void forward(const Launch& l, Module module) {
  at::NoGradGuard no_grad;
  at::set_num_threads(l.threads);
  const Named results = module(l.problem, inputs_of(l, false));
  for (const TensorView& view : l.outputs) {
    const auto it = results.find(view.spec->name);
    if (it == results.end()) throw Failure("the module returns no '" + view.spec->name + "'");
    at::Tensor to = wrap(view);
    to.copy_(it->second.reshape(to.sizes()));
  }
}

void backward(const Launch& l, Module module) {
  at::set_num_threads(l.threads);
  const Named in = inputs_of(l, true), results = module(l.problem, in);
  std::vector<at::Tensor> outputs, cotangents, wanted;
  for (const auto& [name, result] : results) {
    if (name == "loss" && result.requires_grad()) {
      outputs.push_back(result);
      cotangents.push_back(at::ones_like(result));
    }
    for (const TensorView& view : l.inputs)
      if (view.spec->name == "cotangents/" + name && result.requires_grad()) {
        outputs.push_back(result);
        cotangents.push_back(wrap(view).to(result.dtype()).reshape(result.sizes()));
      }
  }
  std::vector<const TensorView*> views;
  for (const TensorView& view : l.outputs) {
    const std::string of = input_of(view.spec->name);
    const Named& named = in.contains(of) ? in : results;  // "grads/tap/h" is of the result "tap/h"
    const auto it = named.find(of);
    if (it == named.end() || !it->second.requires_grad()) continue;
    wanted.push_back(it->second);
    views.push_back(&view);
  }
  const auto gradients =
      torch::autograd::grad(outputs, wanted, cotangents, std::nullopt, false, true);
  at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < views.size(); ++i) {
    at::Tensor to = wrap(*views[i]);
    if (gradients[i].defined())
      to.copy_(gradients[i].reshape(to.sizes()));
    else
      to.zero_();
  }
}

}  // namespace parity::torch_module
