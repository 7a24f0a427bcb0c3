// The inner loops of the MX kernel: blocks of 32 consecutive elements, quantised and dequantised,
// for one instruction set. All sets give the same bits: a scale is a power of two, so that a code
// has one rounding, and what is subnormal is rounded as IEEE says.
#pragma once

#include <cstdint>

#include "harness/dtype.hpp"

namespace parity::mx_kernel {

inline constexpr std::int64_t kBlock = 32;

enum class Mode : std::uint8_t { Floor, Ceil, Even, Rceil };

// Arithmetic that goes wrong in a mutant; kScalarSteps alone knows how.
enum class Defect : std::uint8_t {
  None,
  SpecialScales,  // bytes 0, 254 and 255 by shifting an exponent
  Floor,          // FLOOR in place of RCEIL
  Overflow,       // no saturation
  HalfAway,       // ties of a code away from zero
  Truncated,      // codes truncated
  DropsNan        // a maximum that ignores NaN
};

struct Plan {
  Dtype elem = Dtype::E4M3;
  Mode mode = Mode::Floor;
  Defect defect = Defect::None;
};

// The element formats by their numbers, for scale modes.
struct Element {
  int max_pow2 = 8;
  int mantissa_bits = 3;
  float inverse_max = 1.0F / 448.0F;
};
constexpr Element element_of(Dtype elem) {
  switch (elem) {
    case Dtype::E5M2:
      return {15, 2, 1.0F / 57344.0F};
    case Dtype::E2M3:
      return {2, 3, 1.0F / 7.5F};
    case Dtype::E3M2:
      return {4, 2, 1.0F / 28.0F};
    case Dtype::E2M1:
      return {2, 1, 1.0F / 6.0F};
    default:
      return {};
  }
}

constexpr std::int64_t code_bytes(Dtype elem) { return elem == Dtype::E2M1 ? 16 : 32; }  // a block

// x and values: f32 or bf16, dense. Codes: a byte each, e2m1 two a byte, element 2i low. Scales: a
// byte a block.
struct Steps {
  void (*quantise)(const Plan&, Dtype, const void* x, std::int64_t blocks, std::uint8_t* codes,
                   std::uint8_t* scales) = nullptr;
  void (*dequantise)(const Plan&, Dtype, const std::uint8_t* codes, const std::uint8_t* scales,
                     std::int64_t blocks, void* values) = nullptr;
};

extern const Steps kScalarSteps;  // one element at a time: the definition, and the mutants
extern const Steps kAvx2Steps;    // 8 lanes
extern const Steps kAvx512Steps;  // 16 lanes

// To bf16, of formats with a byte a code.
void dequantise_by_table(Dtype elem, const std::uint8_t* codes, const std::uint8_t* scales,
                         std::int64_t blocks, std::uint16_t* values);

}  // namespace parity::mx_kernel
