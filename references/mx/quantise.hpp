// A matrix by blocks along its rows, as every MX quantiser does it: amax, scale byte, elements,
// values. A chain says how.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "references/mx/elements.hpp"
#include "references/quantize/answer.hpp"
#include "references/quantize/nvfp4.hpp"

namespace parity::mx {

using quantize::Answer;
using quantize::Matrix;

// Every function is one f32 operation of the chain, or a few in its order.
struct Chain {
  Element element = {};
  std::int64_t block = kBlock;
  std::function<std::uint8_t(float amax)> scale = {};
  std::function<float(float x, std::uint8_t scale)> scaled = {};  // y, before the cast
  std::function<std::uint8_t(float y)> cast = {};
  std::function<float(float value, std::uint8_t scale)> value = {};  // dequantised
  Defect defect = Defect::None;
};

// y = fl(x 2^(127-byte)), the format's own cast, code 2^(byte-127): chains replace what they do
// otherwise.
Chain plain_chain(const Element&, std::int64_t block, Defect);

struct Quantised {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t blocks = 0;  // per row
  std::vector<std::uint8_t> codes = {};
  std::vector<std::uint8_t> open = {};  // 1: a NaN in a format that has none
  std::vector<std::uint8_t> scales = {};
  std::vector<float> values = {};
};
Quantised quantise(const Matrix&, const Chain&);

// The amax of every block, row by row, as the defects see it; a NaN wins.
std::vector<float> block_maxima(const Matrix&, std::int64_t block, Defect);

// ---- tensors of a case: codes, scales; scales_swizzled with swizzle=1, dequant with dequant=1

std::int64_t block_of(const Case&);  // option `block`
std::vector<TensorSpec> outputs(const Case&, Dtype element);
// Why no package takes the case: rows that are no multiple of the block.
std::string refuses(const Case&);
void give(Answer&, const Quantised&, Defect);

// The whole quantiser of a chain.
Expected run(const Case&, const Tensors& inputs, const Chain&);

// ---- torchao, both revisions: options elem (default "e4m3") and mode ("floor", "ceil", "even",
// "rceil"; default "floor")

std::vector<TensorSpec> torchao_outputs(const Case&);
Expected run_torchao(const Case&, const Tensors& inputs, std::string_view fault,
                     Chain (*chain)(const Element&, const std::string& mode, Defect));
void import_torchao(const StoredCase&, ImportedCase&);
// e in -127..128 as a byte.
std::uint8_t byte_of(int exponent);

}  // namespace parity::mx
