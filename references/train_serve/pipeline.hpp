// One weight from training to serving, stage by stage:
//
//   prepare   fake quantised by the training chain           train   y = x dq(w)^T, dw = dy^T x
//   step      w' = R(w - rate dw), straight through          convert quantised by the serving chain
//   pack      pairs of codes in bytes, scales in the layout of the matrix unit
//   unpack    what a loader makes of the bytes               serve   y = x dq(w')^T
//
// What must agree between the two sides, and how closely, is a matter of the class (lowprecision
// parity classes P0 to P7): bit for bit where one chain serves both, by a rule where two chains
// meet, by a bound or a band where the arithmetic differs.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "references/linear/recipe.hpp"

namespace parity::train_serve {

enum class Class : std::uint8_t { P0, P1, P2, P3, P4, P5, P7 };
Class class_of(const Case&);  // option class; UsageError names what there is

// A quantised matrix as one side holds it.
struct Held {
  std::vector<std::uint8_t> codes = {};        // one a byte
  std::vector<double> scales = {};             // by row and block
  std::vector<std::uint8_t> scale_bytes = {};  // e4m3 of NVFP4
  float scalar = 1;                            // scale of the tensor
  std::vector<float> values = {};              // dequantised, in the data's format
};

struct Side {
  std::string chain = {};  // as quantize has it
  bool te = false;         // chain A: the tensor's scale is an amax
  bool int4 = false;
  std::int64_t block = 16;
};
Side training_side(const Case&, std::string_view fault);
Side serving_side(const Case&);

Held quantised(const Side&, const Case&, const Tensor& w);
// The value of a code: `scale_first`: c (s p), else (c s) p.
float decoded(const Side&, const Held&, std::size_t element, std::int64_t columns,
              bool scale_first = true);

// Bytes of a checkpoint and back.
struct Packed {
  std::vector<std::uint8_t> codes = {};
  std::vector<std::uint8_t> scales = {};  // 128x4 of NVFP4, else empty
};
Packed packed(const Side&, const Held&, std::int64_t rows, std::int64_t columns,
              std::string_view fault);
Held unpacked(const Side&, const Packed&, const Held& from, std::int64_t rows, std::int64_t columns,
              std::string_view fault);

// y = x w^T in f32, k ascending in blocks of 16, each block's sum added to the running one;
// `factor` is applied at the end.
linear::Dense served(const linear::Dense& x, const std::vector<float>& w, std::int64_t rows,
                     float factor, std::string_view fault);

// ---- rules of the classes

// Two chains (P1): scale bytes at most one apart, codes at most one step apart, and that only at a
// threshold (within `ulps` of it) or under another scale byte. The number of violations.
std::int64_t chain_violations(const Tensor& w, const Held& a, const Held& b, std::int64_t columns);
double sqnr(const std::vector<double>& truth, const std::vector<double>& got);  // dB

}  // namespace parity::train_serve
