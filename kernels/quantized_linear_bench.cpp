// Speed of the fused product of four-bit weights on 2 threads. One row of x reads the weights once
// (bytes of codes and scales, against a copy of as many bytes); 256 rows do 2 M N K operations
// (against the dense f32 product of the same sizes).
#include <benchmark/benchmark.h>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "harness/registry.hpp"
#include "kernels/linear/gemm.hpp"
#include "kernels/moe/matrix.hpp"

namespace parity::linear_kernel {
namespace {

constexpr std::int64_t kN = 4096, kK = 8192;
constexpr int kThreads = 2;
constexpr const char* kCopy = "quantized_linear/copy_bandwidth/16MiB,2 threads";
constexpr const char* kDense = "quantized_linear/dense/256x4096x8192,f32";

void copy(benchmark::State& state) {
  const std::vector<std::byte> from(kN * kK / 2, std::byte{0x5A});
  std::vector<std::byte> to(from.size());
  const std::size_t half = from.size() / 2;
  for (auto _ : state) {
    std::jthread other(
        [&] { std::memcpy(to.data() + half, from.data() + half, from.size() - half); });
    std::memcpy(to.data(), from.data(), half);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * from.size()));
}

void fused(benchmark::State& state, bool e2m1, std::int64_t M, const Steps& steps) {
  std::vector<std::uint8_t> codes(kN * kK / 2), bytes(kN * kK / kStep, 0x38);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37);
  const std::vector<float> scales(kN * kK / 32, 0.5F);
  const std::vector<float> x(static_cast<std::size_t>(M * kK), 0.25F);
  std::vector<float> y(static_cast<std::size_t>(M * kN));
  const Weights w{.N = kN,
                  .K = kK,
                  .group = e2m1 ? 16 : 32,
                  .codes = codes.data(),
                  .bytes = e2m1 ? bytes.data() : nullptr,
                  .scales = e2m1 ? nullptr : scales.data(),
                  .table = e2m1 ? kE2m1Values : kInt4Values};
  for (auto _ : state)
    multiply(steps, kThreads, {.x = x.data(), .M = M, .y = y.data(), .ldy = kN}, w);
  if (M == 1) {
    const std::size_t read = codes.size() + (e2m1 ? bytes.size() : 4 * scales.size());
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(read));
    state.SetLabel(std::string("limit=") + kCopy + ";what=copy bandwidth;target=0.5");
  } else {
    state.SetItemsProcessed(state.iterations() * 2 * M * kN * kK);
    state.SetLabel(std::string("limit=") + kDense + ";what=dense f32 product;target=0.5");
  }
}

void dense(benchmark::State& state) {
  const moe_kernel::Matrix x(256, kK), w(kN, kK);
  for (auto _ : state) {
    const moe_kernel::Matrix y = moe_kernel::times_transposed(kThreads, x, w);
    benchmark::DoNotOptimize(y.data.data());
  }
  state.SetItemsProcessed(state.iterations() * 2 * 256 * kN * kK);
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  };
  add(kCopy, copy);
  add(kDense, dense);
  struct Set {
    const char* needs;
    const Steps* steps;
  };
  for (const Set& set : {Set{"avx512", &kAvx512Steps}, Set{"avx2", &kAvx2Steps}}) {
    if (!missing_capability(set.needs).empty()) continue;
    for (const bool e2m1 : {true, false})
      for (const std::int64_t M : {1, 256})
        add(std::string("quantized_linear/fused/") + (e2m1 ? "nvfp4" : "int4") + "," +
                std::to_string(M) + "x4096x8192," + set.needs,
            [=](benchmark::State& s) { fused(s, e2m1, M, *set.steps); });
  }
  return true;
}();

}  // namespace
}  // namespace parity::linear_kernel
