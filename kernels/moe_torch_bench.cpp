// moe_experts.grouped and LibTorch's eager loop over experts on the same tensors, with as many
// threads.
#include <benchmark/benchmark.h>
#include <string>

#include "kernels/moe/workload.hpp"

namespace parity::moe_kernel {
namespace {

constexpr int kThreads = 2;

void run(benchmark::State& state, const char* kernel, const char* sizes, Dtype dtype,
         bool backward) {
  Workload work = Workload::of("moe_experts", sizes, dtype);
  const KernelDef& def = *registry().kernel(kernel);
  for (auto _ : state) backward ? work.backward(def, kThreads) : work.forward(def, kThreads);
  const Sizes s = Sizes::parse(sizes);
  const auto slots = static_cast<double>(s["T"] * s["K"]);
  // Three products forward; forward again and twice as many backward.
  const double flops = (backward ? 18 : 6) * slots * static_cast<double>(s["L"] * s["F"]);
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  struct Shape {
    const char *name, *sizes;
  };
  for (const Shape shape :
       {Shape{"many_small", "T512,E64,K4,F128,L128"}, Shape{"few_large", "T512,E8,K2,F512,L512"}})
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16})
      for (const bool backward : {false, true}) {
        const std::string kind = std::string(backward ? "backward/" : "forward/") + shape.name +
                                 "/" + std::string(name(dtype));
        const std::string torch = "moe_experts/torch_" + kind;
        const char* eager =
            dtype == Dtype::F32 ? "moe_experts.torch_f32" : "moe_experts.torch_bf16";
        const auto add = [&](const std::string& title, const char* kernel, std::string label) {
          benchmark::RegisterBenchmark(title.c_str(),
                                       [=](benchmark::State& s) {
                                         run(s, kernel, shape.sizes, dtype, backward);
                                         if (!label.empty()) s.SetLabel(label);
                                       })
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond)
              ->MinTime(0.3);
        };
        add(torch, eager, "");
        add("moe_experts/grouped_" + kind, "moe_experts.grouped",
            "limit=" + torch + ";what=LibTorch's loop over experts;target=1");
      }
  return true;
}();

}  // namespace
}  // namespace parity::moe_kernel
