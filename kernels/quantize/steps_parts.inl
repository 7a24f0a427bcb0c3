// Amaxes, scales, codes and errors of blocks one by one, and the transform: what tiles, choices
// between two scales and transformed copies are made of. Included by steps_lanes.inl.

template <class Work>
void with(Dtype dtype, const void* x, const Work& work) {
  if (dtype == Dtype::BF16)
    work(static_cast<const std::uint16_t*>(x));
  else
    work(static_cast<const float*>(x));
}

// work(first block, pointer to a whole group's elements) for every W blocks; the last group is padded with zeros.
template <class X, class Work>
void in_groups(const X* x, std::int64_t blocks, const Work& work) {
  std::int64_t b = 0;
  for (; b + W <= blocks; b += W) work(b, x + 16 * b);
  if (b == blocks) return;
  X part[16 * W] = {};
  std::memcpy(part, x + 16 * b, static_cast<std::size_t>(16 * (blocks - b)) * sizeof(X));
  work(b, static_cast<const X*>(part));
}

// Stores the lanes of blocks [b, b + W) that there are.
template <class V, class T>
void store_lanes(T* to, std::int64_t b, std::int64_t blocks, V v) {
  const std::int64_t count = blocks - b < W ? blocks - b : W;
  std::memcpy(to + b, &v, static_cast<std::size_t>(count) * sizeof(T));
}

F load_lanes(const float* from, std::int64_t b, std::int64_t blocks) {
  float lanes[W] = {};
  const std::int64_t count = blocks - b < W ? blocks - b : W;
  std::memcpy(lanes, from + b, static_cast<std::size_t>(count) * sizeof(float));
  return load<F>(lanes);
}

template <class X>
void block_amaxes(const X* x, std::int64_t blocks, float* amax) {
  in_groups(x, blocks, [&](std::int64_t b, const X* group) {
    store_lanes(amax, b, blocks, floats(group_amax(group)));
  });
}

void block_scales(const Plan& plan, const float* amax, std::int64_t blocks, std::uint8_t* scales,
                  float* encode) {
  for (std::int64_t b = 0; b < blocks; b += W) {
    const Scale scale = scale_of(plan, load_lanes(amax, b, blocks));
    store_lanes(scales, b, blocks, __builtin_convertvector(scale.code, U8));
    store_lanes(encode, b, blocks, scale.encode);
  }
}

template <class X>
void block_codes(const Plan& plan, const X* x, std::int64_t blocks, const float* encode,
                 std::uint8_t* codes) {
  in_groups(x, blocks, [&](std::int64_t b, const X* group) {
    float factor[W];
    store(factor, load_lanes(encode, b, blocks));
    std::uint8_t bytes[8 * W];
    plan.positive_zero ? group_codes<true>(group, factor, bytes)
                       : group_codes<false>(group, factor, bytes);
    const std::int64_t count = blocks - b < W ? blocks - b : W;
    std::memcpy(codes + 8 * b, bytes, static_cast<std::size_t>(8 * count));
  });
}

