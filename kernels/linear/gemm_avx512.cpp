#include <immintrin.h>

#include "harness/numeric/formats.hpp"
#include "kernels/linear/gemm.hpp"

namespace parity::linear_kernel {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr unsigned kRows = 6, kColumns = 4;
using Lanes = __m512;
using Table = __m512;

Table load_table(const float* table) { return _mm512_loadu_ps(table); }
Lanes zero() { return _mm512_setzero_ps(); }
Lanes load(const float* x) { return _mm512_loadu_ps(x); }
Lanes times(Lanes a, float s) { return _mm512_mul_ps(a, _mm512_set1_ps(s)); }
Lanes madd(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
float sum(Lanes a) { return _mm512_reduce_add_ps(a); }
// Eight bytes at even and odd words: the lower half of each pair is shifted by 0, 4, ..., 28.
Lanes decode(const std::uint8_t* codes, std::int64_t, Table table) {
  long long eight = 0;
  __builtin_memcpy(&eight, codes, 8);
  const __m512i halves = _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), _mm512_set1_epi64(eight));
  const __m512i index = _mm512_srlv_epi32(
      halves, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
  return _mm512_permutexvar_ps(index, table);
}

#include "kernels/linear/gemm.inl"

}  // namespace

const Steps kAvx512Steps{.columns = columns};

}  // namespace parity::linear_kernel
