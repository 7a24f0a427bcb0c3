// golden verify from disk, end to end, against h5diff of the file with its copy and against bare
// reading: on a contiguous golden of our own that is frozen for it, 320 MB, in the page cache.
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "golden/golden.hpp"
#include "harness/registry.hpp"
#include "harness/walk.hpp"

namespace parity::golden {
namespace {

constexpr int kCases = 8;  // of 40 MB each

// Frozen when the first benchmark asks, removed at exit.
class Frozen {
 public:
  Frozen()
      : dir_(fs::temp_directory_path() / ("parity_golden_bench_" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
    FreezeOptions options{.file = file(), .contiguous = true};
    for (int seed = 0; seed < kCases; ++seed)
      options.cases.push_back(

          resolve(registry(), parse_id("l2norm/N4096,D256/f32/normal/s" + std::to_string(seed))));
    freeze(options);
    fs::copy_file(file(), copy());
  }
  ~Frozen() {
    std::error_code ignored;  // a leftover in the temporary folder is no failure
    fs::remove_all(dir_, ignored);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

  fs::path file() const { return dir_ / "large.h5"; }
  fs::path copy() const { return dir_ / "copy.h5"; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(fs::file_size(file())); }

 private:
  fs::path dir_;
};

const Frozen& frozen() {
  static const Frozen made;
  return made;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * frozen().bytes());
}

void read(benchmark::State& state) {
  frozen();  // not timed
  std::vector<char> buffer(1 << 20);
  for (auto _ : state) {
    std::ifstream in(frozen().file(), std::ios::binary);
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
      benchmark::DoNotOptimize(buffer.data());
  }
  count_bytes(state);
}

void run_command(benchmark::State& state, const std::string& command) {
  for (auto _ : state)
    if (std::system(command.c_str()) != 0) {
      state.SkipWithError("it failed");
      return;
    }
  count_bytes(state);
}

void h5diff(benchmark::State& state) {
  if (std::system("command -v h5diff > /dev/null") != 0) {
    state.SkipWithError("unsupported: no h5diff here");
    return;
  }
  run_command(state,
              "h5diff -q '" + frozen().file().string() + "' '" + frozen().copy().string() + "'");
}

void verify(benchmark::State& state, const std::string& flags, const std::string& label) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  run_command(state, "'" + self + "' golden verify --quiet " + flags + " '" +
                         frozen().file().string() + "' > /dev/null");
  state.SetLabel(label);
}

void whole(benchmark::State& state) {
  frozen();  // not timed
  for (auto _ : state) benchmark::DoNotOptimize(check_integrity(frozen().file()));
  count_bytes(state);
  state.SetLabel("limit=golden/read/320MB;what=reading it");
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  };
  add("golden/read/320MB", read);
  add("golden/h5diff/320MB", h5diff);
  add("golden/check_integrity/320MB", whole);
  add("golden/verify/320MB,--digests", [](benchmark::State& s) {
    verify(s, "--digests", "limit=golden/h5diff/320MB;what=h5diff;target=10");
  });
  add("golden/verify/320MB,recomputed",
      [](benchmark::State& s) { verify(s, "", "limit=golden/h5diff/320MB;what=h5diff"); });
  return true;
}();

}  // namespace
}  // namespace parity::golden
