// The inner loops of the NVFP4 kernel: blocks of 16 consecutive elements, quantised and
// dequantised, for one instruction set. All sets give the same bits: every float operation is the
// same IEEE operation in the same order.
#pragma once

#include <cstdint>

#include "harness/dtype.hpp"

namespace parity::nvfp4 {

inline constexpr std::int64_t kBlock = 16;

// How the block scale is formed from the block's amax.
enum class Order : std::uint8_t {
  Encode,  // chain A: s = e4m3(min(bamax mult, 448)), enc = min(1 / (s decode), FLT_MAX)
  Decode,  // chain B: s = e4m3(clamp(bamax/6/decode, 2^-6, 448)), enc = inverse / s; one level:
           // decode = 1
  Choice   // chain F: s = e4m3(min(bamax/6 mult times, 448)), enc as in chain A
};

// Arithmetic that goes wrong in a mutant; kScalarSteps alone knows how.
enum class Defect : std::uint8_t {
  None,
  ExactScale,       // encode factor from the scale before its rounding
  ReciprocalOrder,  // the other order of the two divisions
  HalfAway,         // ties of a code away from zero
  Truncated,        // codes truncated
  ScaleUp,          // scales rounded up
  DropsNan          // a maximum that ignores NaN
};

// What is the same for all blocks of a tensor.
struct Plan {
  Order order = Order::Encode;
  float mult = 0;              // Encode: S_enc fl(1/6); Choice: S_enc
  float times = 1;             // Choice: 1 or 1.5
  float bound = 0;             // Choice: 6 times the e4m3 bound of the tensor scale
  bool square = false;         // Choice: errors squared
  bool fast_error = false;     // Choice: d = q s - x S_enc in place of ((q s) amax) / bound - x
  float decode = 1;            // Encode: 1/S_enc; Decode: the tensor scale
  float inverse = 1;           // Decode: 1/decode
  float amax = 0;              // Encode: its dequantisation is code ((s amax) fl(1/2688))
  bool positive_zero = false;  // -0 gives code 0
  Defect defect = Defect::None;
};

// x and values: f32 or bf16, dense. Codes: 8 bytes a block, element 2i low. Scales: 1 byte a block;
// NaN is 0x7F.
struct Steps {
  // The largest |x| as f32 bits; NaN counts as largest.
  std::uint32_t (*amax)(Dtype, const void* x, std::int64_t elements) = nullptr;
  // `encode`: factors of the blocks, or null.
  void (*quantise)(const Plan&, Dtype, const void* x, std::int64_t blocks, std::uint8_t* codes,
                   std::uint8_t* scales, float* encode) = nullptr;
  void (*dequantise)(const Plan&, Dtype, const std::uint8_t* codes, const std::uint8_t* scales,
                     std::int64_t blocks, void* values) = nullptr;

  // The parts of `quantise`: the largest |x| of each block; scales and factors from those; codes
  // under given factors.
  void (*block_amax)(Dtype, const void* x, std::int64_t blocks, float* amax) = nullptr;
  void (*scales)(const Plan&, const float* amax, std::int64_t blocks, std::uint8_t* scales,
                 float* encode) = nullptr;
  void (*codes)(const Plan&, Dtype, const void* x, std::int64_t blocks, const float* encode,
                std::uint8_t* codes) = nullptr;
  // Choice: the error of each block, summed in the order of its elements.
  void (*errors)(const Plan&, Dtype, const void* x, const std::uint8_t* codes,
                 const std::uint8_t* scales, std::int64_t blocks, float* errors) = nullptr;
  // The random Hadamard transform down 16 rows of bf16, `stride` elements apart; column k comes out
  // as 16 consecutive values at to + k pitch. Rounded once from the exact sums.
  void (*transform)(const std::uint16_t* x, std::int64_t stride, std::int64_t columns,
                    const float* signs, std::uint16_t* to, std::int64_t pitch) = nullptr;
};

extern const Steps
    kScalarSteps;  // one element at a time, by the codecs: the definition, and the mutants
extern const Steps kPlainSteps;   // 4 lanes: any x86-64
extern const Steps kAvx2Steps;    // 8 lanes
extern const Steps kAvx512Steps;  // 16 lanes: a block is a register

}  // namespace parity::nvfp4
