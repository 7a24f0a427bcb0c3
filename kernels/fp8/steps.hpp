// The inner loops of the FP8 kernel for one instruction set: maxima, codes and values of a run of
// consecutive elements. All sets give the same bits: every float operation is one IEEE operation in
// the same order.
#pragma once

#include <cstdint>

#include "harness/dtype.hpp"

namespace parity::fp8_kernel {

enum class Defect : std::uint8_t { None, HalfAway, Multiplied, DropsNan };

// e4m3 or e5m2. `by_element`: a scale for each element of the run in place of one for all.
struct Plan {
  Dtype elem = Dtype::E4M3;
  bool by_element = false;
  Defect defect = Defect::None;
};

struct Steps {
  // The largest |x| as f32 bits; NaN counts as largest.
  std::uint32_t (*amax)(const Plan&, Dtype, const void* x, std::int64_t n) = nullptr;
  // largest[i] = max(largest[i], |x[i]|), in the same order of bits.
  void (*amax_by_element)(const Plan&, Dtype, const void* x, std::int64_t n,
                          std::uint32_t* largest) = nullptr;
  // code = cast(clamp(x scale, -max, max))
  void (*quantise)(const Plan&, Dtype, const void* x, std::int64_t n, const float* scale,
                   std::uint8_t* codes) = nullptr;
  // value = code / scale, in the format of `values`
  void (*dequantise)(const Plan&, Dtype values_dtype, const std::uint8_t* codes, std::int64_t n,
                     const float* scale, void* values) = nullptr;
};

extern const Steps kScalarSteps;  // one element at a time: the definition, and the mutants
extern const Steps kAvx2Steps;    // 8 lanes
extern const Steps kAvx512Steps;  // 16 lanes

}  // namespace parity::fp8_kernel
