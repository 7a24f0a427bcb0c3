// The pair statistics by AVX2, FMA and F16C. Two registers make up what is one with AVX-512.
#include <immintrin.h>

#include "harness/numeric/pair_stats_block.hpp"
#include "harness/numeric/pair_stats_rows.hpp"

namespace parity::pair_detail {
namespace {

struct Avx2 {
  struct Ints {
    __m256i low, high;
  };
  struct Doubles {
    __m256d low, high;
  };

  // --- eight doubles
  static Doubles zeros() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static Doubles add(Doubles x, Doubles y) {
    return {_mm256_add_pd(x.low, y.low), _mm256_add_pd(x.high, y.high)};
  }
  static Doubles sub(Doubles x, Doubles y) {
    return {_mm256_sub_pd(x.low, y.low), _mm256_sub_pd(x.high, y.high)};
  }
  static Doubles mul(Doubles x, Doubles y) {
    return {_mm256_mul_pd(x.low, y.low), _mm256_mul_pd(x.high, y.high)};
  }
  static Doubles max(Doubles x, Doubles y) {
    return {_mm256_max_pd(x.low, y.low), _mm256_max_pd(x.high, y.high)};
  }
  static Doubles with(Doubles x, Doubles y) {
    return {_mm256_and_pd(x.low, y.low), _mm256_and_pd(x.high, y.high)};
  }
  static Doubles abs(Doubles x) {
    const __m256d magnitude = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7FFFFFFFFFFFFFFF));
    return with(x, {magnitude, magnitude});
  }
  static Doubles times(Doubles x, double factor) {
    return mul(x, {_mm256_set1_pd(factor), _mm256_set1_pd(factor)});
  }
  static Doubles fused(Doubles x, Doubles y, Doubles z) {
    return {_mm256_fmadd_pd(x.low, y.low, z.low), _mm256_fmadd_pd(x.high, y.high, z.high)};
  }
  static Doubles fused(Doubles x, double y, Doubles z) {
    return fused(x, {_mm256_set1_pd(y), _mm256_set1_pd(y)}, z);
  }
  static Doubles fused_minus(Doubles x, double y, Doubles z) {
    return {_mm256_fmsub_pd(x.low, _mm256_set1_pd(y), z.low),
            _mm256_fmsub_pd(x.high, _mm256_set1_pd(y), z.high)};
  }
  static Doubles or_differences(Doubles x, Doubles y, Doubles z) {
    return {_mm256_or_pd(x.low, _mm256_xor_pd(y.low, z.low)),
            _mm256_or_pd(x.high, _mm256_xor_pd(y.high, z.high))};
  }
  static bool any_negative(Doubles x) {
    return _mm256_movemask_pd(_mm256_or_pd(x.low, x.high)) != 0;
  }
  static Doubles quotient(Doubles x, Doubles y) {  // zero where the denominator is
    const __m256d zero = _mm256_setzero_pd();
    return with(
        {_mm256_div_pd(x.low, y.low), _mm256_div_pd(x.high, y.high)},
        {_mm256_cmp_pd(y.low, zero, _CMP_NEQ_OQ), _mm256_cmp_pd(y.high, zero, _CMP_NEQ_OQ)});
  }
  static Doubles finite_or_zero(Doubles x) {  // x - x is a number
    const Doubles d = sub(x, x);
    return with(
        x, {_mm256_cmp_pd(d.low, d.low, _CMP_ORD_Q), _mm256_cmp_pd(d.high, d.high, _CMP_ORD_Q)});
  }
  static bool all_finite(Doubles x) {
    const Doubles d = sub(x, x);
    return _mm256_movemask_pd(_mm256_cmp_pd(d.low, d.high, _CMP_UNORD_Q)) == 0;
  }
  static bool any_greater(Doubles x, Doubles y) {
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(x.low, y.low, _CMP_GT_OQ),
                                           _mm256_cmp_pd(x.high, y.high, _CMP_GT_OQ))) != 0;
  }
  static double largest(Doubles x) {
    alignas(32) double part[4];
    _mm256_store_pd(part, _mm256_max_pd(x.low, x.high));
    double most = part[0];
    for (const double p : part) most = p > most ? p : most;
    return most;
  }
  static void store(double* to, Doubles x) {
    _mm256_store_pd(to, x.low);
    _mm256_store_pd(to + 4, x.high);
  }

  static Doubles widen_f32(const std::byte* p) {
    const auto* from = reinterpret_cast<const float*>(p);
    return {_mm256_cvtps_pd(_mm_loadu_ps(from)), _mm256_cvtps_pd(_mm_loadu_ps(from + 4))};
  }
  static Doubles widen_bf16_even(const std::byte* p) {
    return {_mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(load_128(p), 16))),
            _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(load_128(p + 16), 16)))};
  }
  static Doubles widen_bf16_odd(const std::byte* p) {
    const __m128i upper = _mm_set1_epi32(static_cast<int>(0xFFFF0000u));
    return {_mm256_cvtps_pd(_mm_castsi128_ps(_mm_and_si128(load_128(p), upper))),
            _mm256_cvtps_pd(_mm_castsi128_ps(_mm_and_si128(load_128(p + 16), upper)))};
  }
  static Doubles widen_f16(const std::byte* p) {
    const __m256 floats = _mm256_cvtph_ps(load_128(p));
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(floats)),
            _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1))};
  }

  // --- 64 bytes
  static Ints no_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Ints load(const void* p) {
    const auto* from = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
  }
  static void store(BitVector* to, Ints x) {
    auto* at = reinterpret_cast<__m256i*>(to);
    _mm256_store_si256(at, x.low);
    _mm256_store_si256(at + 1, x.high);
  }
  static Ints exclusive_or(Ints x, Ints y) {
    return {_mm256_xor_si256(x.low, y.low), _mm256_xor_si256(x.high, y.high)};
  }
  static Ints exclusive_or(Ints x, Ints y, Ints z) { return exclusive_or(exclusive_or(x, y), z); }
  static Ints with(Ints x, Ints y) {
    return {_mm256_and_si256(x.low, y.low), _mm256_and_si256(x.high, y.high)};
  }
  static Ints either(Ints x, Ints y) {
    return {_mm256_or_si256(x.low, y.low), _mm256_or_si256(x.high, y.high)};
  }
  static Ints majority(Ints x, Ints y, Ints z) {  // y where x and y agree, else z
    return exclusive_or(y, with(exclusive_or(x, y), exclusive_or(y, z)));
  }
  static Ints or_differences(Ints x, Ints y, Ints z) { return either(x, exclusive_or(y, z)); }
  static bool is_zero(Ints x) {
    const __m256i some = _mm256_or_si256(x.low, x.high);
    return _mm256_testz_si256(some, some) != 0;
  }

  // What the two widths have in common: a mask is all ones or zero per word.
  struct Words {
    using Mask = Ints;
    static Mask both(Mask x, Mask y) { return Avx2::with(x, y); }
    static Mask first_only(Mask x, Mask y) {
      return {_mm256_andnot_si256(y.low, x.low), _mm256_andnot_si256(y.high, x.high)};
    }
    static Mask negate(Mask x) {
      return exclusive_or(x, {_mm256_set1_epi32(-1), _mm256_set1_epi32(-1)});
    }
    static bool any(Mask x, Mask y) { return !is_zero(either(x, y)); }
    static Ints keep(Mask mask, Ints x) { return Avx2::with(mask, x); }
  };

  struct Words32 : Words {
    static Ints all(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
    static Ints with(Ints x, int bits) { return Avx2::with(x, all(bits)); }
    static Ints add(Ints x, Ints y) {
      return {_mm256_add_epi32(x.low, y.low), _mm256_add_epi32(x.high, y.high)};
    }
    static Ints sub(Ints x, Ints y) {
      return {_mm256_sub_epi32(x.low, y.low), _mm256_sub_epi32(x.high, y.high)};
    }
    static Mask equal(Ints x, Ints y) {
      return {_mm256_cmpeq_epi32(x.low, y.low), _mm256_cmpeq_epi32(x.high, y.high)};
    }
    static Mask differs(Ints x, Ints y) { return negate(equal(x, y)); }
    static Mask greater(Ints x, Ints y) {
      return {_mm256_cmpgt_epi32(x.low, y.low), _mm256_cmpgt_epi32(x.high, y.high)};
    }
    static Mask no_bits(Ints x, int bits) { return equal(with(x, bits), no_ints()); }
    static Ints count(Ints counts, Mask mask) { return sub(counts, mask); }
    static std::int64_t total(Ints counts) {
      std::int64_t sum = 0;
      for (const std::uint32_t word : words(counts).word) sum += word;
      return sum;
    }
    static Ints rank(Ints x, int magnitude) {  // sign and magnitude -> signed number
      const Ints sign = {_mm256_srai_epi32(x.low, 31), _mm256_srai_epi32(x.high, 31)};
      return sub(exclusive_or(x, with(sign, magnitude)), sign);
    }
    static Ints distance(Ints x, Ints y,
                         Mask above) {  // |y - x| as unsigned: x - y, its sign changed where y > x
      return sub(exclusive_or(sub(x, y), above), above);
    }
    static Ints max_unsigned(Ints x, Ints y) {
      return {_mm256_max_epu32(x.low, y.low), _mm256_max_epu32(x.high, y.high)};
    }
    static std::int64_t largest(Ints x) {
      std::uint32_t most = 0;
      for (const std::uint32_t word : words(x).word) most = word > most ? word : most;
      return most;
    }
    static Ints highest_bit(Ints x) { return {highest_bit(x.low), highest_bit(x.high)}; }
    // By way of the exponent of a float; clearing the second highest bit keeps its rounding from
    // reaching the next power of two. The conversion is signed, so 2^31 is put in by hand. 0 of 0.
    static __m256i highest_bit(__m256i x) {
      const __m256i clear = _mm256_andnot_si256(_mm256_srli_epi32(x, 1), x);
      const __m256 power = _mm256_and_ps(_mm256_cvtepi32_ps(clear),
                                         _mm256_castsi256_ps(_mm256_set1_epi32(0x7F800000)));
      const __m256 top = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0x80000000u)));
      const __m256 highest = _mm256_castsi256_ps(_mm256_cvttps_epi32(power));
      return _mm256_castps_si256(
          _mm256_blendv_ps(highest, top, _mm256_castsi256_ps(x)));  // by the sign of x
    }
    // Pairs of words are summed as one number of twice the width, and their upper words alone; the
    // lower ones are the difference.
    static Ints add_double_words(Ints sums, Ints x) {
      return {_mm256_add_epi64(sums.low, x.low), _mm256_add_epi64(sums.high, x.high)};
    }
    static Ints add_upper(Ints sums, Ints x) {
      return add_double_words(sums, {_mm256_srli_epi64(x.low, 32), _mm256_srli_epi64(x.high, 32)});
    }
    static std::uint64_t sum(Ints sums, Ints upper) {
      const BitVector s = words(sums);
      const BitVector u = words(upper);
      const auto at = [](const BitVector& v, int i) {
        return v.word[i] | static_cast<std::uint64_t>(v.word[i + 1]) << 32;
      };
      std::uint64_t total = 0;
      for (int i = 0; i < kLanes; i += 2) total += at(s, i) - (at(u, i) << 32) + at(u, i);
      return total;
    }
  };

  struct Words16 : Words {
    static Ints all(int x) {
      const __m256i value = _mm256_set1_epi16(static_cast<short>(x));
      return {value, value};
    }
    static Ints with(Ints x, int bits) { return Avx2::with(x, all(bits)); }
    static Ints sub(Ints x, Ints y) {
      return {_mm256_sub_epi16(x.low, y.low), _mm256_sub_epi16(x.high, y.high)};
    }
    static Mask equal(Ints x, Ints y) {
      return {_mm256_cmpeq_epi16(x.low, y.low), _mm256_cmpeq_epi16(x.high, y.high)};
    }
    static Mask differs(Ints x, Ints y) { return negate(equal(x, y)); }
    static Mask greater(Ints x, Ints y) {
      return {_mm256_cmpgt_epi16(x.low, y.low), _mm256_cmpgt_epi16(x.high, y.high)};
    }
    static Mask no_bits(Ints x, int bits) { return equal(with(x, bits), no_ints()); }
    static Ints count(Ints counts, Mask mask) { return sub(counts, mask); }
    static std::int64_t total(Ints counts) {
      std::int64_t sum = 0;
      for (const std::uint32_t word : words(counts).word) sum += (word & 0xFFFFu) + (word >> 16);
      return sum;
    }
    static Ints rank(Ints x, int magnitude) {
      const Ints sign = {_mm256_srai_epi16(x.low, 15), _mm256_srai_epi16(x.high, 15)};
      return sub(exclusive_or(x, with(sign, magnitude)), sign);
    }
    static Ints distance(Ints x, Ints y, Mask above) {
      return sub(exclusive_or(sub(x, y), above), above);
    }
    static Ints max_unsigned(Ints x, Ints y) {
      return {_mm256_max_epu16(x.low, y.low), _mm256_max_epu16(x.high, y.high)};
    }
    static std::int64_t largest(Ints x) {
      std::uint32_t most = 0;
      for (const std::uint32_t word : words(x).word) {
        most = (word & 0xFFFFu) > most ? word & 0xFFFFu : most;
        most = word >> 16 > most ? word >> 16 : most;
      }
      return most;
    }
    // The even elements as numbers below 2^16, whose conversion to float is exact; the odd ones in
    // their upper place.
    static Ints highest_bit(Ints x) {
      const Ints odd = shift_right(x);
      const Ints even_bits = exponent_bit(Words32::with(x, 0xFFFF));
      const Ints odd_bits = exponent_bit(odd);
      return either(even_bits,
                    {_mm256_slli_epi32(odd_bits.low, 16), _mm256_slli_epi32(odd_bits.high, 16)});
    }
    static Ints add_double_words(Ints sums, Ints x) { return Words32::add(sums, x); }
    static Ints add_upper(Ints sums, Ints x) { return Words32::add(sums, shift_right(x)); }
    static std::uint64_t sum(Ints sums, Ints upper) {
      const BitVector s = words(sums);
      const BitVector u = words(upper);
      std::uint64_t total = 0;
      for (int i = 0; i < kLanes; ++i) total += s.word[i] - (u.word[i] << 16) + u.word[i];
      return total;
    }

   private:
    static Ints shift_right(Ints x) {
      return {_mm256_srli_epi32(x.low, 16), _mm256_srli_epi32(x.high, 16)};
    }
    static Ints exponent_bit(Ints x) { return {exponent_bit(x.low), exponent_bit(x.high)}; }
    static __m256i exponent_bit(__m256i x) {
      const __m256 power =
          _mm256_and_ps(_mm256_cvtepi32_ps(x), _mm256_castsi256_ps(_mm256_set1_epi32(0x7F800000)));
      return _mm256_cvttps_epi32(power);
    }
  };

 private:
  static __m128i load_128(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static BitVector words(Ints x) {
    BitVector w;
    store(&w, x);
    return w;
  }
};

}  // namespace

BlockFunction avx2_block(Dtype dtype) { return block_of<Avx2>(dtype); }

}  // namespace parity::pair_detail
