// Speed of NVFP4 quantisation on the GPU: 8192 x 8192, time between events on the device, against a
// copy of as many bytes in the same run. The one-level chain reads x once, the others twice.
#include <benchmark/benchmark.h>
#include <list>
#include <string>

#include "kernels/device/workload_bench.hpp"

namespace parity::nvfp4 {
namespace {

constexpr std::int64_t kSide = 8192;
using device::kSets;
constexpr const char* kKernel = "quantize.nvfp4_cuda";

Case problem_of(const std::string& chain, Dtype dtype, bool swizzle) {
  Case c{.op = "quantize", .sizes = {{"M", kSide, {}}, {"K", kSide, {}}}, .dtype = dtype};
  c.options.set("chain", chain);
  c.options.set("stats", "0");
  if (swizzle) c.options.set("swizzle", "1");
  return c;
}

void quantise(benchmark::State& state, const Case& problem, const std::string& limit) {
  const KernelDef* kernel = device::kernel_here(state, kKernel);
  if (kernel == nullptr) return;
  DeviceStream stream;
  std::list<device::Workload> sets;
  std::vector<device::Workload*> by_number;
  for (int i = 0; i < kSets; ++i)
    by_number.push_back(&sets.emplace_back(*kernel, problem, false, stream));
  device::measure(state, stream, [&](int i) { by_number[static_cast<std::size_t>(i)]->forward(); });
  state.SetLabel("limit=" + limit + ";what=a copy of as many bytes;target=0.8");
}

void copy(benchmark::State& state, std::size_t bytes) {
  if (device::kernel_here(state, kKernel) != nullptr) device::measure_copy(state, bytes);
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.05);
  };
  for (const Dtype dtype : {Dtype::BF16, Dtype::F32}) {
    const std::size_t x = bytes_for(dtype, kSide * kSide);
    const std::size_t results = kSide * kSide / 2 + kSide * kSide / 16;
    for (const std::size_t reads : {1U, 2U}) {
      const std::string what = std::string(name(dtype)) + "," + std::to_string(reads) + " reads";
      const std::string limit = "quantize_cuda/copy/8192x8192," + what;
      add(limit, [=](benchmark::State& s) { copy(s, reads * x + results); });
      for (const char* chain : {"nvfp4_torchao_b1", "nvfp4_torchao_b2", "nvfp4_te"}) {
        if ((reads == 1) != (std::string(chain) == "nvfp4_torchao_b1")) continue;
        for (const bool swizzle : {false, true})
          add("quantize_cuda/quantise/8192x8192," + std::string(chain) + "," +
                  std::string(name(dtype)) + (swizzle ? ",128x4 too" : ""),
              [=, c = problem_of(chain, dtype, swizzle)](benchmark::State& s) {
                quantise(s, c, limit);
              });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace parity::nvfp4
