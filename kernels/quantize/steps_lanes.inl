// The inner loops over PARITY_LANES lanes, written with the compiler's vector types. Each file of an instruction set defines
// the width and includes this once, in an unnamed namespace: nothing here may be shared between instruction sets.
//
// A group is one block a lane: the maxima of its blocks are reduced into one vector, so that their scales and encode factors
// come from one chain of vector divisions. The elements are then read again, from the first-level cache.

#include "kernels/quantize/lanes.inl"

// Nearest e4m3 of 0 <= s <= 448 or NaN.
U e4m3_code(F s) {
  constexpr std::uint32_t kMagic = std::bit_cast<std::uint32_t>(0x1p14F);  // 2^23 smallest subnormals
  const U b = bits(s);
  const U normal = ((b + 0x7FFFF + ((b >> 20) & 1)) >> 20) - (120U << 3);
  const U subnormal = bits(s + all(0x1p14F)) - kMagic;
  const U code = b < std::bit_cast<std::uint32_t>(0x1p-6F) ? subnormal : normal;
  return (b & 0x7FFFFFFF) > 0x7F800000 ? all(0x7FU) : code;
}

F e4m3_value(U code) {
  const F subnormal = __builtin_convertvector(code, F) * 0x1p-9F;
  const F value = code < 8 ? subnormal : floats((code << 20) + (120U << 23));
  return code == 0x7F ? all(std::numeric_limits<float>::quiet_NaN()) : value;
}

struct Scale {
  U code;
  F encode;
};
// A comparison with NaN is false: every clamp here hands NaN on.
[[gnu::always_inline]] inline Scale scale_of(const Plan& plan, F block_amax) {
  const F top = all(448.0F);
  if (plan.order != Order::Decode) {
    const F wide = plan.order == Order::Encode ? block_amax * plan.mult
                                               : block_amax / 6.0F * plan.mult * plan.times;
    const U code = e4m3_code(wide > top ? top : wide);
    const F encode = 1.0F / (e4m3_value(code) * plan.decode);
    const F limit = all(std::numeric_limits<float>::max());
    return {code, encode > limit ? limit : encode};
  }
  const F wide = block_amax / 6.0F / plan.decode;
  const F bottom = all(0x1p-6F);
  const F floored = wide < bottom ? bottom : wide;
  const U code = e4m3_code(floored > top ? top : floored);
  return {code, plan.inverse / e4m3_value(code)};
}

#if PARITY_LANES > 4
#include "kernels/quantize/steps_codes.inl"
#else
// Nearest even, saturating: below 1 the addition of 2^22 rounds to halves, above the code is the top of the bits.
U e2m1_code(F y, std::uint32_t negative_zero_sign) {
  const U b = bits(y);
  const U magnitude = b & 0x7FFFFFFF;
  const U small = bits(floats(magnitude) + all(0x1p22F)) - std::bit_cast<std::uint32_t>(0x1p22F);
  const U large = ((magnitude + 0x1FFFFF + ((magnitude >> 22) & 1)) >> 22) - 252;
  const U top = large < 7 ? large : all(7U);
  const U code = magnitude < std::bit_cast<std::uint32_t>(1.0F) ? small : top;
  const U sign = (b >> 28) & 8;
  return code | (magnitude == 0 ? sign & negative_zero_sign : sign);
}

template <bool kPositiveZero, class X>
void group_codes(const X* x, const float* factor, std::uint8_t* codes) {
  for (int b = 0; b < W; ++b) {
    std::uint32_t lane[16];
    for (int j = 0; j < kVectors; ++j)
      store(lane + j * W, e2m1_code(floats(load_bits(x + 16 * b + W * j)) * factor[b],
                                    kPositiveZero ? 0U : 8U));
    for (int i = 0; i < 8; ++i)
      codes[8 * b + i] = static_cast<std::uint8_t>(lane[2 * i] | lane[2 * i + 1] << 4);
  }
}

template <class X>
U group_amax(const X* x) {
  return block_amax<W>(x);
}
#endif

// N groups: first the scales of all, whose chains of divisions then overlap, then the codes.
template <int N, class X>
void quantise_groups(const Plan& plan, const X* x, std::uint8_t* codes, std::uint8_t* scales,
                     float* encode) {
  float factor[std::size_t{N * W}];
  for (int g = 0; g < N; ++g) {
    const Scale scale = scale_of(plan, floats(group_amax(x + 16 * W * g)));
#if PARITY_LANES == 16
    store(scales + W * g, _mm512_cvtepi32_epi8(std::bit_cast<__m512i>(scale.code)));
#else
    store(scales + W * g, __builtin_convertvector(scale.code, U8));
#endif
    store(factor + W * g, scale.encode);
    if (encode != nullptr) store(encode + W * g, scale.encode);
  }
  for (int g = 0; g < N; ++g) {
    const X* from = x + 16 * W * g;
    const float* f = factor + W * g;
    std::uint8_t* to = codes + 8 * W * g;
    plan.positive_zero ? group_codes<true>(from, f, to) : group_codes<false>(from, f, to);
  }
}

