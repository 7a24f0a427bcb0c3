// Whether this machine has what a kernel needs: instruction sets of the CPU, compute capabilities
// of the GPUs.
#include <charconv>
#include <fmt/format.h>

#include "harness/cuda/device_info.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

std::string missing_avx2() {
  __builtin_cpu_init();
  // What files named *_avx2.cpp are compiled for.
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
                   __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
  return has ? "" : "needs AVX2 with FMA and F16C, which this CPU has not";
}

std::string missing_avx512() {
  __builtin_cpu_init();
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has) return "needs AVX-512 (F, BW, DQ, VL), which this CPU has not";
  return missing_avx2();
}

// "90a", "100f", "100", "90+": a kernel with an a runs on exactly that capability; with an f or
// without a letter on later ones of the same major; with the plus on every later one.
std::string missing_device(std::string_view sm) {
  const bool exact = sm.ends_with('a');
  const bool later = sm.ends_with('+');
  int number = 0;
  const bool suffix = exact || later || sm.ends_with('f');
  const std::string_view digits = suffix ? sm.substr(0, sm.size() - 1) : sm;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size())
    return fmt::format("needs 'sm_{}', which is no compute capability", sm);
  static const DeviceReport report = query_devices();  // in a child process, once
  if (report.devices.empty()) return fmt::format("needs an sm_{} GPU: {}", sm, report.reason);
  std::string seen;
  for (const DeviceInfo& d : report.devices) {
    const int have = d.major * 10 + d.minor;
    if (have == number || (!exact && (later || d.major == number / 10) && have > number)) return "";
    seen += (seen.empty() ? "" : ", ") + fmt::format("{} ({})", d.name, d.sm());
  }
  return fmt::format("needs an sm_{} GPU; here: {}", sm, seen);
}

}  // namespace

std::string missing_capability(std::string_view needs) {
  if (needs.empty()) return "";
  if (needs == "avx2") return missing_avx2();
  if (needs == "avx512") return missing_avx512();
  if (needs.starts_with("sm_")) return missing_device(needs.substr(3));
  return fmt::format("needs '{}', which parity does not know", needs);
}

}  // namespace parity
