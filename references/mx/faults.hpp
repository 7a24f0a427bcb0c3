// Defects of MX quantisers as one switch, and the rows that name them.
#pragma once

#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::mx {

enum class Defect : std::uint8_t {
  None,
  SpecialScales,       // byte 0, 254, 255 by shifting the exponent field
  PackedMantissa,      // scale bytes packed four a word without masking mantissas
  NanSentinel,         // NaN told by the decoded value: 128 becomes NaN, 0xFF infinity
  ExponentReciprocal,  // exp2(127 - byte) in an arithmetic without subnormals
  FlushedDecode,       // exp2(byte - 127) in an arithmetic without subnormals; 0xFF is infinity
  ScaleInBf16,         // the quotient of the amax rounded to bf16 before its exponent
  Floor,               // FLOOR in place of RCEIL
  OneLow,              // RCEIL by a log2 that loses what lies just above a power of two
  ExactCeil,           // the exact ceiling where the release takes that of log2f
  RepairedEdge,        // byte 0 as 36027d82 repaired it
  NanScale,            // a NaN byte where the chain has 0
  ElementMantissa,     // amax rounded at the element's mantissa where the chain takes one bit
  WideLog,             // log2 not rounded to the input dtype
  TiesToEven,          // ties to even where the chain rounds them down
  Bias128,
  CastOverflow,  // no clamp before a cast that does not saturate
  ShiftWraps,    // software cast: the shift of a tiny number taken modulo 64
  ImplicitOne,   // subnormal elements decoded with the implicit one
  HalfAway,
  Truncated,
  DoubleRounding,  // to bf16 on the way
  AmaxDropsNan,
  AmaxSigned,
  AmaxOfNeighbour,
  NibblesSwapped,
  NegativeZero,  // the other policy for -0
};

Defect defect_of(std::string_view fault);  // None for an unknown id
std::vector<FaultDef> faults_of(const std::vector<Defect>&);

}  // namespace parity::mx
