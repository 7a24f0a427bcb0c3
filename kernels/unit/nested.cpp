#include "kernels/unit/nested.hpp"

#include <algorithm>

#include "harness/failure.hpp"

namespace parity::unit_kernel {
namespace {

const KernelDef& registered(std::string_view name) {
  if (const KernelDef* kernel = registry().kernel(name)) return *kernel;
  throw Failure("no kernel " + std::string(name));
}

template <class List>
auto& named(List& list, std::string_view name) {
  const auto it = std::ranges::find(
      list, name, [](const Tensor& t) -> std::string_view { return t.spec.name; });
  if (it == list.end()) throw Failure("no tensor " + std::string(name));
  return *it;
}

std::vector<TensorView> views(std::vector<Tensor>& tensors) {
  std::vector<TensorView> list;
  for (Tensor& t : tensors) list.push_back({.spec = &t.spec, .data = t.bytes.data()});
  return list;
}

}  // namespace

Nested::Nested(std::string_view kernel, Case problem, int threads, std::string_view fault)
    : kernel_(registered(kernel)), case_(std::move(problem)), threads_(threads), fault_(fault) {
  case_.op = kernel_.op;
  case_.dtype = Dtype::F32;
  if (!kernel_.variants.empty()) options_ = kernel_.variants.front().options;
  const OpDef& op = registry().op_or_throw(case_.op);
  for (TensorSpec& spec : op.inputs(case_)) {
    inputs_.push_back(make_tensor(std::move(spec)));
    if (op.derive) op.derive(case_, inputs_.back());
  }
  for (TensorSpec& spec : op.outputs(case_))
    (spec.role == Role::Gradient ? gradients_ : outputs_).push_back(make_tensor(std::move(spec)));
  if (kernel_.saved)
    for (TensorSpec& spec : kernel_.saved(case_, options_))
      saved_.push_back(make_tensor(std::move(spec)));
}

std::span<float> Nested::in(std::string_view name) { return named(inputs_, name).as<float>(); }

void Nested::set(std::string_view name, std::span<const float> values) {
  const std::span<float> to = in(name);
  if (to.size() != values.size()) throw Failure("sizes of " + std::string(name) + " differ");
  std::ranges::copy(values, to.begin());
}

std::span<const float> Nested::out(std::string_view name) const {
  return named(name.starts_with("grads/") ? gradients_ : outputs_, name).as<float>();
}

void Nested::forward() {
  std::vector<std::byte> workspace(
      kernel_.workspace ? kernel_.workspace(case_, options_, Direction::Forward) : 0);
  kernel_.forward(launch(outputs_, workspace));
}

void Nested::backward() {
  std::vector<std::byte> workspace(
      kernel_.workspace ? kernel_.workspace(case_, options_, Direction::Backward) : 0);
  kernel_.backward(launch(gradients_, workspace));
}

Launch Nested::launch(std::vector<Tensor>& results, std::span<std::byte> workspace) {
  views_[0] = views(inputs_), views_[1] = views(results), views_[2] = views(saved_);
  return {.problem = case_,
          .options = options_,
          .inputs = views_[0],
          .outputs = views_[1],
          .saved = views_[2],
          .workspace = workspace,
          .threads = threads_,
          .fault = fault_};
}

}  // namespace parity::unit_kernel
