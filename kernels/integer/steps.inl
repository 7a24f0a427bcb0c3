// The loops of steps.hpp for kLanes lanes, by the compiler's vector types, 16 elements at a time.
// Bytes and halves are packed by SSE2, which every x86-64 has. Included by one file for each
// instruction set, inside its own anonymous namespace.

using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));
using Words = std::uint32_t __attribute__((vector_size(4 * kLanes)));

constexpr std::int64_t kStep = 16;

template <class To, class From>
To bits(From v) {
  return std::bit_cast<To>(v);
}

Floats all(float v) { return v - Floats{}; }

// Nearest integer, ties to even, for |v| < 2^22: the sum's last bit is worth one.
Floats nearest(Floats v) {
  constexpr float kMagic = 12582912.0F;
  return (v + kMagic) - kMagic;
}

// One rounding to bf16; NaN stays NaN.
Floats to_bf16(Floats v) {
  const Words w = bits<Words>(v);
  const Words rounded = (w + 0x7FFFU + (w >> 16 & 1U)) & 0xFFFF0000U;
  return v != v ? v : bits<Floats>(rounded);
}

// Through types of their own: a copy by memcpy would go in halves and stall on its way back.
using LooseFloats = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using LooseInts = std::int32_t __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
Floats load(const float* from) { return *reinterpret_cast<const LooseFloats*>(from); }
Ints load(const std::int32_t* from) { return *reinterpret_cast<const LooseInts*>(from); }
void store(float* to, Floats v) { *reinterpret_cast<LooseFloats*>(to) = v; }
void store(std::int32_t* to, Ints v) { *reinterpret_cast<LooseInts*>(to) = v; }
__m128i load16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
void store16(void* to, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(to), v); }

// Lane l and lane l ^ 2^power change places.
alignas(64) constexpr std::int32_t kSwapped[4][16] = {
    {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14},
    {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13},
    {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11},
    {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}};
template <class T>
T swapped(T v, int power) {
  return __builtin_shuffle(v, load(kSwapped[power]));
}