template <class X>
void quantise_blocks(const Plan& plan, const X* x, std::int64_t blocks, std::uint8_t* codes,
                     std::uint8_t* scales, float* encode) {
  constexpr int kGroups = 8;
  std::int64_t b = 0;
  const auto at = [&](auto run) {
    run(x + 16 * b, codes + 8 * b, scales + b, encode == nullptr ? nullptr : encode + b);
  };
  for (; b + kGroups * W <= blocks; b += kGroups * W)
    at([&](auto... to) { quantise_groups<kGroups>(plan, to...); });
  for (; b + W <= blocks; b += W) at([&](auto... to) { quantise_groups<1>(plan, to...); });
  if (b == blocks) return;
  const auto left = static_cast<std::size_t>(blocks - b);
  X part[16 * W] = {};
  std::uint8_t part_codes[8 * W];
  std::uint8_t part_scales[W];
  float part_encode[W];
  std::memcpy(part, x + 16 * b, 16 * left * sizeof(X));
  quantise_groups<1>(plan, part, part_codes, part_scales, part_encode);
  std::memcpy(codes + 8 * b, part_codes, 8 * left);
  std::memcpy(scales + b, part_scales, left);
  if (encode != nullptr) std::memcpy(encode + b, part_encode, left * sizeof(float));
}

template <class X>
void dequantise_blocks(const Plan& plan, const std::uint8_t* codes, const std::uint8_t* scales,
                       std::int64_t blocks, X* values) {
  constexpr float kPer2688 = 1.0F / 2688.0F;
  for (std::int64_t first = 0; first < blocks; first += W) {
    const std::int64_t count = blocks - first < W ? blocks - first : W;
    std::uint8_t bytes[W] = {};
    std::memcpy(bytes, scales + first, static_cast<std::size_t>(count));
    const F scale = e4m3_value(__builtin_convertvector(load<U8>(bytes), U) & 0x7F);
    float factor[W];
    store(factor, plan.order == Order::Encode   ? scale * plan.amax * kPer2688
                  : plan.order == Order::Choice ? scale
                                                : plan.decode * scale);
    for (std::int64_t b = 0; b < count; ++b) {
      for (int j = 0; j < kVectors; ++j) {
        const F value = value_of(unpack(codes + 8 * (first + b), j)) * factor[b];
        store_values(values + 16 * (first + b) + W * j,
                     plan.order == Order::Choice ? value * plan.amax / plan.bound : value);
      }
    }
  }
}

#include "kernels/quantize/steps_parts.inl"

std::uint32_t largest_bits(const float* x, std::int64_t n) {
  U a = {}, b = {};
  std::int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    a = max(a, load_bits(x + i) & 0x7FFFFFFF);
    b = max(b, load_bits(x + i + W) & 0x7FFFFFFF);
  }
  a = max(a, b);
  std::uint32_t largest = 0;
  for (int k = 0; k < W; ++k) largest = largest > a[k] ? largest : a[k];
  for (; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFF;
    largest = largest > bits ? largest : bits;
  }
  return largest;
}

std::uint32_t largest_bits(const std::uint16_t* x, std::int64_t n) {
  typedef std::uint16_t V __attribute__((vector_size(4 * W)));
  V a = {}, b = {};
  std::int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    const V c = load<V>(x + i) & 0x7FFF;
    const V d = load<V>(x + i + 2 * W) & 0x7FFF;
    a = a > c ? a : c;
    b = b > d ? b : d;
  }
  a = a > b ? a : b;
  std::uint32_t largest = 0;
  for (int k = 0; k < 2 * W; ++k) largest = largest > a[k] ? largest : a[k];
  for (; i < n; ++i) {
    const std::uint32_t bits = x[i] & 0x7FFFU;
    largest = largest > bits ? largest : bits;
  }
  return largest << 16;
}

constexpr Steps steps() {
  return {
      .amax = [](Dtype dtype, const void* x, std::int64_t n) {
        return dtype == Dtype::BF16 ? largest_bits(static_cast<const std::uint16_t*>(x), n)
                                    : largest_bits(static_cast<const float*>(x), n);
      },
      .quantise = [](const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks,
                     std::uint8_t* codes, std::uint8_t* scales, float* encode) {
        if (dtype == Dtype::BF16)
          quantise_blocks(plan, static_cast<const std::uint16_t*>(x), blocks, codes, scales, encode);
        else
          quantise_blocks(plan, static_cast<const float*>(x), blocks, codes, scales, encode);
      },
      .dequantise = [](const Plan& plan, Dtype dtype, const std::uint8_t* codes,
                       const std::uint8_t* scales, std::int64_t blocks, void* values) {
        if (dtype == Dtype::BF16)
          dequantise_blocks(plan, codes, scales, blocks, static_cast<std::uint16_t*>(values));
        else
          dequantise_blocks(plan, codes, scales, blocks, static_cast<float*>(values));
      },
      .block_amax = [](Dtype dtype, const void* x, std::int64_t blocks, float* amax) {
        with(dtype, x, [&](const auto* values) { block_amaxes(values, blocks, amax); });
      },
      .scales = block_scales,
      .codes = [](const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks,
                  const float* encode, std::uint8_t* codes) {
        with(dtype, x, [&](const auto* values) { block_codes(plan, values, blocks, encode, codes); });
      },
      .errors = [](const Plan& plan, Dtype dtype, const void* x, const std::uint8_t* codes,
                   const std::uint8_t* scales, std::int64_t blocks, float* errors) {
        with(dtype, x,
             [&](const auto* values) { block_errors(plan, values, codes, scales, blocks, errors); });
      },
      .transform = transform,
  };
}

