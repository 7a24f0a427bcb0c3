// A named tensor: bytes in its storage format, row-major and dense. Values are widened on read,
// never kept as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/dtype.hpp"
#include "harness/shape.hpp"

namespace parity {

enum class Role : std::uint8_t { Input, Cotangent, Output, State, Gradient, Codes, Scales, Ids };
std::string_view name(Role);
Role parse_role(std::string_view);

// What a tensor of a case looks like, before it has any bytes.
//   name       golden paths without "inputs/" and "outputs/": "q", "o", "cotangents/o", "grads/q",
//   "grads/params/<state-dict name>" row        trailing axes that form one row: the unit over
//   which a spread is pooled (1: the last axis)
struct TensorSpec {
  std::string name = {};
  Role role = Role::Input;
  Dtype dtype = Dtype::F32;
  std::vector<Dim> dims = {};
  std::string parameter = {};  // full state-dict name, for gradients of parameters
  int row = 1;
};

struct Tensor {
  TensorSpec spec = {};
  std::vector<std::byte> bytes = {};

  std::int64_t elements() const { return parity::elements(spec.dims); }
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  std::vector<double> widened() const;  // exact, any format up to f64 (i64 beyond 2^53 excepted)
};

Tensor make_tensor(TensorSpec spec);  // zero bytes
Tensor make_tensor(TensorSpec spec,
                   std::span<const double> values);  // rounded to nearest even, once

// Ordered, looked up by name.
class Tensors {
 public:
  void add(Tensor t) { list_.push_back(std::move(t)); }
  const Tensor* find(std::string_view name) const;
  Tensor* find(std::string_view name);
  const Tensor& at(std::string_view name) const;  // throws Failure naming what is there
  std::vector<Tensor>& list() { return list_; }
  const std::vector<Tensor>& list() const { return list_; }
  bool empty() const { return list_.empty(); }

 private:
  std::vector<Tensor> list_ = {};
};

}  // namespace parity
