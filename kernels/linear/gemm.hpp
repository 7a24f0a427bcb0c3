// x[M,K] times four-bit weights w[N,K], dequantised in registers on their way into the sum: no
// dequantised copy of w is ever written. Sums in f32: 16 (AVX-512), 8 (AVX2) or 4 lanes over K,
// ascending, folded at the end; which thread computes an element never shows.
#pragma once

#include <cstdint>

namespace parity::linear_kernel {

inline constexpr std::int64_t kStep = 16;  // K is a multiple of it

// Codes: two a byte, element 2i in the low nibble, K/2 bytes a row. The value of a code is
// table[code] times the scale of its group: an e4m3 byte (`bytes`) or an f32 (`scales`).
struct Weights {
  std::int64_t N = 0, K = 0;
  std::int64_t group = kStep;  // columns under one scale, a multiple of 16
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* bytes = nullptr;
  const float* scales = nullptr;
  const float* table = nullptr;  // 16 values
};

struct Rows {
  const float* x = nullptr;  // M rows of K
  std::int64_t M = 0;
  float* y = nullptr;  // M rows of ldy
  std::int64_t ldy = 0;
};

// Columns [first, last) of y.
struct Steps {
  void (*columns)(const Rows&, const Weights&, std::int64_t first, std::int64_t last) = nullptr;
};
extern const Steps kPlainSteps, kAvx2Steps, kAvx512Steps;
const Steps& best_steps();  // of this machine

extern const float kE2m1Values[16];
extern const float kInt4Values[16];  // two's complement

// All columns, on threads over N.
void multiply(const Steps&, int threads, const Rows&, const Weights&);

}  // namespace parity::linear_kernel
