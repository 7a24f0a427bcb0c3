// A plug-in in C++, forward only, in bf16 with f32 sums: takes rows of at most 128 elements.
//
//   c++ -std=c++17 -O2 -shared -fPIC -I harness/plugin -o l2norm.so ci/examples/plugin/l2norm.cpp
//   parity run --plugin ./l2norm.so
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "parity_plugin.h"

namespace {

constexpr std::int64_t kWidest = 128;

float widen(std::uint16_t code) {
  const std::uint32_t bits = std::uint32_t{code} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint16_t narrow(float value) {  // to nearest even; finite values
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

const char* supports(const parity_case* problem) {
  return parity_extent(problem, "D", 0) <= kWidest ? nullptr : "rows of more than 128 elements";
}

const char* forward(const parity_launch* l) {
  const std::int64_t N = parity_extent(l->problem, "N", 0), D = parity_extent(l->problem, "D", 0);
  const auto eps = static_cast<float>(std::atof(parity_option_or(l->problem, "eps", "1e-6")));
  const auto* x = static_cast<const std::uint16_t*>(parity_in(l, "x"));
  auto* y = static_cast<std::uint16_t*>(parity_out(l, "y"));
  for (std::int64_t n = 0; n < N; ++n) {
    float sum = 0;
    for (std::int64_t d = 0; d < D; ++d) sum += widen(x[n * D + d]) * widen(x[n * D + d]);
    const float r = 1 / std::sqrt(sum + eps);
    for (std::int64_t d = 0; d < D; ++d) y[n * D + d] = narrow(widen(x[n * D + d]) * r);
  }
  return nullptr;
}

const char* const kDtypes[] = {"bf16", nullptr};

const parity_plugin* table() {
  static parity_kernel kernel = [] {
    parity_kernel made = {};
    made.op = "l2norm";
    made.name = "l2norm.plugin_cpp";
    made.what = "rows one by one, in C++";
    made.dtypes = kDtypes;
    made.supports = supports;
    made.forward = forward;
    return made;
  }();
  static const parity_plugin plugin = {PARITY_PLUGIN_VERSION, sizeof(parity_kernel),
                                       "example in C++", &kernel, 1};
  return &plugin;
}

}  // namespace

extern "C" const parity_plugin* parity_plugin_kernels(void) { return table(); }
