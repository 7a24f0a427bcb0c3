// Sixteen f32 lanes as two registers of AVX2 with FMA. Operations are explained in
// vec_portable.hpp.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace parity::kda_kernel::avx2 {

struct Vec {
  static constexpr unsigned kRows = 6, kCols = 1;
  static constexpr unsigned kStrips = 1;
  __m256 lo, hi;

  static Vec broadcast(float v) {
    const __m256 x = _mm256_set1_ps(v);
    return {x, x};
  }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  void stream(float* p) const {  // p on a cache line; visible to others after fence()
    _mm256_stream_ps(p, lo);
    _mm256_stream_ps(p + 8, hi);
  }
  static void fence() { _mm_sfence(); }
  static __m256 widen(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  static Vec load_bf16(const std::uint16_t* p) {
    return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static __m256i narrow(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  }
  void store_bf16(std::uint16_t* p) const {
    const __m256i packed = _mm256_packus_epi32(narrow(lo), narrow(hi));  // within 128-bit halves
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }

  friend Vec operator+(Vec a, Vec b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  friend Vec operator-(Vec a, Vec b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  friend Vec operator*(Vec a, Vec b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  friend Vec operator/(Vec a, Vec b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  static Vec fma(Vec a, Vec b, Vec c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static Vec abs(Vec a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static Vec round(Vec a) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
  }
  static __m256 scale(__m256 x, __m256 n) {
    const __m256i all = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(all, 1);
    const auto power = [](__m256i e) {
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    return _mm256_mul_ps(_mm256_mul_ps(x, power(half)), power(_mm256_sub_epi32(all, half)));
  }
  static Vec scale(Vec x, Vec n) { return {scale(x.lo, n.lo), scale(x.hi, n.hi)}; }
  static Vec where_positive(Vec x, Vec a, Vec b) {
    const __m256 zero = _mm256_setzero_ps();
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, zero, _CMP_GE_OQ)),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, zero, _CMP_GE_OQ))};
  }
  static Vec sums(const Vec* rows) {
    // After the first step a row is eight lanes; pair rows 4 apart into [A0 A1 | B0 B1] halves,
    // then fold within them.
    const auto fold = [&](int i) { return _mm256_add_ps(rows[i].lo, rows[i].hi); };
    const auto pair = [&](int i) {
      const __m256 a = fold(i), b = fold(i + 4);
      return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    };
    const auto two = [](__m256 a, __m256 b) {
      return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    };
    const auto eight = [&](int i) {
      const __m256 p = two(pair(i), pair(i + 1)), q = two(pair(i + 2), pair(i + 3));
      return _mm256_add_ps(_mm256_shuffle_ps(p, q, 0x88), _mm256_shuffle_ps(p, q, 0xdd));
    };
    return {eight(0), eight(8)};
  }
  static void transpose8(__m256& r0, __m256& r1, __m256& r2, __m256& r3, __m256& r4, __m256& r5,
                         __m256& r6, __m256& r7) {
    const __m256 a0 = _mm256_unpacklo_ps(r0, r1), a1 = _mm256_unpackhi_ps(r0, r1);
    const __m256 a2 = _mm256_unpacklo_ps(r2, r3), a3 = _mm256_unpackhi_ps(r2, r3);
    const __m256 a4 = _mm256_unpacklo_ps(r4, r5), a5 = _mm256_unpackhi_ps(r4, r5);
    const __m256 a6 = _mm256_unpacklo_ps(r6, r7), a7 = _mm256_unpackhi_ps(r6, r7);
    const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
    const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
    const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
    const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
    r0 = _mm256_permute2f128_ps(b0, b4, 0x20), r4 = _mm256_permute2f128_ps(b0, b4, 0x31);
    r1 = _mm256_permute2f128_ps(b1, b5, 0x20), r5 = _mm256_permute2f128_ps(b1, b5, 0x31);
    r2 = _mm256_permute2f128_ps(b2, b6, 0x20), r6 = _mm256_permute2f128_ps(b2, b6, 0x31);
    r3 = _mm256_permute2f128_ps(b3, b7, 0x20), r7 = _mm256_permute2f128_ps(b3, b7, 0x31);
  }
  static void transpose(Vec* r) {
    transpose8(r[0].lo, r[1].lo, r[2].lo, r[3].lo, r[4].lo, r[5].lo, r[6].lo, r[7].lo);
    transpose8(r[0].hi, r[1].hi, r[2].hi, r[3].hi, r[4].hi, r[5].hi, r[6].hi, r[7].hi);
    transpose8(r[8].lo, r[9].lo, r[10].lo, r[11].lo, r[12].lo, r[13].lo, r[14].lo, r[15].lo);
    transpose8(r[8].hi, r[9].hi, r[10].hi, r[11].hi, r[12].hi, r[13].hi, r[14].hi, r[15].hi);
    for (int i = 0; i < 8; ++i) {
      const __m256 t = r[i].hi;
      r[i].hi = r[i + 8].lo;
      r[i + 8].lo = t;
    }
  }
};

}  // namespace parity::kda_kernel::avx2
