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

constexpr int kColumns = 8;  // at a time, in double

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

void transform(const std::uint16_t* x, std::int64_t columns, const float* signs, std::uint16_t* to,
               std::int64_t pitch) {
  for (std::int64_t first = 0; first < columns; first += kColumns) {
    const int count = static_cast<int>(columns - first < kColumns ? columns - first : kColumns);
    std::uint16_t part[16][kColumns] = {};
    for (int r = 0; r < 16; ++r)
      std::memcpy(part[r], x + r * columns + first, static_cast<std::size_t>(count) * 2);
    double v[16][kColumns];
    int high[kColumns] = {};
    int low[kColumns];
    for (int k = 0; k < kColumns; ++k) low[k] = 255;
    for (int r = 0; r < 16; ++r) {
      const auto sign = static_cast<double>(signs[r]);
      for (int k = 0; k < kColumns; ++k) {
        v[r][k] = static_cast<double>(as_float(part[r][k])) * sign;
        const int exponent = part[r][k] >> 7 & 0xFF;
        const bool zero = (part[r][k] & 0x7FFF) == 0;
        high[k] = exponent > high[k] ? exponent : high[k];
        low[k] = !zero && exponent < low[k] ? exponent : low[k];
      }
    }
    double terms[kColumns][16];
    // Sums of 16 numbers of 8 bits are exact in 53 where exponents lie within 40 of each other.
    bool far = false;
    for (int k = 0; k < kColumns; ++k) far = far || (high[k] - low[k] > 40 && high[k] < 255);
    if (far)
      for (int k = 0; k < kColumns; ++k)
        for (int r = 0; r < 16; ++r) terms[k][r] = v[r][k];
    for (int half = 1; half < 16; half *= 2) {
      for (int r = 0; r < 16; ++r) {
        if ((r & half) != 0) continue;
        for (int k = 0; k < kColumns; ++k) {
          const double a = v[r][k];
          const double b = v[r + half][k];
          v[r][k] = a + b;
          v[r + half][k] = a - b;
        }
      }
    }
    std::uint16_t out[kColumns][16];
    for (int r = 0; r < 16; ++r)  // + 0: a sum of zeros is +0
      for (int k = 0; k < kColumns; ++k) out[k][r] = bf16_of(v[r][k] * 0.25 + 0.0);
    if (far)
      for (int k = 0; k < kColumns; ++k)
        for (unsigned r = 0; r < 16; ++r) out[k][r] = exact_entry(terms[k], r);
    for (int k = 0; k < count; ++k) std::memcpy(to + (first + k) * pitch, out[k], sizeof out[k]);
  }
}