float as_float(float x) { return x; }
float as_float(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

// A lane is a block; its elements follow one another, as the sum is in their order.
template <class X>
void block_errors(const Plan& plan, const X* x, const std::uint8_t* codes,
                  const std::uint8_t* scales, std::int64_t blocks, float* errors) {
  constexpr float kValues[16] = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                 -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  in_groups(x, blocks, [&](std::int64_t b, const X* group) {
    float element[16][W];
    float value[16][W] = {};
    std::uint8_t bytes[W] = {};
    const int count = static_cast<int>(blocks - b < W ? blocks - b : W);
    std::memcpy(bytes, scales + b, static_cast<std::size_t>(count));
    for (int w = 0; w < W; ++w)
      for (int i = 0; i < 16; ++i) element[i][w] = as_float(group[16 * w + i]);
    for (int w = 0; w < count; ++w) {
      for (int i = 0; i < 8; ++i) {
        const std::uint8_t two = codes[8 * (b + w) + i];
        value[2 * i][w] = kValues[two & 15];
        value[2 * i + 1][w] = kValues[two >> 4];
      }
    }
    const F scale = e4m3_value(__builtin_convertvector(load<U8>(bytes), U) & 0x7F);
    F sum = {};
    for (int i = 0; i < 16; ++i) {
      const F q = load<F>(value[i]) * scale;
      const F v = load<F>(element[i]);
      const F d = plan.fast_error ? q - v * plan.mult : q * plan.amax / plan.bound - v;
      sum += plan.square ? d * d : floats(bits(d) & 0x7FFFFFFF);
    }
    store_lanes(errors, b, blocks, sum);
  });
}

// ---- the transform ----

// The exact sum rounded once, by whole numbers: where exponents lie too far apart for a double.
std::uint16_t exact_entry(const double (&terms)[16], unsigned j) {
  ExactSum sum;
  for (unsigned i = 0; i < 16; ++i) sum.add(std::popcount(i & j) % 2 == 0 ? terms[i] : -terms[i]);
  return static_cast<std::uint16_t>(encode(Dtype::BF16, sum.value() * 0.25));
}

// Nearest even of a double in one rounding: first to odd in f32, which has the bits to decide.
std::uint16_t bf16_of(double x) {
  const auto f = static_cast<float>(x);
  std::uint32_t b = std::bit_cast<std::uint32_t>(f);
  const auto back = static_cast<double>(f);
  const bool inexact = back != x;
  const bool beyond = back < 0 ? back < x : back > x;
  b = inexact ? (b - (beyond ? 1U : 0U)) | 1U : b;
  const std::uint32_t rounded = (b + 0x7FFF + ((b >> 16) & 1)) >> 16;
  return static_cast<std::uint16_t>(x != x ? 0x7FC0 : rounded);
}

// One column by itself, in double: exact where exponents lie within 40 of each other.
void transform_column(const std::uint16_t* x, std::int64_t stride, const float* signs,
                      std::uint16_t* to) {
  double terms[16];
  int high = 0;
  int low = 255;
  for (int r = 0; r < 16; ++r) {
    const std::uint16_t own = x[r * stride];
    terms[r] = static_cast<double>(as_float(own) * signs[r]);
    const int exponent = own >> 7 & 0xFF;
    high = exponent > high ? exponent : high;
    low = (own & 0x7FFF) != 0 && exponent < low ? exponent : low;
  }
  if (high - low > 40 && high < 255) {
    for (unsigned r = 0; r < 16; ++r) to[r] = exact_entry(terms, r);
    return;
  }
  for (int half = 1; half < 16; half *= 2) {
    for (int r = 0; r < 16; ++r) {
      if ((r & half) != 0) continue;
      const double a = terms[r];
      const double b = terms[r + half];
      terms[r] = a + b;
      terms[r + half] = a - b;
    }
  }
  for (int r = 0; r < 16; ++r) to[r] = bf16_of(terms[r] * 0.25 + 0.0);  // zeros sum to +0
}

U wide_bits(const std::uint16_t* x) { return __builtin_convertvector(load<U16>(x), U) << 16; }

// W columns in f32, which holds the sums of 16 numbers of 8 bits where their exponents lie within 12
// of each other and none can overflow. Lanes of `far` are left to transform_column.
Mask transform_lanes(const std::uint16_t* x, std::int64_t stride, const float* signs,
                     std::uint16_t (&out)[16][W]) {
  F v[16];
  U high = {};
  U low = all(255U);
  for (int r = 0; r < 16; ++r) {
    const U own = wide_bits(x + r * stride);
    const U exponent = own >> 23 & 0xFF;
    high = max(high, exponent);
    const U least = (own & 0x7FFFFFFF) != 0 ? exponent : all(255U);
    low = least < low ? least : low;
    v[r] = floats(own) * signs[r];
  }
  for (int half = 1; half < 16; half *= 2) {
    for (int r = 0; r < 16; ++r) {
      if ((r & half) != 0) continue;
      const F a = v[r];
      const F b = v[r + half];
      v[r] = a + b;
      v[r + half] = a - b;
    }
  }
  for (int r = 0; r < 16; ++r) store_values(out[r], v[r] * 0.25F + 0.0F);
  // No number but zeros: low is 255, and nothing is far.
  return ((high > low + 12) | (high > 248)) & (high < 255);
}

void transform(const std::uint16_t* x, std::int64_t stride, std::int64_t columns,
               const float* signs, std::uint16_t* to, std::int64_t pitch) {
  std::int64_t first = 0;
  for (; first + W <= columns; first += W) {
    std::uint16_t out[16][W];
    const Mask far = transform_lanes(x + first, stride, signs, out);
    for (int k = 0; k < W; ++k) {
      std::uint16_t* column = to + (first + k) * pitch;
      if (far[k] != 0)
        transform_column(x + first + k, stride, signs, column);
      else
        for (int r = 0; r < 16; ++r) column[r] = out[r][k];
    }
  }
  for (; first < columns; ++first) transform_column(x + first, stride, signs, to + first * pitch);
}
