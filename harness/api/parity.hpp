// parity as a library of another program: judge a tensor, or run a kernel of yours through the
// cases. Standard C++20 alone; what stands here is kept from one version to the next.
//
//   find_package(parity REQUIRED)
//   target_link_libraries(my_test PRIVATE parity::parity)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace parity::api {

// Dense, row-major. Data types by their names: "f32", "bf16", "f16", "e4m3", "i64", ...
struct Tensor {
  std::string name = {};
  std::string dtype = "f32";
  std::vector<std::int64_t> shape = {};
  std::vector<std::byte> bytes = {};

  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

struct Verdict {
  std::string status = {};  // "pass", "fail", "unproven", "unsupported", "error"
  std::string view = {};    // of a failure: what saw it ("bound", "bias", "slice", ...)
  std::string text = {};    // what, where and how to run it again: for a log
  double bound_used = 0;    // largest error over what is allowed there
  explicit operator bool() const { return status == "pass"; }
};

// ---- one tensor against its truth

// allowed = u(dtype) |truth| + n u(accumulate) magnitude, element by element: the worst that a sum
// of `terms` products can be off, with one rounding at the end (Higham, Accuracy and Stability, 2nd
// ed., 3.1).
struct Limits {
  double terms = 1;                    // length of the reduction behind an element
  std::string accumulate = "f32";      // in which it is summed
  std::vector<double> magnitude = {};  // sum of |terms| of each element; empty: |truth|
};
// NaN, infinities and what is missing fail. Throws std::invalid_argument where the sizes differ.
Verdict judge(const Tensor& candidate, std::span<const double> truth, const Limits& limits = {});

// ---- a kernel through a case

struct Call {
  std::map<std::string, std::int64_t> sizes = {};
  std::map<std::string, std::string> options = {};
  std::vector<Tensor> inputs = {};   // with the cotangents, where there are gradients
  std::vector<Tensor> outputs = {};  // to be written; NaN patterns before
  const Tensor& in(const std::string& name) const;  // throws std::out_of_range with what there is
  Tensor& out(const std::string& name);
  bool has_out(const std::string& name) const;
};
struct Options {
  std::string contract = {};  // empty: what the op expects of a kernel of this data type
  bool gradients = true;      // false: forward only
  bool isolate = true;        // in a child process, which a crash costs; false where a GPU is held
  double seconds = 60;
};
// An id as `parity list` prints it, without a kernel.
Verdict run(const std::string& id, const std::function<void(Call&)>& kernel,
            const Options& options = {});
// Ids that match a glob, of the cases of a lane ("smoke", "full", "long").
std::vector<std::string> cases(const std::string& glob, const std::string& lane = "smoke");

}  // namespace parity::api
