#include "harness/tensor.hpp"

#include <algorithm>
#include <array>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity {
namespace {

constexpr std::array<std::string_view, 8> kRoles = {"input",    "cotangent", "output", "state",
                                                    "gradient", "codes",     "scales", "ids"};

}  // namespace

std::string_view name(Role role) { return kRoles.at(static_cast<std::size_t>(role)); }

Role parse_role(std::string_view text) {
  for (std::size_t i = 0; i < kRoles.size(); ++i)
    if (kRoles[i] == text) return static_cast<Role>(i);
  throw UsageError("no role '" + std::string(text) + "'");
}

std::vector<double> Tensor::widened() const {
  std::vector<double> values(static_cast<std::size_t>(elements()));
  widen(spec.dtype, bytes.data(), 0, values);
  return values;
}

Tensor make_tensor(TensorSpec spec) {
  const std::size_t size = bytes_for(spec.dtype, elements(spec.dims));
  return Tensor{std::move(spec), std::vector<std::byte>(size)};
}

Tensor make_tensor(TensorSpec spec, std::span<const double> values) {
  Tensor tensor = make_tensor(std::move(spec));
  if (static_cast<std::int64_t>(values.size()) != tensor.elements())
    throw Failure("tensor '" + tensor.spec.name + "' has " + std::to_string(tensor.elements()) +
                  " elements, not " + std::to_string(values.size()));
  narrow(tensor.spec.dtype, values, 0, tensor.bytes.data());
  return tensor;
}

const Tensor* Tensors::find(std::string_view name) const {
  const auto it = std::ranges::find(list_, name, [](const Tensor& t) { return t.spec.name; });
  return it == list_.end() ? nullptr : &*it;
}

Tensor* Tensors::find(std::string_view name) {
  return const_cast<Tensor*>(static_cast<const Tensors*>(this)->find(name));
}

const Tensor& Tensors::at(std::string_view name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  std::string there;
  for (const Tensor& tensor : list_) there += " " + tensor.spec.name;
  throw Failure("no tensor '" + std::string(name) + "' among:" + there);
}

}  // namespace parity
