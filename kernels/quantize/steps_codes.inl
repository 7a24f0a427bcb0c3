// Codes of a group of W blocks, and maxima of blocks of bf16, for steps_lanes.inl at 8 and 16 lanes.
//
// A code without its sign is min(rne(2 |y|), rne(|y|) + 2, rne(|y| / 2) + 4, 7): the three lines are the steps of 1/2, 1 and 2
// between e2m1 values, each lowest where it holds; rounding is monotone and the offsets are even, so that ties go to even codes.
// A y that no integer holds (too large, infinite, NaN) converts to 2^31, which is large as a number without sign.
//
// Work is on registers of 2 W words, 128 bits at a time; the orders that packing leaves are put right in `in_order`, W / 2
// blocks at once.

typedef std::uint16_t Words __attribute__((vector_size(4 * W)));
#if PARITY_LANES == 16
typedef __m512i Register;
#define PARITY_WIDE(operation) _mm512_##operation
Register nearest(F y) { return _mm512_cvtps_epi32(y); }
#else
typedef __m256i Register;
#define PARITY_WIDE(operation) _mm256_##operation
Register nearest(F y) { return _mm256_cvtps_epi32(y); }
#endif

template <class V>
Register as_register(V v) {
  return std::bit_cast<Register>(v);
}
Words words(Register a, Register b) {  // signed, saturated
  return std::bit_cast<Words>(PARITY_WIDE(packs_epi32)(a, b));
}
Register bytes(Words a, Words b) {
  return PARITY_WIDE(packus_epi16)(as_register(a), as_register(b));
}
Words min_words(Words a, Words b) { return a < b ? a : b; }
Words max_words(Words a, Words b) { return a > b ? a : b; }
Words each(int word) { return static_cast<std::uint16_t>(word) - Words{}; }

struct Signed {
  Words code;  // without sign
  Words sign;  // the highest bit
};

[[gnu::always_inline]] inline Signed codes_of(F y0, F y1) {
  const F a0 = floats(bits(y0) & 0x7FFFFFFF), a1 = floats(bits(y1) & 0x7FFFFFFF);
  const Words halves = words(nearest(a0 + a0), nearest(a1 + a1));
  const Words ones = words(nearest(a0), nearest(a1)) + each(2);
  const Words twos = words(nearest(a0 * 0.5F), nearest(a1 * 0.5F)) + each(4);
  return {min_words(min_words(halves, ones), min_words(twos, each(7))),
          words(as_register(y0), as_register(y1))};
}

// The elements of one register of codes times their factors; `first` counts blocks.
template <bool kPositiveZero>
[[gnu::always_inline]] inline Signed scaled(F x0, F x1, F f0, F f1) {
  F y0 = x0 * f0, y1 = x1 * f1;
  if constexpr (kPositiveZero) {
    y0 = y0 + all(0.0F);
    y1 = y1 + all(0.0F);
  }
  return codes_of(y0, y1);
}

constexpr int kRegisterBlocks = W / 8;

template <bool kPositiveZero>
[[gnu::always_inline]] inline Signed register_codes(const std::uint16_t* x, const float* factor) {
  const Register zero = as_register(U{});
  const Register loaded = load<Register>(x);
  const F x0 = std::bit_cast<F>(PARITY_WIDE(unpacklo_epi16)(zero, loaded));
  const F x1 = std::bit_cast<F>(PARITY_WIDE(unpackhi_epi16)(zero, loaded));
#if PARITY_LANES == 16
  const __m256 low = _mm256_set1_ps(factor[0]), high = _mm256_set1_ps(factor[1]);
  const F f = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
#else
  const F f = all(factor[0]);
#endif
  return scaled<kPositiveZero>(x0, x1, f, f);
}
template <bool kPositiveZero>
[[gnu::always_inline]] inline Signed register_codes(const float* x, const float* factor) {
  return scaled<kPositiveZero>(load<F>(x), load<F>(x + W), all(factor[0]),
                               all(factor[kRegisterBlocks - 1]));
}

