// describe_run: the machine as this process finds it, the build as build_info() states it.
#include "harness/environment.hpp"

#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fstream>
#include <sched.h>
#include <string_view>
#include <sys/utsname.h>
#include <unistd.h>

#include "harness/build_info.hpp"
#include "harness/cuda/device_info.hpp"

namespace parity {
namespace {

std::string utc(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

// What follows `key` and an optional separator on the first line that starts with it: "model
// name\t: AMD EPYC" -> "AMD EPYC".
std::string value_of_line(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = std::string_view(line).substr(key.size());
    const std::size_t begin = rest.find_first_not_of(" \t:=\"");
    if (begin == std::string_view::npos) return {};
    rest.remove_prefix(begin);
    return std::string(rest.substr(0, rest.find_last_not_of(" \t\"") + 1));
  }
  return {};
}

// Cores that this process may run on, which a container may make fewer than the machine has.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// The instruction sets that kernels ask for, of those that this processor has.
std::string instruction_sets() {
  std::string text = "x86-64";
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) text += " avx2";
  if (__builtin_cpu_supports("fma")) text += " fma";
  if (__builtin_cpu_supports("avx512f")) text += " avx512f";
  if (__builtin_cpu_supports("avx512bw")) text += " avx512bw";
  if (__builtin_cpu_supports("avx512dq")) text += " avx512dq";
  if (__builtin_cpu_supports("avx512vl")) text += " avx512vl";
  return text;
}

std::map<std::string, std::string> describe_host() {
  utsname system{};
  uname(&system);
  std::string os = value_of_line("/etc/os-release", "PRETTY_NAME=");
  os += (os.empty() ? "" : ", ") + std::string(system.sysname) + " " + system.release;
  return {{"cpu", value_of_line("/proc/cpuinfo", "model name")},
          {"isa", instruction_sets()},
          {"cores", std::to_string(usable_cores())},
          {"os", os}};
}

// Empty where there is no device: the record then says null.
std::map<std::string, std::string> describe_device() {
  const DeviceReport report = query_devices();
  if (report.devices.empty()) return {};
  const DeviceInfo& first = report.devices.front();
  return {{"name", first.name},
          {"sm", first.sm()},
          {"count", std::to_string(report.devices.size())},
          {"memory_bytes", std::to_string(first.memory_bytes)},
          {"driver", cuda_version_text(report.driver_version)},
          {"runtime", cuda_version_text(report.runtime_version)}};
}

std::map<std::string, std::string> as_map(std::span<const NamedText> pairs) {
  std::map<std::string, std::string> result;
  for (const NamedText& pair : pairs) result.emplace(pair.name, pair.text);
  return result;
}

}  // namespace

RunRecord describe_run(const std::string& command, Lane lane, std::optional<std::uint64_t> seed) {
  const BuildInfo& build = build_info();
  RunRecord run;
  run.started = utc("%Y-%m-%dT%H:%M:%SZ");
  run.command = command;
  run.commit = build.commit;
  run.lane = name(lane);
  run.host = describe_host();
  run.device = describe_device();
  run.compiler = as_map(build.compiler);
  run.flags = as_map(build.flags);
  run.libraries = as_map(build.libraries);
  run.seed = seed;
  return run;
}

std::string today() { return utc("%Y-%m-%d"); }

std::string torch_library_path() {
  Dl_info hub{};
  if (dladdr(reinterpret_cast<const void*>(&torch_library_path), &hub) == 0) return {};
  const std::string path = hub.dli_fname;
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? std::string(".") : path.substr(0, slash);
  const std::string library = folder + "/libparity_torch.so";
  return access(library.c_str(), R_OK) == 0 ? library : std::string();
}

}  // namespace parity
