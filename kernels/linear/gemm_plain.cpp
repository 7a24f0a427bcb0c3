#include "harness/numeric/formats.hpp"
#include "kernels/linear/gemm.hpp"

namespace parity::linear_kernel {
namespace {

constexpr std::int64_t kLanes = 4;
constexpr unsigned kRows = 2, kColumns = 2;
struct Lanes {
  float v[kLanes];
};
using Table = const float*;

Table load_table(const float* table) { return table; }
Lanes zero() { return {}; }
Lanes load(const float* x) { return {{x[0], x[1], x[2], x[3]}}; }
Lanes times(Lanes a, float s) { return {{a.v[0] * s, a.v[1] * s, a.v[2] * s, a.v[3] * s}}; }
Lanes madd(Lanes a, Lanes b, Lanes c) {
  for (std::int64_t i = 0; i < kLanes; ++i) c.v[i] += a.v[i] * b.v[i];
  return c;
}
float sum(Lanes a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
Lanes decode(const std::uint8_t* codes, std::int64_t part, Table table) {
  const std::uint8_t low = codes[2 * part], high = codes[2 * part + 1];
  return {{table[low & 15], table[low >> 4], table[high & 15], table[high >> 4]}};
}

#include "kernels/linear/gemm.inl"

}  // namespace

const Steps kPlainSteps{.columns = columns};

}  // namespace parity::linear_kernel
