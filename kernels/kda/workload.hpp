// For benchmarks: the tensors of a KDA case with gates as a trained model has them, and launches on
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/failure.hpp"
#include "harness/kernel.hpp"
#include "harness/registry.hpp"

namespace parity::kda_kernel {

class Workload {
 public:
  // Sizes "B1,T4096,H8,K128,V128"; options of the kernel such as "chunk=64".
  Workload(const KernelDef& kernel, std::string_view sizes, Dtype dtype,
           std::string_view kernel_options)
      : kernel_(kernel), options_(Options::parse(kernel_options)) {
    case_.op = "kda", case_.sizes = Sizes::parse(sizes), case_.dtype = dtype;
    const auto extent = [&](const char* name) { return Dim{name, case_.sizes.get(name, 1)}; };
    const std::vector<Dim> keys = {extent("B"), extent("T"), extent("H"), extent("K")};
    const std::vector<Dim> values = {extent("B"), extent("T"), extent("H"), extent("V")};
    const std::vector<Dim> heads = {extent("B"), extent("T"), extent("H")};
    const std::vector<Dim> state = {{"N", keys[0].extent}, extent("H"), extent("K"), extent("V")};
    add(inputs_, "q", dtype, keys, 1 / std::sqrt(static_cast<double>(keys[3].extent)), 0);
    add(inputs_, "k", dtype, keys, 1 / std::sqrt(static_cast<double>(keys[3].extent)), 0);
    add(inputs_, "v", dtype, values, 1, 0);
    add(inputs_, "g", Dtype::F32, keys, 0.05, -0.05);
    add(inputs_, "beta", dtype, heads, 0.5, 0.5);
    add(inputs_, "cotangents/o", dtype, values, 1, 0);
    add(outputs_, "o", dtype, values, 0, 0);
    add(outputs_, "final_state", Dtype::F32, state, 0, 0);
    for (const char* name : {"q", "k", "v", "g", "beta"})
      add(gradients_, std::string("grads/") + name,
          std::string_view(name) == "g" ? Dtype::F32 : dtype,
          *name == 'v'   ? values
          : *name == 'b' ? heads
                         : keys,
          0, 0);
    if (kernel.saved)
      for (const TensorSpec& spec : kernel.saved(case_, options_))
        saved_.push_back(Buffer(make_tensor(spec)));
    if (kernel.workspace) workspace_.resize(kernel.workspace(case_, options_, Direction::Backward));
  }

  void forward(int threads, bool save) { kernel_.forward(launch(outputs_, threads, save)); }
  void backward(int threads) { kernel_.backward(launch(gradients_, threads, true)); }

  Tensor result(std::string_view name) const {
    for (const std::vector<Buffer>* list : {&outputs_, &gradients_})
      for (const Buffer& b : *list)
        if (b.spec.name == name) {
          Tensor t = make_tensor(b.spec);
          std::copy_n(b.data(), t.bytes.size(), t.bytes.begin());
          return t;
        }
    throw Failure("no result '" + std::string(name) + "'");
  }

  std::int64_t token_heads() const {
    return case_.sizes["B"] * case_.sizes["T"] * case_.sizes.get("H", 1);
  }
  // Dense flops of the chunk form a token and head (kda.md §4.5), whatever a kernel saves of them.
  double forward_flops(double C) const {
    const double K = extent("K"), V = extent("V");
    return static_cast<double>(token_heads()) * (6 * K * V + 2 * C * (3 * K + 2 * V) + C * C / 3);
  }
  double backward_flops(double C) const {
    const double K = extent("K"), V = extent("V");
    return static_cast<double>(token_heads()) * (16 * K * V + 14 * C * K + 10 * C * V + 4 * C * C);
  }

 private:
  // Tensors begin on a cache line, as in the harness.
  struct Buffer {
    explicit Buffer(const Tensor& t) : spec(t.spec), bytes(t.bytes.size() + 64) {
      std::copy(t.bytes.begin(), t.bytes.end(), data());
    }
    const std::byte* data() const { return bytes.data() + offset(); }
    std::byte* data() { return bytes.data() + offset(); }
    TensorSpec spec;

   private:
    std::size_t offset() const {
      return (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64;
    }
    std::vector<std::byte> bytes;
  };

  double extent(const char* name) const { return static_cast<double>(case_.sizes[name]); }

  // Uniform around `mean`; the bits do not matter here.
  static void add(std::vector<Buffer>& list, std::string name, Dtype dtype, std::vector<Dim> dims,
                  double spread, double mean) {
    std::vector<double> x(static_cast<std::size_t>(elements(dims)));
    std::uint32_t state = static_cast<std::uint32_t>(list.size()) * 2654435761u + 12345u;
    for (double& value : x) {
      state = state * 1664525u + 1013904223u;
      value = mean + spread * ((state >> 8) * 0x1p-23 - 1);
    }
    list.push_back(
        Buffer(make_tensor({.name = std::move(name), .dtype = dtype, .dims = std::move(dims)}, x)));
  }

  static std::vector<TensorView> views(std::vector<Buffer>& buffers) {
    std::vector<TensorView> list;
    for (Buffer& b : buffers) list.push_back({.spec = &b.spec, .data = b.data()});
    return list;
  }

  Launch launch(std::vector<Buffer>& results, int threads, bool save) {
    views_ = {views(inputs_), views(results), save ? views(saved_) : std::vector<TensorView>{}};
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
  std::vector<Buffer> inputs_ = {}, outputs_ = {}, gradients_ = {}, saved_ = {};
  std::vector<std::byte> workspace_ = {};
  std::vector<std::vector<TensorView>> views_ = {};
};

}  // namespace parity::kda_kernel
