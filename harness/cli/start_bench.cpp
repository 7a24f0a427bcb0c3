// How long a short command takes, from its start to its end.
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace parity::cli {
namespace {

void command(benchmark::State& state, const std::string& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string line = "'" + self + "' " + arguments + " > /dev/null";
  for (auto _ : state)
    if (std::system(line.c_str()) != 0) {
      state.SkipWithError("it failed");
      return;
    }
}

const bool registered = [] {
  const auto add = [](const std::string& name, const std::string& arguments) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [arguments](benchmark::State& s) { command(s, arguments); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(10);
  };
  add("start/list", "list");
  add("start/show", "show 'l2norm/N44,D128/f32/normal/s0'");
  return true;
}();

}  // namespace
}  // namespace parity::cli