// Two bytes of codes of every four elements lie where packing by 128 bits put them.
#if PARITY_LANES == 16
Register in_order(Register packed, const std::uint16_t*) {  // even blocks before odd ones, halves
  const __m512i from = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(from, packed);
}
Register in_order(Register packed, const float*) {  // quarters of eight blocks
  const __m512i quarters = _mm512_set1_epi64(0x0018'0010'0008'0000);
  const __m512i block = _mm512_maskz_mov_epi8(0x5555555555555555, _mm512_set_epi64(
      0x0007000700070007, 0x0006000600060006, 0x0005000500050005, 0x0004000400040004,
      0x0003000300030003, 0x0002000200020002, 0x0001000100010001, 0));
  return _mm512_permutexvar_epi16(_mm512_add_epi16(quarters, block), packed);
}
#else
Register in_order(Register packed, const std::uint16_t*) {  // halves of four blocks
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
Register in_order(Register packed, const float*) {  // quarters 0 and 2, then 1 and 3
  const __m128i even = _mm256_castsi256_si128(packed), odd = _mm256_extracti128_si256(packed, 1);
  return _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd));
}
#endif

template <bool kPositiveZero, class X>
[[gnu::always_inline]] inline void group_codes(const X* x, const float* factor,
                                               std::uint8_t* codes) {
  // The codes of two registers as pairs, a word each.
  const auto pairs = [&](int first) {
    const Signed a = register_codes<kPositiveZero>(x + 16 * first, factor + first);
    const int second = first + kRegisterBlocks;
    const Signed b = register_codes<kPositiveZero>(x + 16 * second, factor + second);
    const Words sign = std::bit_cast<Words>(
        PARITY_WIDE(packs_epi16)(as_register(a.sign), as_register(b.sign)));
    const Words both = std::bit_cast<Words>(bytes(a.code, b.code)) | ((sign >> 4) & each(0x0808));
    return std::bit_cast<Words>(
        PARITY_WIDE(maddubs_epi16)(as_register(both), as_register(each(0x1001))));
  };
  for (int b = 0; b < W; b += W / 2) {
    const Words low = pairs(b);
    store(codes + 8 * b, in_order(bytes(low, pairs(b + W / 4)), x));
  }
}

// Blocks of bf16: the maximum in 16 bits, down to 32 bits a block in each 128.
template <class Load>
[[gnu::always_inline]] inline Words four_maxima(const Load& block) {
  const auto two = [&](int i) {
    const Register a = as_register(block(i)), b = as_register(block(i + 1));
    return std::bit_cast<Words>(
        max_words(std::bit_cast<Words>(PARITY_WIDE(unpacklo_epi64)(a, b)),
                  std::bit_cast<Words>(PARITY_WIDE(unpackhi_epi64)(a, b))));
  };
  const F a = std::bit_cast<F>(two(0)), b = std::bit_cast<F>(two(2));
  return max_words(std::bit_cast<Words>(PARITY_WIDE(shuffle_ps)(a, b, 0x88)),
                   std::bit_cast<Words>(PARITY_WIDE(shuffle_ps)(a, b, 0xDD)));
}

// Lane i: the amax of block i.
[[gnu::always_inline]] inline U group_amax(const std::uint16_t* x) {
  const auto magnitudes = [x](int i) { return load<Words>(x + 2 * W * i) & each(0x7FFF); };
  const Words low = four_maxima(magnitudes);
  const Words high = four_maxima([&](int i) { return magnitudes(i + 4); });
  // Each 128 bits hold a half of four blocks.
#if PARITY_LANES == 16
  const __m512i a = as_register(low), b = as_register(high);
  const Words both = max_words(std::bit_cast<Words>(_mm512_shuffle_i32x4(a, b, 0x88)),
                               std::bit_cast<Words>(_mm512_shuffle_i32x4(a, b, 0xDD)));
  const __m512i from = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const U largest = std::bit_cast<U>(_mm512_permutexvar_epi32(from, as_register(both)));
#else
  const __m256i a = as_register(low), b = as_register(high);
  const U largest = std::bit_cast<U>(
      max_words(std::bit_cast<Words>(_mm256_permute2x128_si256(a, b, 0x20)),
                std::bit_cast<Words>(_mm256_permute2x128_si256(a, b, 0x31))));
#endif
  return std::bit_cast<U>(
             max_words(std::bit_cast<Words>(largest), std::bit_cast<Words>(largest << 16))) &
         0xFFFF0000;
}
[[gnu::always_inline]] inline U group_amax(const float* x) { return block_amax<W>(x); }

#undef PARITY_WIDE
