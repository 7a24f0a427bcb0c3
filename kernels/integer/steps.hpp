// The inner loops of the integer quantisers, over one group of a row at a time, for one instruction
// set. All sets give the same bits: every operation is the same IEEE operation in the same order.
#pragma once

#include <cstdint>

#include "harness/dtype.hpp"

namespace parity::integer_kernel {

// What is the same for all groups.
struct Plan {
  float qmin = -128;
  float qmax = 127;
  bool narrow = false;       // data in bf16: values are rounded to it
  bool narrow_wide = false;  // data and scales in bf16: products are too
};

struct Group {
  float scale = 0;
  float inverse = 0;
  float zero = 0;
};

struct Steps {
  void (*widen)(Dtype, const void* x, std::int64_t n, float* to) = nullptr;
  void (*narrow)(Dtype, const float* x, std::int64_t n, void* to) = nullptr;
  // Smallest and largest; both NaN where there is one.
  void (*extremes)(const float* x, std::int64_t n, float* low, float* high) = nullptr;
  // clamp(round(x inverse) + zero); a NaN gives 0.
  void (*codes)(const Plan&, const Group&, const float* x, std::int64_t n,
                std::int8_t* codes) = nullptr;
  // (code - zero) scale
  void (*values)(const Plan&, const Group&, const std::int8_t* codes, std::int64_t n,
                 float* values) = nullptr;
  // Two codes a byte, element 2i in the low nibble.
  void (*pack)(const std::int8_t* codes, std::int64_t n, std::uint8_t* bytes) = nullptr;
};

extern const Steps kPlainSteps;   // 4 lanes: any x86-64
extern const Steps kAvx2Steps;    // 8 lanes
extern const Steps kAvx512Steps;  // 16 lanes

}  // namespace parity::integer_kernel
