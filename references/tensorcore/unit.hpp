// The arithmetic of matrix instructions as data: what a tensor core keeps of the products that it
// adds at once.
//
// One step takes an accumulator c and `group` products. Every term has a significand and a nominal
// exponent, that of its factors added, not renormalised. All terms are shifted to the greatest
// exponent and truncated towards zero to `fraction` bits below it; the integers are added exactly;
// the sum is rounded once to what the accumulator keeps. An instruction of more products does one
// step after another, k ascending.
//
// After the published models of Li et al. (MMA-Sim, arXiv 2511.10909) and Fasi et al. (PeerJ CS
// 2021; arXiv 2512.07004); rows of sm_90 are measured on an H200 (golden/independent/
// tensorcore_h200.h5, and over 7e8 probes, sparse forms too: ci/device/tensorcore_h200.txt; of a
// sparse instruction the products that it keeps are those of a dense one of half its k).
// `hw_verified` says which are; the others are models only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::tensorcore {

// What an f32 accumulator keeps of a sum. An f16 accumulator always rounds to nearest even.
enum class Keeps : std::uint8_t {
  F32,   // 23 fraction bits, towards zero, subnormals kept
  E8M13  // 13 fraction bits, towards zero
};

enum class Scheme : std::uint8_t {
  Aligned,   // as above
  ViaHalf,   // fp8 mma.sync of sm_90: operands become f16; two steps from zero, of k mod 4 in {0,1}
             // and then {2,3}, and an ordinary addition of c
  Fma,       // one fused multiply-add after another, in the accumulator's format
  BlockDots  // fp4: exact dot products of 16, each times its two scales, are the terms of one step
};

// Scale factors beside the operands, one for `scale_block` elements of K.
enum class Scaling : std::uint8_t { None, E8M0, E4M3 };

struct Unit {
  std::string_view arch = {};    // "sm_90"
  std::string_view family = {};  // "mma", "wgmma", "tcgen05"; block-scaled ones with their kind
  std::vector<Dtype> inputs = {};
  int k = 0;         // products of one instruction
  int group = 0;     // products of one step
  int fraction = 0;  // bits kept below the greatest exponent
  Keeps keeps = Keeps::F32;
  Scheme scheme = Scheme::Aligned;
  Scaling scaling = Scaling::None;
  int scale_block = 0;
  bool hw_verified = false;  // every recorded result of the hardware is reproduced bit for bit

  [[nodiscard]] bool takes(Dtype a, Dtype b) const;
  // What it takes a stored operand for: f32 patterns are tf32 to all but a multiply-add.
  [[nodiscard]] Dtype sees(Dtype stored) const;
  [[nodiscard]] std::string name() const;  // "sm_90 wgmma e4m3,e5m2 k32"
};

[[nodiscard]] std::span<const Unit> units();
// The unit that runs such operands; null where the architecture has none. k = 0: any.
[[nodiscard]] const Unit* find_unit(std::string_view arch, std::string_view family, Dtype a,
                                    Dtype b, int k = 0);

// A unit with the types of one instruction: "mma_m16n8k32_f32_e4m3_e5m2" (d, a, b where it is not
// a's).
struct Instruction {
  const Unit* unit = nullptr;
  Dtype a = Dtype::BF16, b = Dtype::BF16, d = Dtype::F32;
};
// std::invalid_argument says what is wrong with a name.
[[nodiscard]] Instruction parse_instruction(std::string_view arch, std::string_view name);

}  // namespace parity::tensorcore
