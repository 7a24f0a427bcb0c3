// Speed of NVFP4 quantisation on the GPU: 8192 x 8192, time between events on the device, against a
// copy of as many bytes in the same run. Three sets of tensors take turns, each larger than the L2
// cache, so that every launch finds it cold; a launch that is not timed goes before each that is,
// so that the device never waits for the host. The one-level chain reads x once, the others twice.
#include <benchmark/benchmark.h>
#include <cstring>
#include <list>
#include <string>

#include "harness/cuda/device_memory.hpp"
#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity::nvfp4 {
namespace {

constexpr std::int64_t kSide = 8192;
constexpr int kSets = 3;
constexpr const char* kKernel = "quantize.nvfp4_cuda";

// 2^16 normal values, repeated.
std::vector<std::byte> values(Dtype dtype, std::size_t bytes) {
  constexpr std::size_t kPeriod = 1 << 16;
  std::vector<double> normal(kPeriod);
  Rng{1, 0}.fill_normal(0, normal);
  std::vector<std::byte> list(bytes);
  const std::size_t period = bytes_for(dtype, kPeriod);
  narrow(dtype, normal, 0, list.data());
  for (std::size_t at = period; at < bytes; at += period)
    std::memcpy(list.data() + at, list.data(), std::min(period, bytes - at));
  return list;
}

Case problem_of(const std::string& chain, Dtype dtype, bool swizzle) {
  Case c{.op = "quantize", .sizes = {{"M", kSide, {}}, {"K", kSide, {}}}, .dtype = dtype};
  c.options.set("chain", chain);
  c.options.set("stats", "0");
  if (swizzle) c.options.set("swizzle", "1");
  return c;
}

// The tensors of one launch, on the device.
class Set {
 public:
  Set(const Case& problem, DeviceStream& stream)
      : problem_(problem), stream_(stream), kernel_(*registry().kernel(kKernel)) {
    const OpDef& op = registry().op_or_throw("quantize");
    for (const TensorSpec& spec : op.inputs(problem)) add(spec, inputs_);
    for (const TensorSpec& spec : op.outputs(problem)) add(spec, outputs_);
    memory_.emplace_back(kernel_.workspace(problem, {}, Direction::Forward));
    workspace_ = {memory_.back().data(), memory_.back().size()};
  }
  void launch() {
    kernel_.forward({.problem = problem_,
                     .options = options_,
                     .inputs = inputs_,
                     .outputs = outputs_,
                     .workspace = workspace_,
                     .stream = stream_.handle()});
  }

 private:
  void add(const TensorSpec& spec, std::vector<TensorView>& views) {
    specs_.push_back(spec);
    const std::size_t bytes = bytes_for(spec.dtype, elements(spec.dims));
    memory_.emplace_back(bytes);
    if (spec.role == Role::Input) stream_.upload(values(spec.dtype, bytes), memory_.back());
    views.push_back({&specs_.back(), memory_.back().data()});
  }

  const Case& problem_;
  DeviceStream& stream_;
  const KernelDef& kernel_;
  Options options_ = {};
  std::list<TensorSpec> specs_ = {};
  std::list<DeviceMemory> memory_ = {};
  std::vector<TensorView> inputs_ = {}, outputs_ = {};
  std::span<std::byte> workspace_ = {};
};

// Tells the benchmark why there is nothing to measure; true where there is.
bool has_device(benchmark::State& state) {
  const KernelDef* kernel = registry().kernel(kKernel);
  const std::string why =
      kernel ? missing_capability(kernel->needs) : "built without CUDA (no nvcc was found)";
  if (!why.empty()) state.SkipWithError(("unsupported: " + why).c_str());
  return why.empty();
}

// launch(i) enqueues the work on set i.
template <class Enqueue>
void measure(benchmark::State& state, DeviceStream& stream, const Enqueue& launch) {
  for (int warm = 0; warm < 2 * kSets; ++warm) launch(warm % kSets);
  int next = 0;
  const auto turn = [&] { return next = (next + 1) % kSets; };
  for (auto _ : state) {
    launch(turn());
    stream.start();
    launch(turn());
    state.SetIterationTime(stream.stop() / 1000);
  }
}

void quantise(benchmark::State& state, const Case& problem, const std::string& limit) {
  if (!has_device(state)) return;
  DeviceStream stream;
  std::list<Set> sets;
  std::vector<Set*> by_number;
  for (int i = 0; i < kSets; ++i) by_number.push_back(&sets.emplace_back(problem, stream));
  measure(state, stream, [&](int i) { by_number[static_cast<std::size_t>(i)]->launch(); });
  state.SetLabel("limit=" + limit + ";what=a copy of as many bytes;target=0.8");
}

// Reads half of `bytes` and writes half.
void copy(benchmark::State& state, std::size_t bytes) {
  if (!has_device(state)) return;
  DeviceStream stream;
  std::list<DeviceMemory> memory;
  std::vector<DeviceMemory*> by_number;
  for (int i = 0; i < 2 * kSets; ++i) by_number.push_back(&memory.emplace_back(bytes / 2));
  measure(state, stream, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    stream.copy(*by_number[at], *by_number[at + kSets]);
  });
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
