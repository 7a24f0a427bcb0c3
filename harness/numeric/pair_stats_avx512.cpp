// The pair statistics by AVX-512 (F, BW, CD, DQ, VL).
#include <immintrin.h>

#include "harness/numeric/pair_stats_block.hpp"
#include "harness/numeric/pair_stats_rows.hpp"

namespace parity::pair_detail {
namespace {

struct Avx512 {
  using Ints = __m512i;  // 16 of 32 bits
  using Mask = __mmask16;
  using Flags = __mmask8;
  struct Doubles {  // lanes 0-7 and 8-15
    __m512d low, high;
  };

  // --- doubles
  static Doubles zeros() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
  static Doubles add(Doubles x, Doubles y) { return {_mm512_add_pd(x.low, y.low), _mm512_add_pd(x.high, y.high)}; }
  static Doubles sub(Doubles x, Doubles y) { return {_mm512_sub_pd(x.low, y.low), _mm512_sub_pd(x.high, y.high)}; }
  static Doubles mul(Doubles x, Doubles y) { return {_mm512_mul_pd(x.low, y.low), _mm512_mul_pd(x.high, y.high)}; }
  static Doubles max(Doubles x, Doubles y) { return {_mm512_max_pd(x.low, y.low), _mm512_max_pd(x.high, y.high)}; }
  static Doubles abs(Doubles x) { return {_mm512_abs_pd(x.low), _mm512_abs_pd(x.high)}; }
  static Doubles times(Doubles x, double factor) { return mul(x, {_mm512_set1_pd(factor), _mm512_set1_pd(factor)}); }
  static Doubles fused(Doubles x, Doubles y, Doubles z) {
    return {_mm512_fmadd_pd(x.low, y.low, z.low), _mm512_fmadd_pd(x.high, y.high, z.high)};
  }
  static Doubles keep(Mask mask, Doubles x) {
    return {_mm512_maskz_mov_pd(static_cast<__mmask8>(mask), x.low),
            _mm512_maskz_mov_pd(static_cast<__mmask8>(mask >> 8), x.high)};
  }
  // Zero where the denominator is.
  static Doubles quotient(Doubles x, Doubles y) {
    const __m512d zero = _mm512_setzero_pd();
    return {_mm512_maskz_div_pd(_mm512_cmp_pd_mask(y.low, zero, _CMP_NEQ_OQ), x.low, y.low),
            _mm512_maskz_div_pd(_mm512_cmp_pd_mask(y.high, zero, _CMP_NEQ_OQ), x.high, y.high)};
  }
  // Remembers whether x > y anywhere that `value` is not zero.
  static Flags note_greater(Flags flags, Doubles x, Doubles y, Doubles value) {
    const auto in = [](__m512d a, __m512d b, __m512d v) {
      const __mmask8 there = _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_NEQ_OQ);
      return static_cast<unsigned>(_mm512_mask_cmp_pd_mask(there, a, b, _CMP_GT_OQ));
    };
    return static_cast<Flags>(flags | in(x.low, y.low, value.low) | in(x.high, y.high, value.high));
  }
  static bool any(Flags flags) { return flags != 0; }
  static unsigned equals(Doubles x, double y) {
    const __m512d value = _mm512_set1_pd(y);
    return static_cast<unsigned>(_mm512_cmp_pd_mask(x.low, value, _CMP_EQ_OQ)) |
           static_cast<unsigned>(_mm512_cmp_pd_mask(x.high, value, _CMP_EQ_OQ)) << 8;
  }
  static bool all_finite(Doubles x) {
    constexpr int kInfinitiesAndNans = 0x99;
    return (_mm512_fpclass_pd_mask(x.low, kInfinitiesAndNans) | _mm512_fpclass_pd_mask(x.high, kInfinitiesAndNans)) == 0;
  }
  static double largest(Doubles x) { return _mm512_reduce_max_pd(_mm512_max_pd(x.low, x.high)); }
  static void store(double (&to)[kLanes], Doubles x) {
    _mm512_store_pd(to, x.low);
    _mm512_store_pd(to + 8, x.high);
  }

