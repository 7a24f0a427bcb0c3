// The pair statistics by AVX2, FMA and F16C.
#include <immintrin.h>

#include "harness/numeric/pair_stats_block.hpp"
#include "harness/numeric/pair_stats_rows.hpp"

namespace parity::pair_detail {
namespace {

struct Avx2 {
  struct Ints {  // 16 of 32 bits
    __m256i low, high;
  };
  struct Mask {  // all ones or zero, per lane
    __m256i low, high;
  };
  struct Doubles {  // lanes 0-3, 4-7, 8-11, 12-15
    __m256d p0, p1, p2, p3;
  };
  using Flags = __m256d;

  // --- doubles
  static Doubles zeros() { return {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static Doubles add(Doubles x, Doubles y) {
    return {_mm256_add_pd(x.p0, y.p0), _mm256_add_pd(x.p1, y.p1), _mm256_add_pd(x.p2, y.p2), _mm256_add_pd(x.p3, y.p3)};
  }
  static Doubles sub(Doubles x, Doubles y) {
    return {_mm256_sub_pd(x.p0, y.p0), _mm256_sub_pd(x.p1, y.p1), _mm256_sub_pd(x.p2, y.p2), _mm256_sub_pd(x.p3, y.p3)};
  }
  static Doubles mul(Doubles x, Doubles y) {
    return {_mm256_mul_pd(x.p0, y.p0), _mm256_mul_pd(x.p1, y.p1), _mm256_mul_pd(x.p2, y.p2), _mm256_mul_pd(x.p3, y.p3)};
  }
  static Doubles max(Doubles x, Doubles y) {
    return {_mm256_max_pd(x.p0, y.p0), _mm256_max_pd(x.p1, y.p1), _mm256_max_pd(x.p2, y.p2), _mm256_max_pd(x.p3, y.p3)};
  }
  static Doubles times(Doubles x, double factor) {
    const __m256d f = _mm256_set1_pd(factor);
    return mul(x, {f, f, f, f});
  }
  static Doubles fused(Doubles x, Doubles y, Doubles z) {
    return {_mm256_fmadd_pd(x.p0, y.p0, z.p0), _mm256_fmadd_pd(x.p1, y.p1, z.p1), _mm256_fmadd_pd(x.p2, y.p2, z.p2),
            _mm256_fmadd_pd(x.p3, y.p3, z.p3)};
  }
  static Doubles both(Doubles x, Doubles y) {
    return {_mm256_and_pd(x.p0, y.p0), _mm256_and_pd(x.p1, y.p1), _mm256_and_pd(x.p2, y.p2), _mm256_and_pd(x.p3, y.p3)};
  }
  static Doubles abs(Doubles x) {
    const __m256d magnitude = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7FFFFFFFFFFFFFFF));
    return both(x, {magnitude, magnitude, magnitude, magnitude});
  }
  static Doubles keep(Mask mask, Doubles x) {
    const auto widen = [](__m128i half) { return _mm256_castsi256_pd(_mm256_cvtepi32_epi64(half)); };
    return both(x, {widen(_mm256_castsi256_si128(mask.low)), widen(_mm256_extracti128_si256(mask.low, 1)),
                    widen(_mm256_castsi256_si128(mask.high)), widen(_mm256_extracti128_si256(mask.high, 1))});
  }
  static Doubles not_zero(Doubles x) {
    const __m256d zero = _mm256_setzero_pd();
    return {_mm256_cmp_pd(x.p0, zero, _CMP_NEQ_OQ), _mm256_cmp_pd(x.p1, zero, _CMP_NEQ_OQ),
            _mm256_cmp_pd(x.p2, zero, _CMP_NEQ_OQ), _mm256_cmp_pd(x.p3, zero, _CMP_NEQ_OQ)};
  }
  // Zero where the denominator is.
  static Doubles quotient(Doubles x, Doubles y) {
    const Doubles q = {_mm256_div_pd(x.p0, y.p0), _mm256_div_pd(x.p1, y.p1), _mm256_div_pd(x.p2, y.p2),
                       _mm256_div_pd(x.p3, y.p3)};
    return both(q, not_zero(y));
  }
  // Remembers whether x > y anywhere that `value` is not zero.
  static Flags note_greater(Flags flags, Doubles x, Doubles y, Doubles value) {
    const Doubles greater = {_mm256_cmp_pd(x.p0, y.p0, _CMP_GT_OQ), _mm256_cmp_pd(x.p1, y.p1, _CMP_GT_OQ),
                             _mm256_cmp_pd(x.p2, y.p2, _CMP_GT_OQ), _mm256_cmp_pd(x.p3, y.p3, _CMP_GT_OQ)};
    const Doubles there = both(greater, not_zero(value));
    return _mm256_or_pd(_mm256_or_pd(flags, _mm256_or_pd(there.p0, there.p1)), _mm256_or_pd(there.p2, there.p3));
  }
  static bool any(Flags flags) { return _mm256_movemask_pd(flags) != 0; }
  static unsigned equals(Doubles x, double y) {
    const __m256d v = _mm256_set1_pd(y);
    const auto bits = [v](__m256d part) { return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(part, v, _CMP_EQ_OQ))); };
    return bits(x.p0) | bits(x.p1) << 4 | bits(x.p2) << 8 | bits(x.p3) << 12;
  }
  static bool all_finite(Doubles x) {  // x - x is 0, or NaN
    return !any(not_zero_or_nan(sub(x, x)));
  }
  static double largest(Doubles x) {
    alignas(32) double part[4];
    _mm256_store_pd(part, _mm256_max_pd(_mm256_max_pd(x.p0, x.p1), _mm256_max_pd(x.p2, x.p3)));
    double most = part[0];
    for (const double p : part) most = p > most ? p : most;
    return most;
  }
  static void store(double (&to)[kLanes], Doubles x) {
    _mm256_store_pd(to, x.p0);
    _mm256_store_pd(to + 4, x.p1);
    _mm256_store_pd(to + 8, x.p2);
    _mm256_store_pd(to + 12, x.p3);
  }

