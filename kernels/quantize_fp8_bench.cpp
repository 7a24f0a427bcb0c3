// Speed of FP8 quantisation and dequantisation on 2 threads, as bytes read and written, against a
// copy of the same size in the same run. A tensor or a 128x128 tile is read twice, a row once.
#include "harness/registry.hpp"
#include "kernels/fp8/frame.hpp"
#include "kernels/quantize/data_bench.hpp"

namespace parity::fp8_kernel {
namespace {

using namespace quantize_bench;

struct Speed {
  std::int64_t tile_rows = 1;
  std::int64_t tile_columns = 1;
  Dtype dtype = Dtype::F32;
  const Steps* steps = nullptr;
};

struct Buffers {
  explicit Buffers(const Speed& s)
      : x(values(s.dtype)),
        codes(kElements),
        job{.dtype = s.dtype,
            .rows = kRows,
            .columns = kColumns,
            .tile_rows = s.tile_rows,
            .tile_columns = s.tile_columns,
            .threads = kThreads},
        scales(static_cast<std::size_t>(job.down() * job.across())) {}

  std::vector<std::byte> x;
  std::vector<std::uint8_t> codes;
  Job job;
  std::vector<float> scales;
};

void quantise(benchmark::State& state, const Speed& s) {
  Buffers b(s);
  for (auto _ : state)
    quantise_matrix(b.job, *s.steps, {}, {}, b.x.data(), b.scales.data(), b.codes.data());
  report(state, (s.tile_rows > 1 ? 2 : 1) * b.x.size() + b.codes.size());
}

void dequantise(benchmark::State& state, const Speed& s) {
  Buffers b(s);
  quantise_matrix(b.job, *s.steps, {}, {}, b.x.data(), b.scales.data(), b.codes.data());
  for (auto _ : state)
    dequantise_matrix(b.job, *s.steps, {}, s.dtype, b.scales.data(), b.codes.data(), b.x.data());
  report(state, b.x.size() + b.codes.size());
}

const bool registered = [] {
  struct Set {
    const char* name;
    const Steps* steps;
  };
  struct Kind {
    const char* name;
    std::int64_t rows, columns;
  };
  for (const Set& set : {Set{"avx512", &kAvx512Steps}, Set{"avx2", &kAvx2Steps}}) {
    if (!missing_capability(set.name).empty()) continue;
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
      const std::string tail = "," + std::string(name(dtype)) + "," + set.name;
      for (const Kind& kind : {Kind{"fp8_tensor", kRows, kColumns}, Kind{"fp8_row", 1, kColumns},
                               Kind{"fp8_1x128", 1, 128}, Kind{"fp8_128x128", 128, 128}}) {
        const Speed speed{kind.rows, kind.columns, dtype, set.steps};
        add("quantize/quantise/" + std::string(kind.name) + tail,
            [=](benchmark::State& s) { quantise(s, speed); });
        if (kind.columns == kColumns && kind.rows == 1)
          add("quantize/dequantise/" + std::string(kind.name) + tail,
              [=](benchmark::State& s) { dequantise(s, speed); });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace parity::fp8_kernel
