#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {
namespace {

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

const Micro* find_micro(std::string_view name) {
  if (name == "portable") return &kPortable;
  if (name == "avx2" && has_avx2()) return &kAvx2;
  if (name == "avx512" && has_avx512()) return &kAvx512;
  return nullptr;
}

const Micro& best_micro() {
  static const Micro& best = has_avx512() ? kAvx512 : has_avx2() ? kAvx2 : kPortable;
  return best;
}

}  // namespace parity::kda_kernel
