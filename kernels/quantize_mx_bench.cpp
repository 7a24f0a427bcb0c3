// Speed of MX quantisation and dequantisation on 2 threads, as bytes read and written, against a
// copy of the same size in the same run.
#include "harness/registry.hpp"
#include "kernels/mx/frame.hpp"
#include "kernels/quantize/data_bench.hpp"

namespace parity::mx_kernel {
namespace {

using namespace quantize_bench;

struct Speed {
  Plan plan = {};
  Dtype dtype = Dtype::F32;
  const Steps* steps = nullptr;
};

struct Buffers {
  explicit Buffers(const Speed& s)
      : x(values(s.dtype)),
        codes(static_cast<std::size_t>(kElements / kBlock * code_bytes(s.plan.elem))),
        scales(kElements / kBlock),
        job{.dtype = s.dtype, .blocks = kElements / kBlock, .threads = kThreads} {}
  std::size_t bytes() const { return x.size() + codes.size() + scales.size(); }

  std::vector<std::byte> x;
  std::vector<std::uint8_t> codes, scales;
  Job job;
};

void quantise(benchmark::State& state, const Speed& s) {
  Buffers b(s);
  for (auto _ : state)
    quantise_blocks(b.job, *s.steps, s.plan, b.x.data(), b.codes.data(), b.scales.data());
  report(state, b.bytes());
}

void dequantise(benchmark::State& state, const Speed& s) {
  Buffers b(s);
  quantise_blocks(b.job, *s.steps, s.plan, b.x.data(), b.codes.data(), b.scales.data());
  for (auto _ : state)
    dequantise_blocks(b.job, *s.steps, s.plan, b.codes.data(), b.scales.data(), b.x.data());
  report(state, b.bytes());
}

const bool registered = [] {
  struct Set {
    const char* name;
    const Steps* steps;
  };
  struct Kind {
    const char* name;
    Plan plan;
  };
  for (const Set& set : {Set{"avx512", &kAvx512Steps}, Set{"avx2", &kAvx2Steps}}) {
    if (!missing_capability(set.name).empty()) continue;
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
      const std::string tail = "," + std::string(name(dtype)) + "," + set.name;
      for (const Kind& kind : {Kind{"mxfp8_rceil", {Dtype::E4M3, Mode::Rceil}},
                               Kind{"mxfp8_floor", {Dtype::E4M3, Mode::Floor}},
                               Kind{"mxfp4_floor", {Dtype::E2M1, Mode::Floor}}}) {
        const Speed speed{kind.plan, dtype, set.steps};
        add("quantize/quantise/" + std::string(kind.name) + tail,
            [=](benchmark::State& s) { quantise(s, speed); });
        if (kind.plan.mode == Mode::Floor)
          add("quantize/dequantise/" + std::string(kind.name) + tail,
              [=](benchmark::State& s) { dequantise(s, speed); });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace parity::mx_kernel
