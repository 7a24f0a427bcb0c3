#include <immintrin.h>

#include "harness/numeric/formats.hpp"
#include "kernels/linear/gemm.hpp"

namespace parity::linear_kernel {
namespace {

constexpr std::int64_t kLanes = 8;
constexpr unsigned kRows = 4, kColumns = 2;
using Lanes = __m256;
struct Table {
  __m256 low, high;
};

Table load_table(const float* table) {
  return {_mm256_loadu_ps(table), _mm256_loadu_ps(table + 8)};
}
Lanes zero() { return _mm256_setzero_ps(); }
Lanes load(const float* x) { return _mm256_loadu_ps(x); }
Lanes times(Lanes a, float s) { return _mm256_mul_ps(a, _mm256_set1_ps(s)); }
Lanes madd(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }
float sum(Lanes a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// Eight nibbles of four bytes, spread to words by shifts of 0, 4, ... 28.
Lanes decode(const std::uint8_t* codes, std::int64_t part, Table table) {
  int four = 0;
  __builtin_memcpy(&four, codes + 4 * part, 4);
  const __m256i index =
      _mm256_srlv_epi32(_mm256_set1_epi32(four), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  const __m256 a = _mm256_permutevar8x32_ps(table.low, index);
  const __m256 b = _mm256_permutevar8x32_ps(table.high, index);
  return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}

#include "kernels/linear/gemm.inl"

}  // namespace

const Steps kAvx2Steps{.columns = columns};

}  // namespace parity::linear_kernel
