// Speed of integer quantisation on 2 threads, as bytes read and written, against a copy of the same
// size in the same run.
#include <benchmark/benchmark.h>
#include <cstring>
#include <string>
#include <thread>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "kernels/integer/matrix.hpp"

namespace parity::integer_kernel {
namespace {

constexpr std::int64_t kRows = 4096, kColumns = 4096, kElements = kRows * kColumns;
constexpr int kThreads = 2;
constexpr const char* kCopy = "quantize/int_copy_bandwidth/64MiB,2 threads";

std::vector<std::byte> values(Dtype dtype) {
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

void copy(benchmark::State& state) {
  const std::vector<std::byte> from = values(Dtype::F32);
  std::vector<std::byte> to(from.size());
  const std::size_t half = from.size() / 2;
  for (auto _ : state) {
    std::jthread other(
        [&] { std::memcpy(to.data() + half, from.data() + half, from.size() - half); });
    std::memcpy(to.data(), from.data(), half);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * from.size()));
}

struct Speed {
  std::string name = {};
  Mapping mapping = Mapping::Symmetric;
  std::int64_t group = 32;
  bool packed = true;   // int4 pairs, else int8 codes
  bool values = false;  // dequantised too
};

void quantise(benchmark::State& state, const Speed& s, Dtype dtype, const Steps& steps) {
  const std::vector<std::byte> x = values(dtype);
  std::vector<std::uint8_t> packed(s.packed ? kElements / 2 : 0);
  std::vector<std::int8_t> codes(s.packed ? 0 : kElements);
  std::vector<std::byte> scales(bytes_for(dtype, kElements / s.group));
  std::vector<std::byte> back(s.values ? x.size() : 0);
  const MatrixJob job{.mapping = s.mapping,
                      .dtype = dtype,
                      .scale_dtype = dtype,
                      .qmin = s.packed ? -8.0F : -128.0F,
                      .qmax = s.packed ? 7.0F : 127.0F,
                      .x = x.data(),
                      .rows = kRows,
                      .columns = kColumns,
                      .group = s.group,
                      .threads = kThreads};
  const MatrixResult to{.codes = s.packed ? nullptr : codes.data(),
                        .packed = s.packed ? packed.data() : nullptr,
                        .scales = scales.data(),
                        .values = s.values ? back.data() : nullptr};
  for (auto _ : state) quantise_matrix(job, steps, to);
  const std::size_t bytes = x.size() + packed.size() + codes.size() + scales.size() + back.size();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.SetLabel(std::string("limit=") + kCopy + ";what=copy bandwidth;target=0.5");
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  };
  add(kCopy, copy);
  struct Set {
    const char* needs;
    const Steps* steps;
  };
  const std::vector<Speed> speeds = {
      {.name = "int4_g32_pack"},
      {.name = "int4_g32_fake", .values = true},
      {.name = "int8_rows", .mapping = Mapping::Rows, .group = kColumns, .packed = false}};
  for (const Set& set : {Set{"avx512", &kAvx512Steps}, Set{"avx2", &kAvx2Steps}}) {
    if (!missing_capability(set.needs).empty()) continue;
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16})
      for (const Speed& s : speeds)
        add("quantize/" + s.name + "/" + std::string(name(dtype)) + "," + set.needs,
            [=](benchmark::State& state) { quantise(state, s, dtype, *set.steps); });
  }
  return true;
}();

}  // namespace
}  // namespace parity::integer_kernel
