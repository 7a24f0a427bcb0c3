// What quantisers do over PARITY_LANES lanes, with the compiler's vector types: loads and stores, maxima of 16 elements, e2m1
// codes to values. Each file of an instruction set defines the width and includes this once, in an unnamed namespace: nothing
// here may be shared between instruction sets.

constexpr int W = PARITY_LANES;
constexpr int kVectors = 16 / W;  // of a block

typedef float F __attribute__((vector_size(4 * W)));
typedef std::uint32_t U __attribute__((vector_size(4 * W)));
typedef std::int32_t Mask __attribute__((vector_size(4 * W)));
typedef std::uint16_t U16 __attribute__((vector_size(2 * W)));
typedef std::uint8_t U8 __attribute__((vector_size(W)));

inline F all(float x) { return x - F{}; }
inline U all(std::uint32_t x) { return x - U{}; }
inline F floats(U bits) { return std::bit_cast<F>(bits); }
inline U bits(F values) { return std::bit_cast<U>(values); }
inline U max(U a, U b) { return a > b ? a : b; }

template <class V>
V load(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V>
void store(void* to, V v) {
  std::memcpy(to, &v, sizeof v);
}

// Lanes below 2^16.
inline U16 to_u16(U v) {
#if PARITY_LANES == 16
  return std::bit_cast<U16>(_mm512_cvtepi32_epi16(std::bit_cast<__m512i>(v)));
#elif PARITY_LANES == 8
  const __m256i packed = _mm256_packus_epi32(std::bit_cast<__m256i>(v), std::bit_cast<__m256i>(v));
  return std::bit_cast<U16>(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#else
  return __builtin_convertvector(v, U16);
#endif
}

// W elements as f32.
inline U load_bits(const float* x) { return load<U>(x); }
#if PARITY_LANES == 4  // wider lanes take bf16 as it is
inline U load_bits(const std::uint16_t* x) {
  return __builtin_convertvector(load<U16>(x), U) << 16;
}
#endif
inline void store_values(float* to, F v) { store(to, v); }
inline void store_values(std::uint16_t* to, F v) {  // nearest even; a NaN is quiet and keeps its sign
  const U b = bits(v);
  const U rounded = (b + 0x7FFF + ((b >> 16) & 1)) >> 16;
  const U nan = ((b >> 16) & 0x8000) | 0x7FC0;
  store(to, to_u16((b & 0x7FFFFFFF) > 0x7F800000 ? nan : rounded));
}

#if PARITY_LANES == 4
constexpr Mask kEven = {0, 2, 4, 6};
#elif PARITY_LANES == 8
constexpr Mask kEven = {0, 2, 8, 10, 4, 6, 12, 14};  // inside halves of the register
#else
constexpr Mask kEven = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#endif

// N blocks: lanes hold N groups of partial maxima, in the order of the blocks; for N = W lane i is the amax of block i.
template <int N, class X>
[[gnu::always_inline]] inline U block_amax(const X* x) {
  if constexpr (N == 1) {
    U largest = load_bits(x) & 0x7FFFFFFF;
#pragma GCC unroll 4
    for (int j = 1; j < kVectors; ++j) largest = max(largest, load_bits(x + W * j) & 0x7FFFFFFF);
    return largest;
  } else {
    const U a = block_amax<N / 2>(x);
    const U b = block_amax<N / 2>(x + 8 * N);
#if PARITY_LANES == 8
    if constexpr (N == 8) {
      constexpr Mask kLowHalves = {0, 1, 2, 3, 8, 9, 10, 11};
      return max(__builtin_shuffle(a, b, kLowHalves), __builtin_shuffle(a, b, kLowHalves + 4));
    }
#endif
    return max(__builtin_shuffle(a, b, kEven), __builtin_shuffle(a, b, kEven + 1));
  }
}

#if PARITY_LANES == 4
constexpr U kShift = {0, 4, 8, 12};
#elif PARITY_LANES == 8
constexpr U kShift = {0, 4, 8, 12, 16, 20, 24, 28};
#else
constexpr U kShift = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
#endif

// Codes of lanes [j W, j W + W) of a block, in the low bits; the bits above are those of their neighbours.
inline U unpack(const std::uint8_t* codes, int j) {
#if PARITY_LANES == 16
  static_cast<void>(j);
  const __m512i both = _mm512_set1_epi64(load<std::int64_t>(codes));
  const __m512i half = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  return std::bit_cast<U>(_mm512_permutexvar_epi32(half, both)) >> kShift;
#else
  return all(load<std::uint32_t>(codes + j * W / 8 * 4)) >> (kShift + static_cast<std::uint32_t>(j * W % 8 * 4));
#endif
}

// The value of code & 15; what stands above does not count.
inline F value_of(U code) {
#if PARITY_LANES == 16
  const F all_codes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  return std::bit_cast<F>(_mm512_permutexvar_ps(std::bit_cast<__m512i>(code), std::bit_cast<__m512>(all_codes)));
#else
#if PARITY_LANES == 8
  const F magnitudes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const F magnitude = std::bit_cast<F>(_mm256_permutevar8x32_ps(std::bit_cast<__m256>(magnitudes), std::bit_cast<__m256i>(code)));
#else  // 0 and 1 are subnormal, 2..7 have the bits of their f32 at hand
  const U m = code & 7;
  const F magnitude = floats(m < 2 ? m * std::bit_cast<std::uint32_t>(0.5F) : (m + 252) << 22);
#endif
  return floats(bits(magnitude) | (code & 8) << 28);
#endif
}
