// Sixteen f32 lanes as one register of AVX-512. Operations are explained in vec_portable.hpp.
#pragma once

// GCC 12 warns about its own _mm512_undefined_ps(), which is meant to be uninitialised.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cstdint>
#include <immintrin.h>

namespace parity::kda_kernel::avx512 {

struct Vec {
  static constexpr unsigned kRows = 8, kCols = 2;
  static constexpr unsigned kStrips = 4;
  __m512 v;

  static Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void stream(float* p) const {  // p on a cache line; visible to others after fence()
    _mm512_stream_ps(p, v);
  }
  static void fence() { _mm_sfence(); }
  static Vec load_bf16(const std::uint16_t* p) {
    const __m512i x =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(x, 16))};
  }
  void store_bf16(std::uint16_t* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i chosen = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x00400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
  }

  friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
  static Vec round(Vec a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static Vec scale(Vec x, Vec n) { return {_mm512_scalef_ps(x.v, n.v)}; }
  static Vec where_positive(Vec x, Vec a, Vec b) {
    return {
        _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GE_OQ), b.v, a.v)};
  }
  static Vec sums(const Vec* rows) {
    // Quarters of 128 bits: [a0 a1 a2 a3] and [b0 ...] fold to [a02 a13 b02 b13], four rows to one
    // quarter each, and so on.
    const auto halves = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    };
    const auto quarters = [&](int i) {
      const __m512 x = halves(rows[i].v, rows[i + 4].v), y = halves(rows[i + 8].v, rows[i + 12].v);
      return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
    };
    const auto two = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    };
    const __m512 p = two(quarters(0), quarters(1)), q = two(quarters(2), quarters(3));
    return {_mm512_add_ps(_mm512_shuffle_ps(p, q, 0x88), _mm512_shuffle_ps(p, q, 0xdd))};
  }
  static void transpose(Vec* r) {
    __m512 a[16], b[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = _mm512_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
      a[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4;
         ++i) {  // b[4i + c] holds columns c, c + 4, c + 8, c + 12 of rows 4i ... 4i + 3
      b[4 * i] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
      b[4 * i + 1] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
      b[4 * i + 2] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
      b[4 * i + 3] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const __m512 x = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x44),
                   y = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xee);
      const __m512 z = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x44),
                   w = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xee);
      r[c].v = _mm512_shuffle_f32x4(x, z, 0x88);
      r[c + 4].v = _mm512_shuffle_f32x4(x, z, 0xdd);
      r[c + 8].v = _mm512_shuffle_f32x4(y, w, 0x88);
      r[c + 12].v = _mm512_shuffle_f32x4(y, w, 0xdd);
    }
  }
};

}  // namespace parity::kda_kernel::avx512
