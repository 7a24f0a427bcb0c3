// Codes of a byte each over W lanes, after lanes.inl: e4m3, e5m2, e2m3, e3m2.

template <int kMantissa, int kBias, std::uint32_t kTopCode, bool kHasNan>
struct ByteFormat {
  static constexpr std::uint32_t kSign = kTopCode < 0x40 ? 0x20 : 0x80;
  static constexpr std::uint32_t kNan = kHasNan ? kSign - 1 : kTopCode;
  static constexpr std::uint32_t kInfinity = kMantissa == 2 && kHasNan ? 0x7C : 0xFFFFFFFF;
  static constexpr int kDropped = 23 - kMantissa;
  // 2^23 smallest subnormals, and the smallest normal number, as f32 bits.
  static constexpr std::uint32_t kMagic = static_cast<std::uint32_t>(128 - kBias + kDropped) << 23;
  static constexpr std::uint32_t kMinNormal = static_cast<std::uint32_t>(128 - kBias) << 23;

  // Nearest even, saturating.
  static U code(F y) {
    const U b = bits(y);
    const U size = b & 0x7FFFFFFF;
    const U normal = ((size + ((1U << (kDropped - 1)) - 1) + ((size >> kDropped) & 1)) >> kDropped) -
                     (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
    const U subnormal = bits(floats(size) + all(std::bit_cast<float>(kMagic))) - kMagic;
    const U wide = size < kMinNormal ? subnormal : normal;
    const U finite = wide < kTopCode ? wide : all(kTopCode);
    const U sized = size > 0x7F800000 ? all(kNan) : finite;
    return sized | ((b >> (kSign == 0x80 ? 24 : 26)) & kSign);
  }

  static F value(U code) {
    const U size = code & (kSign - 1);
    const F small = __builtin_convertvector(std::bit_cast<Mask>(size), F) *
                    std::bit_cast<float>(static_cast<std::uint32_t>(128 - kBias - kMantissa) << 23);
    U large = (size << kDropped) + (static_cast<std::uint32_t>(127 - kBias) << 23);
    if constexpr (kHasNan) {
      large = size > kTopCode ? all(0x7FC00000U) : large;
      large = size == kInfinity ? all(0x7F800000U) : large;
    }
    const U sized = size < (1U << kMantissa) ? bits(small) : large;
    return floats(sized | (code & kSign) << (kSign == 0x80 ? 24 : 26));
  }
};
using E4m3 = ByteFormat<3, 7, 0x7E, true>;
using E5m2 = ByteFormat<2, 15, 0x7B, true>;
using E2m3 = ByteFormat<3, 1, 0x1F, false>;
using E3m2 = ByteFormat<2, 3, 0x1F, false>;

inline F widened(const float* x) { return load<F>(x); }
inline F widened(const std::uint16_t* x) {
  return floats(__builtin_convertvector(load<U16>(x), U) << 16);
}

// W codes as bytes.
inline void store_bytes(std::uint8_t* to, U codes) {
#if PARITY_LANES == 16
  store(to, _mm512_cvtepi32_epi8(std::bit_cast<__m512i>(codes)));
#else
  const U16 words = to_u16(codes);
  const __m128i w = std::bit_cast<__m128i>(words);
  store(to, _mm_cvtsi128_si64(_mm_packus_epi16(w, w)));
#endif
}
// 32 codes, in order.
inline void store_32(std::uint8_t* to, const U* codes) {
#if PARITY_LANES == 16
  store_bytes(to, codes[0]);
  store_bytes(to + W, codes[1]);
#else
  const auto r = [codes](int i) { return std::bit_cast<__m256i>(codes[i]); };
  const __m256i low = _mm256_packus_epi32(r(0), r(1)), high = _mm256_packus_epi32(r(2), r(3));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  store(to, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
#endif
}
inline U load_codes(const std::uint8_t* codes) {
  return __builtin_convertvector(load<U8>(codes), U);
}
