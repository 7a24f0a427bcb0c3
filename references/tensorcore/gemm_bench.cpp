// Speed of the software tensor core on 2 threads: products of 512 x 512 x 4096, in operations of
// the instruction that is emulated (two for a product).
#include <benchmark/benchmark.h>
#include <string>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "references/tensorcore/gemm.hpp"

namespace parity::tensorcore {
namespace {

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kColumns = 512;
constexpr std::int64_t kDepth = 4096;
constexpr int kThreads = 2;

std::vector<std::byte> normal(Dtype dtype, std::int64_t elements, std::uint64_t stream) {
  std::vector<double> values(static_cast<std::size_t>(elements));
  Rng{7, stream}.fill_normal(0, values);
  std::vector<std::byte> bytes(bytes_for(dtype, elements));
  narrow(dtype, values, 0, bytes.data());
  return bytes;
}

void multiply(benchmark::State& state, const Unit* unit, Dtype dtype, Isa isa) {
  const std::vector<std::byte> a = normal(dtype, kRows * kDepth, 0);
  const std::vector<std::byte> b = normal(dtype, kColumns * kDepth, 1);
  const Product p{.a = {dtype, a.data(), kRows},
                  .b = {dtype, b.data(), kColumns},
                  .K = kDepth,
                  .schedule = {.unit = unit}};
  for (auto _ : state) benchmark::DoNotOptimize(accumulators(p, kThreads, isa));
  state.SetItemsProcessed(state.iterations() * 2 * kRows * kColumns * kDepth);
  state.SetLabel("what=512 x 512 x 4096;unit=" + unit->name());
}

const bool registered = [] {
  struct Set {
    const char* name;
    const char* needs;
    Isa isa;
  };
  for (const Set& set : {Set{"avx512", "avx512", Isa::Avx512}, Set{"avx2", "avx2", Isa::Avx2},
                         Set{"plain", "", Isa::Plain}}) {
    if (!missing_capability(set.needs).empty()) continue;
    for (const Dtype dtype : {Dtype::E4M3, Dtype::BF16}) {
      const Unit* unit = find_unit("sm_90", "wgmma", dtype, dtype);
      const std::string title =
          "gemm/emulated/sm_90.wgmma," + std::string(name(dtype)) + "," + set.name;
      benchmark::RegisterBenchmark(
          title.c_str(), [=, isa = set.isa](benchmark::State& s) { multiply(s, unit, dtype, isa); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.3);
    }
  }
  return true;
}();

}  // namespace
}  // namespace parity::tensorcore