void widen(Dtype dtype, const void* x, std::int64_t n, float* to) {
  if (dtype == Dtype::F32) {
    std::memcpy(to, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  const auto* from = static_cast<const std::uint16_t*>(x);
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i v = load16(from + i), zero = _mm_setzero_si128();
    store16(to + i, _mm_unpacklo_epi16(zero, v));
    store16(to + i + 4, _mm_unpackhi_epi16(zero, v));
  }
  for (; i < n; ++i) to[i] = float_from_bf16(from[i]);
}

void narrow(Dtype dtype, const float* x, std::int64_t n, void* to) {
  if (dtype == Dtype::F32) {
    std::memcpy(to, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  auto* out = static_cast<std::uint16_t*>(to);
  alignas(64) float rounded[kStep];
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (std::int64_t l = 0; l < kStep; l += kLanes) store(rounded + l, to_bf16(load(x + i + l)));
    const auto half = [&](std::int64_t at) { return _mm_srai_epi32(load16(rounded + at), 16); };
    store16(out + i, _mm_packs_epi32(half(0), half(4)));
    store16(out + i + 8, _mm_packs_epi32(half(8), half(12)));
  }
  for (; i < n; ++i) out[i] = bf16_from_float(x[i]);
}

void extremes(const float* x, std::int64_t n, float* low, float* high) {
  float least = x[0], most = x[0];
  bool nan = false;
  std::int64_t i = 0;
  if (n >= kLanes) {
    Floats a = load(x), b = a;
    Ints bad = a != a;
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      const Floats v = load(x + i);
      bad |= v != v;
      a = v < a ? v : a;
      b = v > b ? v : b;
    }
    for (int power = std::countr_zero(unsigned{kLanes}) - 1; power >= 0; --power) {
      const Floats other_a = swapped(a, power), other_b = swapped(b, power);
      a = other_a < a ? other_a : a;
      b = other_b > b ? other_b : b;
      bad |= swapped(bad, power);
    }
    nan = bad[0] != 0;
    least = a[0], most = b[0];
  }
  for (; i < n; ++i) {
    nan |= std::isnan(x[i]);
    least = std::min(least, x[i]), most = std::max(most, x[i]);
  }
  *low = nan ? std::numeric_limits<float>::quiet_NaN() : least;
  *high = nan ? *low : most;
}

// 16 integers within int8 to bytes, and back.
void to_bytes(const std::int32_t* from, std::int8_t* to) {
  const __m128i low = _mm_packs_epi32(load16(from), load16(from + 4));
  const __m128i high = _mm_packs_epi32(load16(from + 8), load16(from + 12));
  store16(to, _mm_packs_epi16(low, high));
}
void from_bytes(const std::int8_t* from, std::int32_t* to) {
  const __m128i v = load16(from);
  const __m128i low = _mm_unpacklo_epi8(v, v), high = _mm_unpackhi_epi8(v, v);
  store16(to, _mm_srai_epi32(_mm_unpacklo_epi16(low, low), 24));
  store16(to + 4, _mm_srai_epi32(_mm_unpackhi_epi16(low, low), 24));
  store16(to + 8, _mm_srai_epi32(_mm_unpacklo_epi16(high, high), 24));
  store16(to + 12, _mm_srai_epi32(_mm_unpackhi_epi16(high, high), 24));
}

// round(clamp(y)) = clamp(round(y)) between integers, and the clamp keeps the sum of nearest()
// small.
void codes(const Plan& plan, const Group& g, const float* x, std::int64_t n, std::int8_t* codes) {
  const float low = plan.qmin - g.zero, high = plan.qmax - g.zero;
  const auto one = [&](Floats v) {
    Floats y = v * g.inverse;
    if (plan.narrow_wide) y = to_bf16(y);
    y = y != y ? all(-g.zero) : y;
    y = y < low ? all(low) : y;
    y = y > high ? all(high) : y;
    return __builtin_convertvector(nearest(y) + g.zero, Ints);
  };
  alignas(64) std::int32_t integers[kStep];
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (std::int64_t l = 0; l < kStep; l += kLanes) store(integers + l, one(load(x + i + l)));
    to_bytes(integers, codes + i);
  }
  for (; i < n; ++i) codes[i] = static_cast<std::int8_t>(one(all(x[i]))[0]);
}

void values(const Plan& plan, const Group& g, const std::int8_t* codes, std::int64_t n,
            float* values) {
  const auto one = [&](Ints c) {
    const Floats v = (__builtin_convertvector(c, Floats) - g.zero) * g.scale;
    return plan.narrow ? to_bf16(v) : v;
  };
  alignas(64) std::int32_t integers[kStep];
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    from_bytes(codes + i, integers);
    for (std::int64_t l = 0; l < kStep; l += kLanes) store(values + i + l, one(load(integers + l)));
  }
  for (; i < n; ++i) values[i] = one(Ints{} + codes[i])[0];
}

void pack(const std::int8_t* codes, std::int64_t n, std::uint8_t* bytes) {
  std::int64_t i = 0;
  const auto pairs = [&](std::int64_t at) {  // a 16-bit lane holds a pair
    const __m128i v = load16(codes + at);
    return _mm_or_si128(_mm_and_si128(v, _mm_set1_epi16(0x0F)),
                        _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi16(0xF0)));
  };
  for (; i + 2 * kStep <= n; i += 2 * kStep)
    store16(bytes + i / 2, _mm_packus_epi16(pairs(i), pairs(i + kStep)));
  for (; i + 1 < n; i += 2)
    bytes[i / 2] = static_cast<std::uint8_t>((codes[i] & 0xF) | (codes[i + 1] & 0xF) << 4);
}

constexpr Steps steps() {
  return {.widen = widen,
          .narrow = narrow,
          .extremes = extremes,
          .codes = codes,
          .values = values,
          .pack = pack};
}
