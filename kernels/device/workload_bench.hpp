// Launches of a GPU kernel to be timed: tensors of normal values on the device, several sets that
// take turns, each larger than the L2 cache, so that every launch finds it cold. A launch that is
// not timed goes before each that is, so that the device never waits for the host.
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "harness/cuda/device_memory.hpp"
#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity::device {

inline constexpr int kSets = 3;

// 2^16 normal values, repeated.
inline std::vector<std::byte> normal_values(Dtype dtype, std::size_t bytes) {
  constexpr std::size_t kPeriod = 1 << 16;
  std::vector<double> normal(kPeriod);
  Rng{1, 0}.fill_normal(0, normal);
  const std::size_t period = bytes_for(dtype, kPeriod);
  std::vector<std::byte> list(std::max(bytes, period));
  narrow(dtype, normal, 0, list.data());
  for (std::size_t at = period; at < bytes; at += period)
    std::memcpy(list.data() + at, list.data(), std::min(period, bytes - at));
  list.resize(bytes);
  return list;
}

// The tensors of one launch, on the device: forward, and with cotangents and gradients backward.
class Workload {
 public:
  Workload(const KernelDef& kernel, const Case& problem, bool backward, DeviceStream& stream)
      : problem_(problem), stream_(stream), kernel_(kernel) {
    const OpDef& op = registry().op_or_throw(kernel.op);
    for (const TensorSpec& spec : op.inputs(problem))
      if (backward || spec.role != Role::Cotangent) add(spec, inputs_);
    for (const TensorSpec& spec : op.outputs(problem))
      if (backward || spec.role != Role::Gradient)
        add(spec, spec.role == Role::Gradient ? gradients_ : outputs_);
    if (kernel.saved)
      for (const TensorSpec& spec : kernel.saved(problem, options_)) add(spec, saved_);
    for (const Direction d : {Direction::Forward, Direction::Backward})
      if (kernel.workspace && (backward || d == Direction::Forward)) {
        std::span<std::byte>& space = d == Direction::Forward ? forward_space_ : backward_space_;
        memory_.emplace_back(kernel.workspace(problem, options_, d));
        space = std::span<std::byte>(memory_.back().data(), memory_.back().size());
      }
  }
  void forward() { kernel_.forward(launch(outputs_, forward_space_)); }
  void backward() { kernel_.backward(launch(gradients_, backward_space_)); }

 private:
  Launch launch(const std::vector<TensorView>& outputs, std::span<std::byte> workspace) const {
    return {.problem = problem_,
            .options = options_,
            .inputs = inputs_,
            .outputs = outputs,
            .saved = saved_,
            .workspace = workspace,
            .stream = stream_.handle()};
  }
  void add(const TensorSpec& spec, std::vector<TensorView>& views) {
    specs_.push_back(spec);
    const std::size_t bytes = bytes_for(spec.dtype, elements(spec.dims));
    memory_.emplace_back(bytes);
    if (&views == &inputs_) stream_.upload(normal_values(spec.dtype, bytes), memory_.back());
    views.push_back({&specs_.back(), memory_.back().data()});
  }

  const Case& problem_;
  DeviceStream& stream_;
  const KernelDef& kernel_;
  Options options_ = {};
  std::list<TensorSpec> specs_ = {};
  std::list<DeviceMemory> memory_ = {};
  std::vector<TensorView> inputs_ = {}, outputs_ = {}, gradients_ = {}, saved_ = {};
  std::span<std::byte> forward_space_ = {}, backward_space_ = {};
};

// Null where the kernel cannot run here, and then the benchmark says why.
template <class State>  // of Google Benchmark
const KernelDef* kernel_here(State& state, std::string_view name) {
  const KernelDef* kernel = registry().kernel(name);
  const std::string why =
      kernel ? missing_capability(kernel->needs) : "built without CUDA (no nvcc was found)";
  if (why.empty()) return kernel;
  state.SkipWithError(("unsupported: " + why).c_str());
  return nullptr;
}

// enqueue(i) puts the work on set i into the stream.
template <class State, class Enqueue>
void measure(State& state, DeviceStream& stream, const Enqueue& enqueue) {
  for (int warm = 0; warm < 2 * kSets; ++warm) enqueue(warm % kSets);
  int next = 0;
  const auto turn = [&] { return next = (next + 1) % kSets; };
  for (auto _ : state) {
    enqueue(turn());
    stream.start();
    enqueue(turn());
    state.SetIterationTime(stream.stop() / 1000);
  }
}

// A copy that reads half of `bytes` and writes half.
template <class State>
void measure_copy(State& state, std::size_t bytes) {
  DeviceStream stream;
  std::list<DeviceMemory> memory;
  std::vector<DeviceMemory*> by_number;
  for (int i = 0; i < 2 * kSets; ++i) by_number.push_back(&memory.emplace_back(bytes / 2));
  measure(state, stream, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    stream.copy(*by_number[at], *by_number[at + kSets]);
  });
}

}  // namespace parity::device
