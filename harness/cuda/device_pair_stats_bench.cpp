// Speed of the one-pass comparison on the GPU: pairs of 256 MB a side, against a copy that moves as
// many bytes in the same run.
#include <benchmark/benchmark.h>
#include <string>

#include "harness/cuda/device_info.hpp"
#include "harness/cuda/device_pair_stats.hpp"
#include "harness/numeric/compare_bench.hpp"

namespace parity::compare_bench {
namespace {

bool has_device(benchmark::State& state) {
  static const DeviceReport report = query_devices();
  if (report.devices.empty()) state.SkipWithError(("unsupported: " + report.reason).c_str());
  return !report.devices.empty();
}

template <class Enqueue>
void measure(benchmark::State& state, DeviceStream& stream, const Enqueue& enqueue) {
  for (int warm = 0; warm < 3; ++warm) enqueue();
  for (auto _ : state) {
    enqueue();  // the device does not wait for the host
    stream.start();
    enqueue();
    state.SetIterationTime(stream.stop() / 1000);
  }
  state.SetBytesProcessed(2 * kBytes * static_cast<std::int64_t>(state.iterations()));
}

void compare(benchmark::State& state, Dtype dtype, std::int64_t one_in) {
  if (!has_device(state)) return;
  DeviceStream stream;
  const Pair& pair = pair_of(dtype, kBytes, one_in);
  DeviceMemory want(pair.want.size()), got(pair.got.size());
  stream.upload(pair.want, want);
  stream.upload(pair.got, got);
  DevicePairStats stats(dtype);
  measure(state, stream, [&] { stats.enqueue(want.data(), got.data(), pair.elements, stream); });
  benchmark::DoNotOptimize(stats.result(stream));
  state.SetLabel("limit=compare_cuda/copy;what=a copy of as many bytes;target=0.8");
}

void copy(benchmark::State& state) {
  if (!has_device(state)) return;
  DeviceStream stream;
  DeviceMemory from(kBytes), to(kBytes);
  measure(state, stream, [&] { stream.copy(from, to); });
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.02);
  };
  add("compare_cuda/copy", copy);
  for (const Dtype dtype : {Dtype::F64, Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::E4M3})
    for (const std::int64_t one_in : {kFew, std::int64_t{1}})
      add("compare_cuda/" + std::string(name(dtype)) +
              (one_in == 1 ? ",all differ" : ",few differ"),
          [=](benchmark::State& s) { compare(s, dtype, one_in); });
  return true;
}();

}  // namespace
}  // namespace parity::compare_bench
