// Speed of the one-pass comparison against the read bandwidth of the same minute, and against what
// people use otherwise. Bytes are those of both sides. LibTorch's part is compare_torch_bench.cpp.
#include "harness/numeric/compare_bench.hpp"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "golden/h5.hpp"
#include "harness/numeric/pair_stats.hpp"

namespace parity::compare_bench {
namespace {

// Everything read once and folded into one word, by the widest loads there are.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
std::uint64_t
fold(const std::byte* bytes, std::size_t size) {
  using Vector [[gnu::vector_size(64)]] = std::uint64_t;
  Vector sum[4] = {};
  for (std::size_t at = 0; at + sizeof(sum) <= size; at += sizeof(sum)) {
    for (std::size_t k = 0; k < 4; ++k) {
      Vector part;
      __builtin_memcpy(&part, bytes + at + k * sizeof(Vector), sizeof(Vector));
      sum[k] ^= part;
    }
  }
  const Vector all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word ^= all[i];
  return word;
}

void read_both(const Pair& pair, int threads) {
  const auto part = [&](int t) {
    const std::size_t size = pair.want.size();
    const auto n = static_cast<std::size_t>(threads), k = static_cast<std::size_t>(t);
    const std::size_t first = size * k / n, count = size * (k + 1) / n - first;
    benchmark::DoNotOptimize(fold(pair.want.data() + first, count));
    benchmark::DoNotOptimize(fold(pair.got.data() + first, count));
  };
  std::vector<std::jthread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(part, t);
  part(0);
}

void count_bytes(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(2 * bytes * static_cast<std::int64_t>(state.iterations()));
}

void read(benchmark::State& state, std::int64_t bytes, int threads) {
  const Pair& pair = pair_of(Dtype::F32, bytes, kFew);
  for (auto _ : state) read_both(pair, threads);
  count_bytes(state, bytes);
}

void equal_memory(benchmark::State& state) {
  const Pair& pair = pair_of(Dtype::F32, kBytes, kFew);
  const std::vector<std::byte> copy = pair.want;  // else it stops at the first difference
  for (auto _ : state) {
    benchmark::DoNotOptimize(std::memcmp(pair.want.data(), copy.data(), copy.size()));
  }
  count_bytes(state, kBytes);
}

struct OnePass {
  Dtype dtype = Dtype::F32;
  std::int64_t one_in = kFew;
  double target = 0;
  int threads = 0;  // of both the comparison and its limit; 0: as pair_stats chooses, all cores
  std::int64_t bytes = kBytes;
};

std::string size_of(std::int64_t bytes) {
  return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + "MB" : std::to_string(bytes >> 10) + "KB";
}

std::string read_name(std::int64_t bytes, int threads) {
  return "compare/read/" + size_of(bytes) + ",threads=" + std::to_string(threads);
}

void one_pass(benchmark::State& state, const OnePass& p) {
  const Pair& pair = pair_of(p.dtype, p.bytes, p.one_in);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        pair_stats(p.dtype, pair.want.data(), pair.got.data(), pair.elements, p.threads));
  }
  count_bytes(state, p.bytes);
  const int threads = p.threads == 0 ? all_cores() : p.threads;
  state.SetLabel("limit=" + read_name(p.bytes, threads) + ";what=reading both" +
                 (p.target > 0 ? ";target=" + std::to_string(p.target) : ""));
}

void plain(benchmark::State& state, Dtype dtype) {
  const Pair& pair = pair_of(dtype, kBytes / 16, kFew);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        pair_stats_plain(dtype, pair.want.data(), pair.got.data(), pair.elements, 1));
  }
  count_bytes(state, kBytes / 16);
}

// What a command prints; empty if it fails.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[256];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) text += buffer;
  return ::pclose(pipe) == 0 ? text : "";
}

