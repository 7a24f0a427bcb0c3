#include "references/quantize/rht.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "harness/failure.hpp"
#include "harness/numeric/exact_sum.hpp"

namespace parity::quantize {
namespace {

float hadamard(std::size_t i, std::size_t j) {
  return std::popcount(i & j) % 2 == 0 ? 1.0F : -1.0F;
}

// out_j = sum_i in_i r(i, j), exactly, rounded once.
template <class Entry>
Matrix in_sixteens(const Matrix& x, Dtype format, const Entry& r) {
  if (x.columns % kBlock != 0) throw Failure("the transform takes multiples of 16");
  Matrix y{.rows = x.rows, .columns = x.columns, .values = x.values};
  std::array<double, 16> terms{};
  for (std::size_t first = 0; first < x.values.size(); first += 16) {
    for (std::size_t j = 0; j < 16; ++j) {
      for (std::size_t i = 0; i < 16; ++i)
        terms[i] = static_cast<double>(x.values[first + i]) * static_cast<double>(r(i, j));
      y.values[first + j] = static_cast<float>(round_to(format, exact_sum(terms)));
    }
  }
  return y;
}

}  // namespace

std::optional<std::uint16_t> parse_signs(std::string_view text) {
  if (!text.starts_with("0x") || text.size() == 2) return {};
  std::uint16_t mask = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), mask, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return mask;
}

Signs signs_of(std::uint16_t mask) {
  Signs signs{};
  for (std::size_t i = 0; i < 16; ++i) signs[i] = (mask >> i & 1) != 0 ? -1.0F : 1.0F;
  return signs;
}

Signs signs_of(const Tensor& t) {
  const std::vector<double> values = t.widened();
  Signs signs{};
  if (values.size() != signs.size()) throw Failure("a sign vector has 16 entries");
  for (std::size_t i = 0; i < 16; ++i) {
    if (std::fabs(values[i]) != 1) throw Failure("a sign is +1 or -1");
    signs[i] = static_cast<float>(values[i]);
  }
  return signs;
}

Matrix rht(const Matrix& x, const Signs& signs, Dtype format, Defect defect) {
  Signs own = signs;
  if (defect == Defect::RhtNoSigns) own = signs_of(std::uint16_t{0});
  if (defect == Defect::RhtOtherSigns) own[5] = -own[5];
  if (defect == Defect::RhtInverse) return rht_inverse(x, signs, format);
  const float norm = defect == Defect::RhtUnscaled ? 1.0F : 0.25F;
  const Dtype stored = defect == Defect::RhtNotRounded ? Dtype::F32 : format;
  return in_sixteens(x, stored, [&](std::size_t i, std::size_t j) {
    // Walsh's order: rows by their number of sign changes.
    const std::size_t at = defect == Defect::RhtOrder ? (j ^ j >> 1) : j;
    return own[i] * hadamard(i, at) * norm;
  });
}

std::vector<float> rht_magnitudes(const Matrix& x) {
  std::vector<float> sums(x.values.size());
  for (std::size_t first = 0; first < sums.size(); first += 16) {
    float sum = 0;
    for (std::size_t i = 0; i < 16; ++i) sum += std::fabs(x.values[first + i]) * 0.25F;
    if (!std::isfinite(sum)) sum = 0;  // an infinity or a NaN must match, whatever the bound
    std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(first), 16, sum);
  }
  return sums;
}

Matrix rht_inverse(const Matrix& y, const Signs& signs, Dtype format) {
  return in_sixteens(
      y, format, [&](std::size_t j, std::size_t i) { return signs[i] * hadamard(i, j) * 0.25F; });
}

}  // namespace parity::quantize