  // --- integers
  static Ints no_ints() { return _mm512_setzero_si512(); }
  static Ints load_32(const void* p) { return _mm512_loadu_si512(p); }
  static Ints load_16(const void* p) { return _mm512_cvtepi16_epi32(load_half(p)); }
  static void store(BitVector* to, Ints x) { _mm512_store_si512(to, x); }
  static Doubles wide_f32(Ints bits) {
    return {_mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_castsi512_si256(bits))),
            _mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_extracti64x4_epi64(bits, 1)))};
  }
  static Doubles wide_f16(const void* p) { return wide_f32(_mm512_castps_si512(_mm512_cvtph_ps(load_half(p)))); }
  static Ints shift_left_16(Ints x) { return _mm512_slli_epi32(x, 16); }
  static Ints sign(Ints x) { return _mm512_srai_epi32(x, 31); }
  static Ints sub(Ints x, Ints y) { return _mm512_sub_epi32(x, y); }
  static Ints exclusive_or(Ints x, Ints y, Ints z) { return _mm512_ternarylogic_epi32(x, y, z, 0x96); }
  static Ints majority(Ints x, Ints y, Ints z) { return _mm512_ternarylogic_epi32(x, y, z, 0xE8); }
  static Ints flip(Ints x, Ints where, int bits) {  // x ^ (where & bits)
    return _mm512_ternarylogic_epi32(x, where, _mm512_set1_epi32(bits), 0x78);
  }
  static Ints keep(Mask mask, Ints x) { return _mm512_maskz_mov_epi32(mask, x); }
  static Ints distance(Ints x, Ints y, Mask above) {  // |y - x| as unsigned, above: y > x
    return _mm512_mask_sub_epi32(_mm512_sub_epi32(x, y), above, y, x);
  }
  static Ints max_unsigned(Ints x, Ints y) { return _mm512_max_epu32(x, y); }
  static Ints add_wide(Ints sums, Ints x) {  // eight sums of 64 bits
    const Ints even = _mm512_maskz_mov_epi32(0x5555, x);
    return _mm512_add_epi64(_mm512_add_epi64(sums, even), _mm512_srli_epi64(x, 32));
  }
  static Ints highest_bit(Ints x) {  // 0 of 0
    return _mm512_srlv_epi32(_mm512_set1_epi32(static_cast<int>(0x80000000u)), _mm512_lzcnt_epi32(x));
  }
  static std::int64_t total(Ints counts) { return _mm512_reduce_add_epi32(counts); }
  static std::int64_t largest_unsigned(Ints x) { return static_cast<std::int64_t>(_mm512_reduce_max_epu32(x)); }
  static std::uint64_t sum(Ints sums) { return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sums)); }

  // --- masks
  static Mask differs(Ints x, Ints y) { return _mm512_cmpneq_epi32_mask(x, y); }
  static Mask greater(Ints x, Ints y) { return _mm512_cmpgt_epi32_mask(x, y); }
  static Mask no_bits(Ints x, int bits) { return _mm512_testn_epi32_mask(x, _mm512_set1_epi32(bits)); }
  static Mask magnitude_below(Ints x, int magnitude, int limit) {
    return _mm512_cmplt_epi32_mask(_mm512_and_si512(x, _mm512_set1_epi32(magnitude)), _mm512_set1_epi32(limit));
  }
  static Mask magnitude_above(Ints x, int magnitude, int limit) {
    return _mm512_cmpgt_epi32_mask(_mm512_and_si512(x, _mm512_set1_epi32(magnitude)), _mm512_set1_epi32(limit));
  }
  static Mask magnitude_is(Ints x, int magnitude, int value) {
    return _mm512_cmpeq_epi32_mask(_mm512_and_si512(x, _mm512_set1_epi32(magnitude)), _mm512_set1_epi32(value));
  }
  static Mask both(Mask x, Mask y) { return static_cast<Mask>(x & y); }
  static Mask first_only(Mask x, Mask y) { return static_cast<Mask>(x & ~y); }
  static Mask negate(Mask x) { return static_cast<Mask>(~x); }
  static bool any(Mask mask) { return mask != 0; }
  static Ints count(Ints counts, Mask mask) {
    return _mm512_mask_sub_epi32(counts, mask, counts, _mm512_set1_epi32(-1));
  }

 private:
  static __m256i load_half(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
};

}  // namespace

BlockFunction avx512_block(Dtype dtype) { return block_of<Avx512>(dtype); }

}  // namespace parity::pair_detail
