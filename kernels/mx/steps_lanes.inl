// The inner loops over PARITY_LANES lanes. A group is one block of 32 a lane: the maxima of its blocks are reduced into one
// vector, so that their scales come from a few vector operations. The elements are then read again, from the first-level cache.

#include "kernels/quantize/lanes.inl"
#include "kernels/quantize/steps_codes.inl"
#include "kernels/quantize/lanes_bytes.inl"

#if PARITY_LANES == 8
constexpr Mask kEvenLanes = {0, 2, 4, 6, 8, 10, 12, 14};
#else
constexpr Mask kEvenLanes = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#endif

// Lane i: the amax of block i of 32.
template <class X>
[[gnu::always_inline]] inline U block_maxima(const X* x) {
  const U a = group_amax(x), b = group_amax(x + 16 * W);  // of 16 elements each
  return max(__builtin_shuffle(a, b, kEvenLanes), __builtin_shuffle(a, b, kEvenLanes + 1));
}

template <Mode kMode>
[[gnu::always_inline]] inline U scale_of(U amax, const Element& e) {
  const U not_finite = all(0xFFU);
  if constexpr (kMode == Mode::Rceil) {
    const U d = bits(floats(amax) * all(e.inverse_max));
    const U field = d >> 23;
    const U edge = field == 0 ? all(0x400000U) : U{};
    const U up = (d & 0x7FFFFF) > edge ? all(1U) : U{};
    return amax >= 0x7F800000 ? not_finite : field + up;
  }
  U b = amax;
  if constexpr (kMode == Mode::Even) b = (b + (1U << (22 - e.mantissa_bits))) & 0xFF800000;
  U field = b >> 23;
  if constexpr (kMode == Mode::Ceil) field += (b & 0x7FFFFF) != 0 ? all(1U) : U{};
  const U down = all(static_cast<std::uint32_t>(e.max_pow2));
  const U byte = field > down ? field - down : U{};
  return max(b, amax) >= 0x7F800000 ? not_finite : byte;  // rounding may carry into infinity
}

// 2^(127-byte): 2^-127 of 0xFE, NaN of 0xFF.
inline F reciprocal(U byte) {
  const U normal = byte == 0xFE ? all(0x00400000U) : (254 - byte) << 23;
  return floats(byte == 0xFF ? all(0x7FC00000U) : normal);
}
inline F scale_value(U byte) {
  const U normal = byte == 0 ? all(0x00400000U) : byte << 23;
  return floats(byte == 0xFF ? all(0x7FC00000U) : normal);
}

template <class Format, class X>
[[gnu::always_inline]] inline void codes_of(const X* x, const float* factor, std::uint8_t* codes) {
  constexpr int kRegisters = 32 / W;
  for (int b = 0; b < W; ++b) {
    const F r = all(factor[2 * b]);
    U lanes[kRegisters];
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) lanes[j] = Format::code(widened(x + 32 * b + W * j) * r);
    store_32(codes + 32 * b, lanes);
  }
}

struct E2m1 {};

// A factor for each half block, as the codes of 16 elements want them.
template <class Format, Mode kMode, class X>
void quantise_group(const Element& e, const X* x, std::uint8_t* codes, std::uint8_t* scales) {
  const U byte = scale_of<kMode>(block_maxima(x), e);
  store_bytes(scales, byte);
  float single[W], factor[2 * W];
  store(single, reciprocal(byte));
  for (int b = 0; b < W; ++b) factor[2 * b] = factor[2 * b + 1] = single[b];
  if constexpr (std::is_same_v<Format, E2m1>) {
    group_codes<false>(x, factor, codes);
    group_codes<false>(x + 16 * W, factor + W, codes + 8 * W);
  } else {
    codes_of<Format>(x, factor, codes);
  }
}

