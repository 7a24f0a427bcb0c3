// Included by dense*.cpp inside an anonymous namespace.

using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
constexpr std::size_t kWidth = 16;

template <std::size_t kRows>
inline __attribute__((always_inline)) void tile(float* c, Strided a, const float* b, std::size_t m,
                                                std::size_t k, const std::uint16_t* order) {
  Floats sum[kRows] = {};
  for (std::size_t p = 0; p < k; ++p) {
    const std::size_t l = order ? order[p] : p;
    Floats y;
    __builtin_memcpy(&y, b + l * m, sizeof y);
    for (std::size_t i = 0; i < kRows; ++i) sum[i] += a.data[i * a.row + l * a.column] * y;
  }
  for (std::size_t i = 0; i < kRows; ++i) __builtin_memcpy(c + i * m, &sum[i], sizeof(Floats));
}

void multiply(float* c, Strided a, const float* b, std::size_t n, std::size_t m, std::size_t k,
              const std::uint16_t* order) {
  const std::size_t whole = m / kWidth * kWidth;
  for (std::size_t j = 0; j < whole; j += kWidth) {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4)
      tile<4>(c + i * m + j, {a.data + i * a.row, a.row, a.column}, b + j, m, k, order);
    for (; i < n; ++i)
      tile<1>(c + i * m + j, {a.data + i * a.row, a.row, a.column}, b + j, m, k, order);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = whole; j < m; ++j) {
      float sum = 0;
      for (std::size_t p = 0; p < k; ++p) {
        const std::size_t l = order ? order[p] : p;
        sum += a.data[i * a.row + l * a.column] * b[l * m + j];
      }
      c[i * m + j] = sum;
    }
}

// 2^x = 2^i 2^f with |f| <= 1/2; 2^f by its Taylor series, whose eighth term is below 2^-27. 2^i in
// two factors, so that results down to the smallest subnormal come out.
inline __attribute__((always_inline)) void exp2_pack(Floats& x) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -160.0F ? Floats{} - 160.0F : x;
  x = x > 160.0F ? Floats{} + 160.0F : x;
  const Floats whole = (x + kMagic) - kMagic, f = x - whole;
  Floats p = Floats{} + 1.5252734e-5F;
  p = p * f + 1.5403530e-4F;
  p = p * f + 1.3333558e-3F;
  p = p * f + 9.6181291e-3F;
  p = p * f + 5.5504109e-2F;
  p = p * f + 2.4022651e-1F;
  p = p * f + 6.9314718e-1F;
  p = p * f + 1.0F;
  const Ints i = __builtin_convertvector(whole, Ints), half = i >> 1, rest = i - half;
  Floats first, second;
  const Ints first_bits = (half + 127) << 23, second_bits = (rest + 127) << 23;
  __builtin_memcpy(&first, &first_bits, sizeof first);
  __builtin_memcpy(&second, &second_bits, sizeof second);
  x = p * first * second;
}

void exp2_row(float* y, const float* x, std::size_t n) {
  std::size_t i = 0;
  Floats p;
  for (; i + kWidth <= n; i += kWidth) {
    __builtin_memcpy(&p, x + i, sizeof p);
    exp2_pack(p);
    __builtin_memcpy(y + i, &p, sizeof p);
  }
  if (i < n) {
    p = Floats{};
    __builtin_memcpy(&p, x + i, (n - i) * sizeof(float));
    exp2_pack(p);
    __builtin_memcpy(y + i, &p, (n - i) * sizeof(float));
  }
}
