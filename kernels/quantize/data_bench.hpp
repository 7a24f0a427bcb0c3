// What the benchmarks of quantisers share: a matrix of noise, the limit that they are held against.
#pragma once

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstring>
#include <string>
#include <vector>

#include "harness/numeric/philox.hpp"
#include "harness/tensor.hpp"

namespace parity::quantize_bench {

inline constexpr std::int64_t kRows = 4096;
inline constexpr std::int64_t kColumns = 8192;
inline constexpr std::int64_t kElements = kRows * kColumns;
inline constexpr int kThreads = 2;
inline constexpr const char* kCopy = "quantize/copy_bandwidth/128MiB,2 threads";

// 2^16 normal values, repeated.
inline std::vector<std::byte> values(Dtype dtype) {
  constexpr std::size_t kPeriod = 1 << 16;
  std::vector<double> normal(kPeriod);
  Rng{1, 0}.fill_normal(0, normal);
  std::vector<std::byte> bytes(bytes_for(dtype, kElements));
  narrow(dtype, normal, 0, bytes.data());
  const std::size_t period = bytes_for(dtype, kPeriod);
  for (std::size_t at = period; at < bytes.size(); at += period)
    std::memcpy(bytes.data() + at, bytes.data(), std::min(period, bytes.size() - at));
  return bytes;
}

// Bytes of one pass, and the copy of the same run that half of is the target.
inline void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.SetLabel(std::string("limit=") + kCopy + ";what=copy bandwidth;target=0.5");
}

template <class Run>
void add(const std::string& name, const Run& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond)
      ->MinTime(0.3);
}

}  // namespace parity::quantize_bench