template <class Format, Mode kMode, class X>
void quantise_blocks(const Element& e, const X* x, std::int64_t blocks, std::uint8_t* codes,
                     std::uint8_t* scales) {
  constexpr std::int64_t kBytes = std::is_same_v<Format, E2m1> ? 16 : 32;
  std::int64_t b = 0;
  for (; b + W <= blocks; b += W)
    quantise_group<Format, kMode>(e, x + 32 * b, codes + kBytes * b, scales + b);
  if (b == blocks) return;
  const auto left = static_cast<std::size_t>(blocks - b);
  X part[32 * W] = {};
  std::uint8_t part_codes[std::size_t{kBytes * W}];
  std::uint8_t part_scales[W];
  std::memcpy(part, x + 32 * b, 32 * left * sizeof(X));
  quantise_group<Format, kMode>(e, part, part_codes, part_scales);
  std::memcpy(codes + kBytes * b, part_codes, std::size_t{kBytes} * left);
  std::memcpy(scales + b, part_scales, left);
}

template <class Format, class X>
void dequantise_blocks(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t blocks,
                       X* values) {
  for (std::int64_t first = 0; first < blocks; first += W) {
    const std::int64_t count = blocks - first < W ? blocks - first : W;
    std::uint8_t bytes[W] = {};
    std::memcpy(bytes, scales + first, static_cast<std::size_t>(count));
    float factor[W];
    store(factor, scale_value(load_codes(bytes)));
    for (std::int64_t b = 0; b < count; ++b) {
      const F f = all(factor[b]);
      X* to = values + 32 * (first + b);
      for (int j = 0; j < 32 / W; ++j) {
        if constexpr (std::is_same_v<Format, E2m1>) {
          const std::uint8_t* from = codes + 16 * (first + b) + j * W / 16 * 8;
          store_values(to + W * j, value_of(unpack(from, j % kVectors)) * f);
        } else {
          store_values(to + W * j, Format::value(load_codes(codes + 32 * (first + b) + W * j)) * f);
        }
      }
    }
  }
}

// Calls run with the format of the plan.
template <class Run>
void with_format(Dtype elem, const Run& run) {
  switch (elem) {
    case Dtype::E5M2:
      return run(E5m2{});
    case Dtype::E2M3:
      return run(E2m3{});
    case Dtype::E3M2:
      return run(E3m2{});
    case Dtype::E2M1:
      return run(E2m1{});
    default:
      return run(E4m3{});
  }
}

template <class X>
void quantise_as(const Plan& plan, const X* x, std::int64_t blocks, std::uint8_t* codes,
                 std::uint8_t* scales) {
  const Element e = element_of(plan.elem);
  with_format(plan.elem, [&]<class Format>(Format) {
    switch (plan.mode) {
      case Mode::Floor:
        return quantise_blocks<Format, Mode::Floor>(e, x, blocks, codes, scales);
      case Mode::Ceil:
        return quantise_blocks<Format, Mode::Ceil>(e, x, blocks, codes, scales);
      case Mode::Even:
        return quantise_blocks<Format, Mode::Even>(e, x, blocks, codes, scales);
      case Mode::Rceil:
        return quantise_blocks<Format, Mode::Rceil>(e, x, blocks, codes, scales);
    }
  });
}

constexpr Steps steps() {
  return {
      .quantise = [](const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks,
                     std::uint8_t* codes, std::uint8_t* scales) {
        if (dtype == Dtype::BF16)
          quantise_as(plan, static_cast<const std::uint16_t*>(x), blocks, codes, scales);
        else
          quantise_as(plan, static_cast<const float*>(x), blocks, codes, scales);
      },
      .dequantise = [](const Plan& plan, Dtype dtype, const std::uint8_t* codes,
                       const std::uint8_t* scales, std::int64_t blocks, void* values) {
        if (dtype == Dtype::BF16 && plan.elem != Dtype::E2M1)
          return dequantise_by_table(plan.elem, codes, scales, blocks,
                                     static_cast<std::uint16_t*>(values));
        if (dtype == Dtype::BF16)
          return dequantise_blocks<E2m1>(codes, scales, blocks, static_cast<std::uint16_t*>(values));
        with_format(plan.elem, [&]<class Format>(Format) {
          dequantise_blocks<Format>(codes, scales, blocks, static_cast<float*>(values));
        });
      },
  };
}