  // --- integers
  static Ints no_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Ints load_32(const void* p) {
    const auto* from = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
  }
  static Ints load_16(const void* p) {
    const auto* from = static_cast<const __m128i*>(p);
    return {_mm256_cvtepi16_epi32(_mm_loadu_si128(from)), _mm256_cvtepi16_epi32(_mm_loadu_si128(from + 1))};
  }
  static void store(BitVector* to, Ints x) {
    auto* at = reinterpret_cast<__m256i*>(to);
    _mm256_store_si256(at, x.low);
    _mm256_store_si256(at + 1, x.high);
  }
  static Doubles wide_f32(Ints bits) {
    const auto widen = [](__m128i half) { return _mm256_cvtps_pd(_mm_castsi128_ps(half)); };
    return {widen(_mm256_castsi256_si128(bits.low)), widen(_mm256_extracti128_si256(bits.low, 1)),
            widen(_mm256_castsi256_si128(bits.high)), widen(_mm256_extracti128_si256(bits.high, 1))};
  }
  static Doubles wide_f16(const void* p) {
    const auto* from = static_cast<const __m128i*>(p);
    return wide_f32({_mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(from))),
                     _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(from + 1)))});
  }
  static Ints shift_left_16(Ints x) { return {_mm256_slli_epi32(x.low, 16), _mm256_slli_epi32(x.high, 16)}; }
  static Ints sign(Ints x) { return {_mm256_srai_epi32(x.low, 31), _mm256_srai_epi32(x.high, 31)}; }
  static Ints sub(Ints x, Ints y) { return {_mm256_sub_epi32(x.low, y.low), _mm256_sub_epi32(x.high, y.high)}; }
  static Ints exclusive_or(Ints x, Ints y) { return {_mm256_xor_si256(x.low, y.low), _mm256_xor_si256(x.high, y.high)}; }
  static Ints exclusive_or(Ints x, Ints y, Ints z) { return exclusive_or(exclusive_or(x, y), z); }
  static Ints with(Ints x, Ints y) { return {_mm256_and_si256(x.low, y.low), _mm256_and_si256(x.high, y.high)}; }
  static Ints majority(Ints x, Ints y, Ints z) {  // y where x and y agree, else z
    const Ints odd = exclusive_or(x, y);
    const Ints other = with(odd, exclusive_or(y, z));
    return exclusive_or(y, other);
  }
  static Ints flip(Ints x, Ints where, int bits) { return exclusive_or(x, with(where, all(bits))); }
  static Ints keep(Mask mask, Ints x) { return with({mask.low, mask.high}, x); }
  static Ints distance(Ints x, Ints y, Mask above) {  // |y - x| as unsigned, above: y > x, where x - y changes its sign
    const Ints negative = {above.low, above.high};
    return sub(exclusive_or(sub(x, y), negative), negative);
  }
  static Ints max_unsigned(Ints x, Ints y) { return {_mm256_max_epu32(x.low, y.low), _mm256_max_epu32(x.high, y.high)}; }
  static Ints add_wide(Ints sums, Ints x) {  // eight sums of 64 bits
    const auto add = [](__m256i s, __m256i v) {
      const __m256i even = _mm256_and_si256(v, _mm256_set1_epi64x(0xFFFFFFFF));
      return _mm256_add_epi64(_mm256_add_epi64(s, even), _mm256_srli_epi64(v, 32));
    };
    return {add(sums.low, x.low), add(sums.high, x.high)};
  }
  // By way of the exponent of a float; clearing the second highest bit keeps its rounding from reaching the next power of
  // two. The conversion is signed, so 2^31 is put in by hand. 0 of 0.
  static Ints highest_bit(Ints x) {
    const auto in = [](__m256i v) {
      const __m256i clear = _mm256_andnot_si256(_mm256_srli_epi32(v, 1), v);
      const __m256i exponent = _mm256_and_si256(_mm256_castps_si256(_mm256_cvtepi32_ps(clear)), _mm256_set1_epi32(0x7F800000));
      const __m256i power = _mm256_cvttps_epi32(_mm256_castsi256_ps(exponent));
      const __m256i top = _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0x80000000u)));
      return _mm256_blendv_epi8(power, top, _mm256_srai_epi32(v, 31));
    };
    return {in(x.low), in(x.high)};
  }
  static std::int64_t total(Ints counts) {
    std::int64_t sum = 0;
    for (const std::uint32_t word : words(counts).word) sum += static_cast<std::int32_t>(word);
    return sum;
  }
  static std::int64_t largest_unsigned(Ints x) {
    std::uint32_t most = 0;
    for (const std::uint32_t word : words(x).word) most = word > most ? word : most;
    return most;
  }
  static std::uint64_t sum(Ints sums) {
    const BitVector w = words(sums);
    std::uint64_t total = 0;
    for (int i = 0; i < kLanes; i += 2) total += w.word[i] | static_cast<std::uint64_t>(w.word[i + 1]) << 32;
    return total;
  }

  // --- masks
  static Mask differs(Ints x, Ints y) { return negate(equal(x, y)); }
  static Mask greater(Ints x, Ints y) { return {_mm256_cmpgt_epi32(x.low, y.low), _mm256_cmpgt_epi32(x.high, y.high)}; }
  static Mask no_bits(Ints x, int bits) { return equal(with(x, all(bits)), no_ints()); }
  static Mask magnitude_below(Ints x, int magnitude, int limit) { return greater(all(limit), with(x, all(magnitude))); }
  static Mask magnitude_above(Ints x, int magnitude, int limit) { return greater(with(x, all(magnitude)), all(limit)); }
  static Mask magnitude_is(Ints x, int magnitude, int value) { return equal(with(x, all(magnitude)), all(value)); }
  static Mask both(Mask x, Mask y) { return {_mm256_and_si256(x.low, y.low), _mm256_and_si256(x.high, y.high)}; }
  static Mask first_only(Mask x, Mask y) {
    return {_mm256_andnot_si256(y.low, x.low), _mm256_andnot_si256(y.high, x.high)};
  }
  static Mask negate(Mask x) {
    const __m256i ones = _mm256_set1_epi32(-1);
    return {_mm256_xor_si256(x.low, ones), _mm256_xor_si256(x.high, ones)};
  }
  static bool any(Mask mask) {
    const __m256i some = _mm256_or_si256(mask.low, mask.high);
    return _mm256_testz_si256(some, some) == 0;
  }
  static Ints count(Ints counts, Mask mask) { return sub(counts, {mask.low, mask.high}); }

 private:
  static Ints all(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static Mask equal(Ints x, Ints y) { return {_mm256_cmpeq_epi32(x.low, y.low), _mm256_cmpeq_epi32(x.high, y.high)}; }
  static BitVector words(Ints x) {
    BitVector w;
    store(&w, x);
    return w;
  }
  static Flags not_zero_or_nan(Doubles x) {
    const __m256d zero = _mm256_setzero_pd();
    const auto odd = [zero](__m256d v) { return _mm256_cmp_pd(v, zero, _CMP_NEQ_UQ); };
    return _mm256_or_pd(_mm256_or_pd(odd(x.p0), odd(x.p1)), _mm256_or_pd(odd(x.p2), odd(x.p3)));
  }
};

}  // namespace

BlockFunction avx2_block(Dtype dtype) { return block_of<Avx2>(dtype); }

}  // namespace parity::pair_detail
