// Speed of the fused product of four-bit weights on 2 threads, in 2 M N K operations, against the
// dense f32 product of the same sizes: one row of x, where a dense product reads eight times the
// bytes and the fused one decodes every weight for a single use, and 256 rows.
#include <benchmark/benchmark.h>
#include <string>
#include <vector>

#include "harness/registry.hpp"
#include "kernels/linear/gemm.hpp"
#include "kernels/moe/matrix.hpp"

namespace parity::linear_kernel {
namespace {

constexpr std::int64_t kN = 4096, kK = 8192;
constexpr int kThreads = 2;
std::string dense_name(std::int64_t M) {
  return "quantized_linear/dense/" + std::to_string(M) + "x4096x8192,f32";
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
  state.SetItemsProcessed(state.iterations() * 2 * M * kN * kK);
  state.SetLabel("limit=" + dense_name(M) + ";what=dense f32 product;target=0.5");
}

void dense(benchmark::State& state, std::int64_t M) {
  const moe_kernel::Matrix x(M, kK), w(kN, kK);
  for (auto _ : state) {
    const moe_kernel::Matrix y = moe_kernel::times_transposed(kThreads, x, w);
    benchmark::DoNotOptimize(y.data.data());
  }
  state.SetItemsProcessed(state.iterations() * 2 * M * kN * kK);
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  };
  for (const std::int64_t M : {1, 256})
    add(dense_name(M), [=](benchmark::State& s) { dense(s, M); });
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
