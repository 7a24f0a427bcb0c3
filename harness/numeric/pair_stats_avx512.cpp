// The pair statistics by AVX-512 (F, BW, CD, DQ, VL).
#include <immintrin.h>

#include "harness/numeric/pair_stats_block.hpp"
#include "harness/numeric/pair_stats_rows.hpp"

namespace parity::pair_detail {
namespace {

struct Avx512 {
  using Ints = __m512i;
  using Doubles = __m512d;

  // --- eight doubles
  static Doubles zeros() { return _mm512_setzero_pd(); }
  static Doubles add(Doubles x, Doubles y) { return _mm512_add_pd(x, y); }
  static Doubles sub(Doubles x, Doubles y) { return _mm512_sub_pd(x, y); }
  static Doubles mul(Doubles x, Doubles y) { return _mm512_mul_pd(x, y); }
  static Doubles max(Doubles x, Doubles y) { return _mm512_max_pd(x, y); }
  static Doubles abs(Doubles x) { return _mm512_abs_pd(x); }
  static Doubles times(Doubles x, double factor) {
    return _mm512_mul_pd(x, _mm512_set1_pd(factor));
  }
  static Doubles fused(Doubles x, Doubles y, Doubles z) { return _mm512_fmadd_pd(x, y, z); }
  static Doubles fused(Doubles x, double y, Doubles z) { return fused(x, _mm512_set1_pd(y), z); }
  static Doubles fused_minus(Doubles x, double y, Doubles z) {
    return _mm512_fmsub_pd(x, _mm512_set1_pd(y), z);
  }
  static Doubles or_differences(Doubles x, Doubles y, Doubles z) {
    return _mm512_castsi512_pd(
        or_differences(_mm512_castpd_si512(x), _mm512_castpd_si512(y), _mm512_castpd_si512(z)));
  }
  static bool any_negative(Doubles x) { return _mm512_movepi64_mask(_mm512_castpd_si512(x)) != 0; }
  static Doubles quotient(Doubles x, Doubles y) {  // zero where the denominator is
    return _mm512_maskz_div_pd(_mm512_cmp_pd_mask(y, _mm512_setzero_pd(), _CMP_NEQ_OQ), x, y);
  }
  static Doubles finite_or_zero(Doubles x) {
    return _mm512_maskz_mov_pd(
        static_cast<__mmask8>(~_mm512_fpclass_pd_mask(x, kInfinitiesAndNans)), x);
  }
  static bool all_finite(Doubles x) { return _mm512_fpclass_pd_mask(x, kInfinitiesAndNans) == 0; }
  static bool any_greater(Doubles x, Doubles y) {
    return _mm512_cmp_pd_mask(x, y, _CMP_GT_OQ) != 0;
  }
  static double largest(Doubles x) { return _mm512_reduce_max_pd(x); }
  static void store(double* to, Doubles x) { _mm512_store_pd(to, x); }

