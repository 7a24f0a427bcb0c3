// Cases a second of the whole walk on tiny shapes, with a process of its own for every candidate,
// against the bare processes: two a case, for its truth and for its candidate.
#include <benchmark/benchmark.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness/registry.hpp"
#include "harness/source.hpp"
#include "harness/suite.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

constexpr int kCases = 200;
constexpr const char* kProcesses = "suite/two bare processes a case";

std::vector<Subject> tiny_subjects() {
  std::vector<Subject> subjects;
  const ParsedId parsed = parse_id("l2norm/N3,D13/f32/normal/s0");
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    ParsedId one = parsed;
    one.problem.seed = seed;
    subjects.push_back(subject_of(resolve(registry(), one), "l2norm.rows"));
  }
  return subjects;
}

void count_cases(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kCases);
}

void bare_processes(benchmark::State& state) {
  const std::vector<Subject> subjects = tiny_subjects();  // as much memory to share
  const auto fork_twice = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      const pid_t grandchild = ::fork();
      if (grandchild == 0) ::_exit(0);
      ::waitpid(grandchild, nullptr, 0);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  };
  const int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (auto _ : state) {
    std::vector<std::jthread> pool;
    for (int j = 0; j < jobs; ++j)
      pool.emplace_back([&, j] {
        for (int i = j; i < kCases; i += jobs) fork_twice();
      });
  }
  count_cases(state);
}

void whole_walk(benchmark::State& state) {
  const std::vector<Subject> subjects = tiny_subjects();
  for (auto _ : state) {
    const SuiteResult result = run_suite(subjects, {}, [](const CaseRecord&) {});
    if (result.exit != 0) {
      state.SkipWithError("a case does not pass");
      return;
    }
  }
  count_cases(state);
  state.SetLabel(std::string("limit=") + kProcesses + ";what=bare processes");
}

const bool registered = [] {
  const auto add = [](const char* name, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  };
  add(kProcesses, bare_processes);
  add("suite/tiny cases", whole_walk);
  return true;
}();

}  // namespace
}  // namespace parity
