// LibTorch's comparisons on the pairs of compare_bench.cpp, with as many threads.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <benchmark/benchmark.h>
#include <string>

#include "harness/numeric/compare_bench.hpp"

namespace parity::compare_bench {
namespace {

using Call = bool (*)(const at::Tensor&, const at::Tensor&);

const Call kAllclose = [](const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b); };
const Call kEqual = [](const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); };

void measure(benchmark::State& state, Dtype dtype, at::ScalarType type, Call call) {
  at::NoGradGuard no_grad;
  at::set_num_threads(all_cores());
  const Pair& pair = pair_of(dtype, kBytes, kFew);
  const auto tensor = [&](const std::vector<std::byte>& bytes) {
    return at::from_blob(const_cast<std::byte*>(bytes.data()), {pair.elements}, type);
  };
  const at::Tensor a = tensor(pair.want);
  // Equality stops at the first difference, so it gets a copy.
  const at::Tensor b = call == kEqual ? a.clone() : tensor(pair.got);
  for (auto _ : state) benchmark::DoNotOptimize(call(a, b));
  state.SetBytesProcessed(2 * kBytes * static_cast<std::int64_t>(state.iterations()));
}

const bool registered = [] {
  const auto add = [](const std::string& name, Dtype dtype, at::ScalarType type, Call call) {
    const auto run = [=](benchmark::State& state) { measure(state, dtype, type, call); };
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  };
  add("compare/torch_allclose/f32", Dtype::F32, at::kFloat, kAllclose);
  add("compare/torch_allclose/bf16", Dtype::BF16, at::kBFloat16, kAllclose);
  add("compare/torch_equal/f32", Dtype::F32, at::kFloat, kEqual);
  return true;
}();

}  // namespace
}  // namespace parity::compare_bench