  static Doubles widen_f32(const std::byte* p) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(load_256(p)));
  }
  static Doubles widen_bf16_even(const std::byte* p) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(load_256(p), 16)));
  }
  static Doubles widen_bf16_odd(const std::byte* p) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_and_si256(load_256(p), upper)));
  }
  static Doubles widen_f16(const std::byte* p) {
    return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }

  // --- 64 bytes
  static Ints no_ints() { return _mm512_setzero_si512(); }
  static Ints load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(BitVector* to, Ints x) { _mm512_store_si512(to, x); }
  static Ints exclusive_or(Ints x, Ints y, Ints z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0x96);
  }
  static Ints majority(Ints x, Ints y, Ints z) { return _mm512_ternarylogic_epi32(x, y, z, 0xE8); }
  static Ints or_differences(Ints x, Ints y, Ints z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0xF6);
  }
  static bool is_zero(Ints x) { return _mm512_test_epi32_mask(x, x) == 0; }
  static Ints flip(Ints x, Ints where, Ints bits) {
    return _mm512_ternarylogic_epi32(x, where, bits, 0x78);
  }

  struct Words32 {
    using Mask = __mmask16;
    static Ints all(int x) { return _mm512_set1_epi32(x); }
    static Ints with(Ints x, int bits) { return _mm512_and_si512(x, all(bits)); }
    static Mask no_bits(Ints x, int bits) { return _mm512_testn_epi32_mask(x, all(bits)); }
    static Mask differs(Ints x, Ints y) { return _mm512_cmpneq_epi32_mask(x, y); }
    static Mask equal(Ints x, Ints y) { return _mm512_cmpeq_epi32_mask(x, y); }
    static Mask greater(Ints x, Ints y) { return _mm512_cmpgt_epi32_mask(x, y); }
    static Mask both(Mask x, Mask y) { return static_cast<Mask>(x & y); }
    static Mask first_only(Mask x, Mask y) { return static_cast<Mask>(x & ~y); }
    static Mask negate(Mask x) { return static_cast<Mask>(~x); }
    static bool any(Mask x, Mask y) { return _kortestz_mask16_u8(x, y) == 0; }
    static Ints keep(Mask mask, Ints x) { return _mm512_maskz_mov_epi32(mask, x); }
    static Ints count(Ints counts, Mask mask) {
      return _mm512_mask_sub_epi32(counts, mask, counts, all(-1));
    }
    static std::int64_t total(Ints counts) { return _mm512_reduce_add_epi32(counts); }
    // Sign and magnitude -> signed number.
    static Ints rank(Ints x, int magnitude) {
      return _mm512_mask_sub_epi32(x, _mm512_movepi32_mask(x), all(~magnitude), x);
    }
    // |y - x| as unsigned; above: y > x.
    static Ints distance(Ints x, Ints y, Mask above) {
      return _mm512_mask_sub_epi32(_mm512_sub_epi32(x, y), above, y, x);
    }
    static Ints max_unsigned(Ints x, Ints y) { return _mm512_max_epu32(x, y); }
    static std::int64_t largest(Ints x) {
      return static_cast<std::int64_t>(_mm512_reduce_max_epu32(x));
    }
    static Ints highest_bit(Ints x) {  // 0 of 0
      return _mm512_srlv_epi32(all(static_cast<int>(0x80000000u)), _mm512_lzcnt_epi32(x));
    }
    // Pairs of words are summed as one number of twice the width, and their upper words alone; the
    // lower ones are the difference.
    static Ints add_double_words(Ints sums, Ints x) { return _mm512_add_epi64(sums, x); }
    static Ints add_upper(Ints sums, Ints x) {
      return _mm512_add_epi64(sums, _mm512_srli_epi64(x, 32));
    }
    static std::uint64_t sum(Ints sums, Ints upper) {
      const Ints lower = _mm512_sub_epi64(sums, _mm512_slli_epi64(upper, 32));
      return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(lower, upper)));
    }
  };

  struct Words16 {
    using Mask = __mmask32;
    static Ints all(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
    static Ints with(Ints x, int bits) { return _mm512_and_si512(x, all(bits)); }
    static Mask no_bits(Ints x, int bits) { return _mm512_testn_epi16_mask(x, all(bits)); }
    static Mask differs(Ints x, Ints y) { return _mm512_cmpneq_epi16_mask(x, y); }
    static Mask equal(Ints x, Ints y) { return _mm512_cmpeq_epi16_mask(x, y); }
    static Mask greater(Ints x, Ints y) { return _mm512_cmpgt_epi16_mask(x, y); }
    static Mask both(Mask x, Mask y) { return x & y; }
    static Mask first_only(Mask x, Mask y) { return x & ~y; }
    static Mask negate(Mask x) { return ~x; }
    static bool any(Mask x, Mask y) { return _kortestz_mask32_u8(x, y) == 0; }
    static Ints keep(Mask mask, Ints x) { return _mm512_maskz_mov_epi16(mask, x); }
    static Ints count(Ints counts, Mask mask) {
      return _mm512_mask_sub_epi16(counts, mask, counts, all(-1));
    }
    static std::int64_t total(Ints counts) {
      return _mm512_reduce_add_epi32(_mm512_madd_epi16(counts, all(1)));
    }
    static Ints rank(Ints x, int magnitude) {
      return _mm512_mask_sub_epi16(x, _mm512_movepi16_mask(x), all(~magnitude), x);
    }
    static Ints distance(Ints x, Ints y, Mask above) {
      return _mm512_mask_sub_epi16(_mm512_sub_epi16(x, y), above, y, x);
    }
    static Ints max_unsigned(Ints x, Ints y) { return _mm512_max_epu16(x, y); }
    static std::int64_t largest(Ints x) {
      const Ints lower = _mm512_and_si512(x, _mm512_set1_epi32(0xFFFF));
      return static_cast<std::int64_t>(
          _mm512_reduce_max_epu32(_mm512_max_epu32(lower, _mm512_srli_epi32(x, 16))));
    }
    static Ints highest_bit(Ints x) {
      const Ints even = Words32::highest_bit(_mm512_maskz_mov_epi16(0x55555555u, x));
      const Ints either =
          Words32::highest_bit(x);  // the odd element's, or where that is 0 the even's
      return _mm512_or_si512(even, either);
    }
    static Ints add_double_words(Ints sums, Ints x) { return _mm512_add_epi32(sums, x); }
    static Ints add_upper(Ints sums, Ints x) {
      return _mm512_add_epi32(sums, _mm512_srli_epi32(x, 16));
    }
    static std::uint64_t sum(Ints sums, Ints upper) {  // at most 2 * 128 * 2^16 a lane, 2^29 in all
      const Ints lower = _mm512_sub_epi32(sums, _mm512_slli_epi32(upper, 16));
      return static_cast<std::uint32_t>(_mm512_reduce_add_epi32(_mm512_add_epi32(lower, upper)));
    }
  };

 private:
  static constexpr int kInfinitiesAndNans = 0x99;
  static __m256i load_256(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
};

}  // namespace

BlockFunction avx512_block(Dtype dtype) { return block_of<Avx512>(dtype); }

}  // namespace parity::pair_detail
