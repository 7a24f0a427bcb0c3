#include "references/sparse24/compress.hpp"

#include <array>

namespace parity::sparse24 {
namespace {

struct Indices {
  unsigned first = 0;
  unsigned second = 0;
};

Indices indices_of(const std::array<bool, 4>& m, Defect defect) {
  Indices i;
  i.first = m[0] ? 0 : m[1] ? 1 : 2;
  const bool both = m[0] && m[1];
  i.second = both ? 1 : m[3] || (!m[0] && !m[1]) ? 3 : 2;
  if (defect == Defect::WrongSecond && !both && !m[3] && !m[2]) i.second = i.first;
  if (defect == Defect::IndicesSwapped) std::swap(i.first, i.second);
  return i;
}

}  // namespace

std::int64_t reordered_word(WordOrder order, bool wide, std::int64_t rows, std::int64_t row,
                            std::int64_t column) {
  std::int64_t r = row, c = column;
  if (order == WordOrder::Plain) return 0;
  if (order == WordOrder::Old) {
    r = row / 64 * 64 + row % 2 * 2 + row % 8 / 4 + row % 4 / 2 * 32 + row % 64 / 8 * 4;
  } else if (wide) {
    r = row / 16 * 16 + row % 8 * 2 + row % 16 / 8;
  } else {
    r = row / 32 * 32 + row % 8 * 4 + row % 32 / 8;
  }
  if (r % 2 == 0 && c % 2 == 1) {
    ++r, --c;
  } else if (r % 2 == 1 && c % 2 == 0) {
    --r, ++c;
  }
  return c / 2 * 2 * rows + 2 * r + c % 2;
}

bool is_pairs(Dtype dtype) { return dtype == Dtype::F32; }

Dtype metadata_type(Dtype dtype) { return dtype == Dtype::I8 ? Dtype::I32 : Dtype::I16; }

std::int64_t words_per_row(Dtype dtype, std::int64_t columns) {
  const std::int64_t nibbles = columns / (is_pairs(dtype) ? 2 : 4);
  return nibbles / (dtype == Dtype::I8 ? 8 : 4);
}

std::string refuses(Dtype dtype, WordOrder order, std::int64_t rows, std::int64_t columns) {
  if (dtype != Dtype::BF16 && dtype != Dtype::F16 && dtype != Dtype::F32 && dtype != Dtype::I8)
    return "no 2:4 compression of this type";
  const std::int64_t row_unit = order == WordOrder::Old ? 64 : dtype == Dtype::I8 ? 16 : 32;
  const std::int64_t unit = dtype == Dtype::I8 ? 32 : 16;
  if (rows % row_unit != 0)
    return "rows must be a multiple of " + std::to_string(row_unit) + " for this metadata";
  if (columns % unit != 0) return "columns must be a multiple of " + std::to_string(unit);
  // Two columns of words change places with two rows.
  if (words_per_row(dtype, columns) % 2 != 0) return "an odd number of metadata words a row";
  return "";
}

Compressed compress(const Tensor& dense, WordOrder order, Defect defect) {
  const Dtype dtype = dense.spec.dtype;
  Compressed out{.rows = dense.spec.dims.at(0).extent, .columns = dense.spec.dims.at(1).extent};
  const bool pairs = is_pairs(dtype), wide = dtype == Dtype::I8;
  const std::int64_t per_word = wide ? 8 : 4;
  const std::int64_t words = words_per_row(dtype, out.columns);
  out.words.assign(static_cast<std::size_t>(out.rows * words), 0);
  const std::vector<double> values = dense.widened();
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t n = 0; n < words * per_word; ++n) {
      const std::int64_t first = r * out.columns + n * (pairs ? 2 : 4);
      const auto set = [&](std::int64_t i) {  // NaN is not zero, -0 is
        return !(values[static_cast<std::size_t>(first + i)] == 0);
      };
      const std::array<bool, 4> m = pairs ? std::array<bool, 4>{set(0), set(0), set(1), set(1)}
                                          : std::array<bool, 4>{set(0), set(1), set(2), set(3)};
      const Indices i = indices_of(m, defect);
      out.kept.push_back(first + (pairs ? i.first / 2 : i.first));
      if (!pairs) out.kept.push_back(first + i.second);
      const int non_zero = (pairs ? int{m[0]} + m[2] : int{m[0]} + m[1] + m[2] + m[3]);
      const int allowed = pairs ? 1 : 2;
      const int counted = defect == Defect::Unvalidated ? allowed : non_zero;
      out.violations += counted > allowed ? 1 : 0;
      const std::int64_t plain = r * words + n / per_word;
      const std::int64_t at = order == WordOrder::Plain || defect == Defect::NotReordered
                                  ? plain
                                  : reordered_word(order, wide, out.rows, r, n / per_word);
      out.words[static_cast<std::size_t>(at)] |= (i.first | i.second << 2)
                                                 << (4 * static_cast<unsigned>(n % per_word));
    }
  }
  return out;
}

}  // namespace parity::sparse24
