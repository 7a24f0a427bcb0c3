// Dequantisation to bf16 by table: the value of every code under every scale byte, 2^16 of two
// bytes, made once a format. Data of like sizes touch a few of its 256 lines, which stay in the
// first-level cache; an element costs two loads and a store.
#include <vector>

#include "harness/numeric/formats.hpp"
#include "kernels/mx/steps.hpp"

namespace parity::mx_kernel {
namespace {

constexpr std::size_t kCodes = 256;

std::vector<std::uint16_t> table_of(Dtype elem) {
  const std::uint64_t mask = (std::uint64_t{1} << format(elem).bits) - 1;
  std::vector<float> value;
  for (std::uint64_t code = 0; code < kCodes; ++code)
    value.push_back(static_cast<float>(decode(elem, code & mask)));
  std::vector<std::uint16_t> table;
  table.reserve(256 * kCodes);
  for (unsigned scale = 0; scale < 256; ++scale)
    for (const float v : value)
      table.push_back(bf16_from_float(v * float_from_e8m0(static_cast<std::uint8_t>(scale))));
  return table;
}

const std::vector<std::uint16_t>& table(Dtype elem) {
  static const std::vector<std::uint16_t> e4m3 = table_of(Dtype::E4M3);
  static const std::vector<std::uint16_t> e5m2 = table_of(Dtype::E5M2);
  static const std::vector<std::uint16_t> e2m3 = table_of(Dtype::E2M3);
  static const std::vector<std::uint16_t> e3m2 = table_of(Dtype::E3M2);
  return elem == Dtype::E5M2   ? e5m2
         : elem == Dtype::E2M3 ? e2m3
         : elem == Dtype::E3M2 ? e3m2
                               : e4m3;
}

}  // namespace

void dequantise_by_table(Dtype elem, const std::uint8_t* codes, const std::uint8_t* scales,
                         std::int64_t blocks, std::uint16_t* values) {
  const std::uint16_t* all = table(elem).data();
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::uint16_t* of_scale = all + kCodes * scales[b];
    for (std::int64_t i = kBlock * b; i < kBlock * (b + 1); ++i) values[i] = of_scale[codes[i]];
  }
}

}  // namespace parity::mx_kernel
