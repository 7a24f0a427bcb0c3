// The loops of steps.hpp for kLanes lanes, by the compiler's vector types. Included by one file for
// each instruction set, inside its own anonymous namespace.

using Floats = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using Words = std::uint32_t __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using Halves = std::uint16_t __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
using Bytes = std::int8_t __attribute__((vector_size(kLanes), aligned(1), may_alias));

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

template <class T>
T load(const void* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
void store(void* to, T v) {
  std::memcpy(to, &v, sizeof v);
}

void widen(Dtype dtype, const void* x, std::int64_t n, float* to) {
  if (dtype == Dtype::F32) {
    std::memcpy(to, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  const auto* from = static_cast<const std::uint16_t*>(x);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(to + i, __builtin_convertvector(load<Halves>(from + i), Words) << 16);
  for (; i < n; ++i) to[i] = float_from_bf16(from[i]);
}

void narrow(Dtype dtype, const float* x, std::int64_t n, void* to) {
  if (dtype == Dtype::F32) {
    std::memcpy(to, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  auto* out = static_cast<std::uint16_t*>(to);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(out + i,
          __builtin_convertvector(bits<Words>(to_bf16(load<Floats>(x + i))) >> 16, Halves));
  for (; i < n; ++i) out[i] = bf16_from_float(x[i]);
}

void extremes(const float* x, std::int64_t n, float* low, float* high) {
  float least = x[0], most = x[0];
  bool nan = false;
  std::int64_t i = 0;
  if (n >= kLanes) {
    Floats a = load<Floats>(x), b = a;
    Ints bad = a != a;
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      const Floats v = load<Floats>(x + i);
      bad |= v != v;
      a = v < a ? v : a;
      b = v > b ? v : b;
    }
    for (int l = 0; l < kLanes; ++l) {
      nan |= bad[l] != 0;
      least = std::min(least, a[l]), most = std::max(most, b[l]);
    }
  }
  for (; i < n; ++i) {
    nan |= std::isnan(x[i]);
    least = std::min(least, x[i]), most = std::max(most, x[i]);
  }
  *low = nan ? std::numeric_limits<float>::quiet_NaN() : least;
  *high = nan ? *low : most;
}

// round(clamp(y)) = clamp(round(y)) between integers, and the clamp keeps the sum of nearest() small.
void codes(const Plan& plan, const Group& g, const float* x, std::int64_t n, std::int8_t* codes) {
  const float low = plan.qmin - g.zero, high = plan.qmax - g.zero;
  const auto one = [&](Floats v) {
    Floats y = v * g.inverse;
    if (plan.narrow_wide) y = to_bf16(y);
    y = y != y ? all(-g.zero) : y;
    y = y < low ? all(low) : y;
    y = y > high ? all(high) : y;
    return __builtin_convertvector(__builtin_convertvector(nearest(y) + g.zero, Ints), Bytes);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(codes + i, one(load<Floats>(x + i)));
  for (; i < n; ++i) codes[i] = one(all(x[i]))[0];
}

void values(const Plan& plan, const Group& g, const std::int8_t* codes, std::int64_t n,
            float* values) {
  const auto one = [&](Bytes c) {
    Floats v = (__builtin_convertvector(__builtin_convertvector(c, Ints), Floats) - g.zero) *
               g.scale;
    return plan.narrow ? to_bf16(v) : v;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(values + i, one(load<Bytes>(codes + i)));
  for (; i < n; ++i) values[i] = one(Bytes{} + codes[i])[0];
}

void pack(const std::int8_t* codes, std::int64_t n, std::uint8_t* bytes) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {  // a 16-bit lane holds a pair
    const Halves pair = load<Halves>(codes + i);
    const Halves packed = (pair & 0x0FU) | (pair >> 4 & 0xF0U);
    using Out = std::uint8_t __attribute__((vector_size(kLanes), aligned(1), may_alias));
    store(bytes + i / 2, __builtin_convertvector(packed, Out));
  }
  for (; i + 1 < n; i += 2)
    bytes[i / 2] = static_cast<std::uint8_t>((codes[i] & 0xF) | (codes[i + 1] & 0xF) << 4);
}
