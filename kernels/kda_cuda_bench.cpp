// Speed of KDA on the GPU: one sequence of 8192 tokens, K = V = 128, bf16, lower-bound gate, norm
// and beta in the kernel, time between events on the device, cold L2. The limit is a copy of the
// bytes that must move (q, k, v, the raw gate in, o out: 1282 bytes a token and head, kda.md §4.5).
#include <benchmark/benchmark.h>
#include <list>
#include <string>

#include "kernels/device/workload_bench.hpp"

namespace parity::kda_kernel {
namespace {

using device::kSets;
constexpr const char* kKernel = "kda.cuda_wgmma_bf16";
constexpr std::size_t kForwardBytes = 1282, kBackwardBytes = 2310;  // of a token and head

Case problem_of(int heads) {
  return {.op = "kda",
          .sizes = Sizes::parse("B1,T8192,H" + std::to_string(heads) + ",K128,V128"),
          .dtype = Dtype::BF16,
          .options = Options::parse("beta=sigmoid,bias=1,gate=lower,l2norm=1")};
}

void run(benchmark::State& state, const Case& problem, bool backward, const std::string& limit) {
  const KernelDef* kernel = device::kernel_here(state, kKernel);
  if (kernel == nullptr) return;
  DeviceStream stream;
  std::list<device::Workload> sets;
  std::vector<device::Workload*> by_number;
  for (int i = 0; i < kSets; ++i)
    by_number.push_back(&sets.emplace_back(*kernel, problem, backward, stream));
  device::measure(state, stream, [&](int i) {
    device::Workload& set = *by_number[static_cast<std::size_t>(i)];
    backward ? set.backward() : set.forward();
  });
  state.SetLabel("limit=" + limit +
                 ";what=a copy of the bytes that must move;target=" + (backward ? "0.05" : "0.2"));
}

void copy(benchmark::State& state, std::size_t bytes) {
  if (device::kernel_here(state, kKernel) != nullptr) device::measure_copy(state, bytes);
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.02);
  };
  for (const int heads : {96, 32}) {
    const std::string sizes = "T8192,H" + std::to_string(heads);
    for (const bool backward : {false, true}) {
      const std::string what = backward ? "backward" : "forward",
                        limit = "kda_cuda/copy_of_" + what + "/" + sizes;
      const auto bytes =
          (backward ? kBackwardBytes : kForwardBytes) * 8192 * static_cast<std::size_t>(heads);
      add(limit, [=](benchmark::State& s) { copy(s, bytes); });
      add("kda_cuda/" + what + "/" + sizes,
          [=, c = problem_of(heads)](benchmark::State& s) { run(s, c, backward, limit); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace parity::kda_kernel
