// Speed of NVFP4 quantisation and dequantisation on 2 threads, as bytes read and written, against a
// copy of the same size in the same run. Quantising reads x twice where the chain has a tensor
// scale (amax, then blocks), once in the one-level chain.
#include <thread>

#include "harness/registry.hpp"
#include "kernels/quantize/data_bench.hpp"
#include "kernels/quantize/frame.hpp"

namespace parity::nvfp4 {
namespace {

using namespace quantize_bench;

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
  std::string chain = {};  // "nvfp4_te"
  Dtype dtype = Dtype::F32;
  const Steps* steps = nullptr;
};

void quantise(benchmark::State& state, const Speed& s) {
  const std::vector<std::byte> x = values(s.dtype);
  std::vector<std::uint8_t> codes(kElements / 2), scales(kElements / kBlock);
  Case c;
  c.options.set("chain", s.chain);
  const MatrixJob job{
      .dtype = s.dtype, .x = x.data(), .rows = kRows, .columns = kColumns, .threads = kThreads};
  const bool two_passes = s.chain != "nvfp4_torchao_b1";
  for (auto _ : state) {
    const Plan plan = plan_of(c, two_passes ? amax_of(job, *s.steps) : 0);
    quantise_matrix(job, *s.steps, plan, {codes.data(), scales.data(), nullptr});
  }
  const std::size_t bytes = (two_passes ? 2 : 1) * x.size() + codes.size() + scales.size();
  report(state, bytes);
}

// Tiles (x is read twice, once from memory) and four over six (bound by its arithmetic).
void quantise_by_bands(benchmark::State& state, const Speed& s, std::int64_t tile) {
  const std::vector<std::byte> x = values(s.dtype);
  std::vector<std::uint8_t> codes(kElements / 2), scales(kElements / kBlock);
  Case c;
  c.options.set("chain", s.chain);
  const MatrixJob job{
      .dtype = s.dtype, .x = x.data(), .rows = kRows, .columns = kColumns, .threads = kThreads};
  for (auto _ : state)
    quantise_bands(job, *s.steps, plan_of(c, amax_of(job, *s.steps)), tile,
                   {codes.data(), scales.data(), nullptr});
  const std::size_t bytes = 2 * x.size() + codes.size() + scales.size();
  report(state, bytes);
}

// x^T, transformed, as bf16: read once, written once.
void transposed(benchmark::State& state, const Steps& steps, bool transform) {
  const std::vector<std::byte> x = values(Dtype::BF16);
  std::vector<std::byte> t(x.size());
  const std::vector<float> signs(16, -1);
  const MatrixJob job{
      .dtype = Dtype::BF16, .x = x.data(), .rows = kRows, .columns = kColumns, .threads = kThreads};
  for (auto _ : state) transpose(job, steps, transform ? signs.data() : nullptr, t.data());
  report(state, 2 * x.size());
}

void dequantise(benchmark::State& state, const Speed& s) {
  std::vector<std::byte> x = values(s.dtype);
  std::vector<std::uint8_t> codes(kElements / 2), scales(kElements / kBlock);
  Case c;
  c.options.set("chain", s.chain);
  const MatrixJob job{
      .dtype = s.dtype, .x = x.data(), .rows = kRows, .columns = kColumns, .threads = kThreads};
  const Plan plan = plan_of(c, amax_of(job, *s.steps));
  const MatrixResult result{codes.data(), scales.data(), nullptr};
  quantise_matrix(job, *s.steps, plan, result);
  for (auto _ : state) dequantise_matrix(job, *s.steps, plan, result, x.data());
  const std::size_t bytes = x.size() + codes.size() + scales.size();
  report(state, bytes);
}

const bool registered = [] {
  add(kCopy, copy);
  struct Set {
    const char* name;
    const char* needs;
    const Steps* steps;
  };
  for (const Set& set :
       {Set{"avx512", "avx512", &kAvx512Steps}, Set{"avx2", "avx2", &kAvx2Steps}}) {
    if (!missing_capability(set.needs).empty()) continue;
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
      const std::string tail = std::string(name(dtype)) + "," + set.name;
      for (const char* chain : {"nvfp4_te", "nvfp4_torchao_b2", "nvfp4_torchao_b1"})
        add("quantize/quantise/" + std::string(chain) + "," + tail, [=](benchmark::State& s) {
          quantise(s, {chain, dtype, set.steps});
        });
      add("quantize/tiles/nvfp4_te," + tail, [=](benchmark::State& s) {
        quantise_by_bands(s, {"nvfp4_te", dtype, set.steps}, 16);
      });
      add("quantize/choice/nvfp4_te_4over6," + tail, [=](benchmark::State& s) {
        quantise_by_bands(s, {"nvfp4_te_4over6", dtype, set.steps}, 1);
      });
      add("quantize/dequantise/nvfp4_torchao_b2," + tail, [=](benchmark::State& s) {
        dequantise(s, {"nvfp4_torchao_b2", dtype, set.steps});
      });
    }
    add(std::string("quantize/transpose/rht,bf16,") + set.name,
        [=](benchmark::State& s) { transposed(s, *set.steps, true); });
    add(std::string("quantize/transpose/plain,bf16,") + set.name,
        [=](benchmark::State& s) { transposed(s, *set.steps, false); });
  }
  return true;
}();

}  // namespace
}  // namespace parity::nvfp4
