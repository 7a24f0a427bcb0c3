// Cases a second of the whole runner on tiny shapes, from its start to its report, with a process
// of its own for every truth and every candidate.
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace parity {
namespace {

namespace fs = std::filesystem;

constexpr int kCases = 400;

// A folder for the list of ids and the run, removed afterwards.
class Folder {
 public:
  Folder()
      : dir_(fs::temp_directory_path() / ("parity_suite_bench_" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~Folder() {
    std::error_code ignored;  // a leftover in the temporary folder is no failure
    fs::remove_all(dir_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

 private:
  fs::path dir_;
};

void tiny_cases(benchmark::State& state) {
  const Folder folder;
  std::ofstream ids(folder.path("ids"));
  for (int seed = 0; seed < kCases; ++seed)
    ids << "l2norm/N3,D13/f32/normal/s" << seed << "@l2norm.rows\n";
  ids.close();
  // Another executable image, so that what this process holds does not make its children heavy.
  const std::string command = "'" + fs::read_symlink("/proc/self/exe").string() +
                              "' run --quiet --force --from '" + folder.path("ids") + "' --out '" +
                              folder.path("run") + "' > /dev/null";
  for (auto _ : state)
    if (std::system(command.c_str()) != 0) {
      state.SkipWithError("a case does not pass");
      return;
    }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kCases);
}

const bool registered = [] {
  benchmark::RegisterBenchmark("suite/tiny cases", tiny_cases)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
  return true;
}();

}  // namespace
}  // namespace parity
