// 2:4 compression as CUTLASS's metadata has it: of each four elements of a row two are kept, named
// by two 2-bit indices.
//   m0..m3      non-zero flags of a group
//   i0          m0 ? 0 : m1 ? 1 : 2
//   i1          m0 & m1 ? 1 : (m3 or neither m0 nor m1) ? 3 : 2
//   metadata    nibble i0 | i1 << 2, little endian, 4 to an int16, for int8 data 8 to an int32; its
//               words reordered (reordered_word)
//   f32         1:2: a pair's flag stands for m0 = m1 or m2 = m3, element i0/2 is kept
//   source      torch 2.11.0, sparse/_semi_structured_conversions.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tensor.hpp"
#include "references/sparse24/faults.hpp"

namespace parity::sparse24 {

// Where word (row, column) of the metadata of `rows` rows lies. `wide`: words of 32 bits. `old`:
// the order that compressed-tensors 0.20.1 carries.
enum class WordOrder : std::uint8_t { Plain, Cutlass, Old };
std::int64_t reordered_word(WordOrder, bool wide, std::int64_t rows, std::int64_t row,
                            std::int64_t column);

struct Compressed {
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // of the dense matrix
  std::vector<std::int64_t> kept =
      {};  // flat index into the dense matrix, two a group (one a pair)
  std::vector<std::uint32_t> words = {};  // metadata in storage order
  std::int64_t violations = 0;            // groups with more non-zeros than are kept
};

bool is_pairs(Dtype);  // f32: 1:2
Dtype metadata_type(Dtype);
std::int64_t words_per_row(Dtype, std::int64_t columns);
// Why the shape is refused; "" = it is not.
std::string refuses(Dtype, WordOrder, std::int64_t rows, std::int64_t columns);
Compressed compress(const Tensor& dense, WordOrder, Defect);

}  // namespace parity::sparse24