// NumPy on arrays of the same size and the same share of differing elements, timed by itself.
void numpy(benchmark::State& state, const std::string& call) {
  const std::string script =
      "import numpy as np, time; n=" + std::to_string(kBytes / 4) +
      "; a=np.resize(np.random.default_rng(1).standard_normal(1<<18).astype(np.float32), n)"
      "; b=a.copy(); b[::100000]*=np.float32(1.0001)"
      "; t=time.perf_counter(); " +
      call + "; print(time.perf_counter()-t)";
  for (auto _ : state) {
    std::string seconds;
    for (const char* python : {"python3", "/usr/bin/python3"}) {
      if (seconds.empty())
        seconds = output_of(std::string(python) + " -c '" + script + "' 2>/dev/null");
    }
    if (seconds.empty()) {
      state.SkipWithError("unsupported: no python3 with NumPy here");
      return;
    }
    state.SetIterationTime(std::strtod(seconds.c_str(), nullptr));
  }
  count_bytes(state, kBytes);
}

// Two contiguous datasets in two files; h5diff reads them from the page cache.
void h5diff(benchmark::State& state) {
  if (std::system("command -v h5diff > /dev/null") != 0) {
    state.SkipWithError("unsupported: no h5diff here");
    return;
  }
  const Pair& pair = pair_of(Dtype::F32, kBytes, kFew);
  const std::string stem =
      (std::filesystem::temp_directory_path() / ("parity_bench_" + std::to_string(::getpid())))
          .string();
  const auto write = [&](const std::string& path, const std::vector<std::byte>& bytes) {
    h5::Writer writer(path);
    writer.dataset(
        "x", Tensor{.spec = {.name = "x", .dims = {{"N", pair.elements}}}, .bytes = bytes}, true);
    writer.close();
  };
  const std::string a = stem + "_a.h5", b = stem + "_b.h5";
  write(a, pair.want);
  write(b, pair.got);
  const std::string command = "h5diff -q '" + a + "' '" + b + "'";
  int status = 0;
  for (auto _ : state) status = std::system(command.c_str());
  std::filesystem::remove(a);
  std::filesystem::remove(b);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
    state.SkipWithError("h5diff did not find the differences");
  count_bytes(state, kBytes);
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    return benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  const auto add_read = [&](std::int64_t bytes, int threads) {
    add(read_name(bytes, threads), [=](benchmark::State& s) {
      read(s, bytes, threads);
    })->MinTime(0.3);
  };
  const auto add_one_pass = [&](const OnePass& p) {
    const std::string name = "compare/one_pass/" + std::string(parity::name(p.dtype)) +
                             (p.one_in == kAll ? ",all_differ," : ",few_differ,") +
                             size_of(p.bytes) +
                             (p.threads > 0 ? ",threads=" + std::to_string(p.threads) : "");
    add(name, [p](benchmark::State& s) { one_pass(s, p); })->MinTime(0.3);
  };
  add_read(kBytes, 1);
  if (all_cores() > 1) add_read(kBytes, all_cores());
  add_read(kBytes / 16, all_cores());
  add_read(64 << 10, 1);
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
    add_one_pass({.dtype = dtype, .one_in = kFew, .target = 0.8});
    add_one_pass({.dtype = dtype, .one_in = kAll, .target = 0.5});
    add_one_pass({.dtype = dtype, .one_in = kFew, .threads = 1});
    add_one_pass({.dtype = dtype, .one_in = kAll, .threads = 1});
  }
  add_one_pass({.dtype = Dtype::F16});
  add_one_pass({.dtype = Dtype::F16, .one_in = kAll});
  for (const Dtype dtype : {Dtype::F64, Dtype::E4M3, Dtype::E2M1}) {  // by the plain code
    add_one_pass({.dtype = dtype, .one_in = kAll, .bytes = kBytes / 16});
  }
  add_one_pass({.dtype = Dtype::F32, .threads = 1, .bytes = 64 << 10});
  add("compare/plain/f32", [](benchmark::State& s) { plain(s, Dtype::F32); })->Iterations(3);
  add("compare/plain/bf16", [](benchmark::State& s) { plain(s, Dtype::BF16); })->Iterations(3);
  add("compare/memcmp/256MB", equal_memory)->MinTime(0.3);
  for (const char* call : {"np.array_equal(a,b)", "np.allclose(a,b)"}) {
    const std::string function = std::string(call).substr(3, std::string(call).find('(') - 3);
    benchmark::RegisterBenchmark(("compare/numpy/" + function).c_str(),
                                 [call](benchmark::State& s) { numpy(s, call); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  }
  add("compare/h5diff/f32", h5diff)->Iterations(1);
  return true;
}();

}  // namespace
}  // namespace parity::compare_bench
