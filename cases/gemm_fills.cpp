#include "cases/gemm_fills.hpp"

#include <cmath>
#include <limits>

#include "harness/numeric/philox.hpp"

namespace parity::gemm_cases {
namespace {

std::uint64_t at(const RowDraw& d, std::size_t i) {
  return static_cast<std::uint64_t>(d.first) + i;
}
bool is_operand(const RowDraw& d) { return d.spec.name == "x" || d.spec.name == "w"; }

double power(std::int64_t exponent) { return std::ldexp(1.0, static_cast<int>(exponent)); }

// Least and greatest exponents of normal numbers that a format has, f32's for what is wider.
int least_exponent(Dtype d) { return std::ilogb(format(d).min_normal); }
int greatest_exponent(Dtype d) { return std::ilogb(format(d).max_finite); }

// What is no operand: scale factors around one, other factors that no power of two hides.
void factors(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t n = at(d, i);
    if (d.spec.dtype == Dtype::E8M0)
      out[i] = power(d.rng.integer(n, -3, 3));
    else if (d.spec.name.starts_with("scale_") && d.spec.name != "scale_result")
      // One in eight e4m3 scales is subnormal.
      out[i] = d.spec.dtype == Dtype::E4M3 && n % 8 == 3 ? d.rng.uniform(n, 0x1p-9, 0x1p-6)
                                                         : d.rng.uniform(n, 0.3, 2.2);
    else
      out[i] = d.spec.name == "alpha" ? 0.37 : 0.61;
  }
}

void plain(const RowDraw& d, std::span<double> out) {
  if (!is_operand(d) && d.spec.name != "c") return factors(d, out);
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

void integers(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is_operand(d) || d.spec.name == "c")
      out[i] = static_cast<double>(d.rng.integer(at(d, i), -2, 2));
    else if (d.spec.name.starts_with("scale_") && d.spec.name != "scale_result")
      out[i] = power(d.rng.integer(at(d, i), -1, 1));
    else
      out[i] = d.spec.name == "alpha" ? 0.5 : 2;
  }
}

// Large products that cancel in pairs, beside small ones: bits far below the greatest decide.
void cancellation(const RowDraw& d, std::span<double> out) {
  plain(d, out);
  if (!is_operand(d)) return;
  const int reach = std::min(10, greatest_exponent(d.spec.dtype) - 1);
  for (std::size_t i = 0; i + 1 < out.size(); i += 4) {
    if (d.spec.name == "x") {
      out[i] *= power(reach);
      out[i + 1] = -out[i];
    } else {
      out[i + 1] = out[i];
    }
  }
}

void wide(const RowDraw& d, std::span<double> out) {
  plain(d, out);
  if (!is_operand(d) && d.spec.name != "c") return;
  const std::int64_t low = std::max(least_exponent(d.spec.dtype), -14);
  const std::int64_t high = std::min(greatest_exponent(d.spec.dtype) - 2, 12);
  const Rng exponents = d.rng.split(1);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] *= power(exponents.integer(at(d, i), low, std::max(low, high)));
}

// Powers of two at and around the last bit that is kept: one first product, then small ones.
void edges(const RowDraw& d, std::span<double> out) {
  if (!is_operand(d)) return plain(d, out);
  const Format& f = format(d.spec.dtype);
  const std::int64_t low =
      std::max(least_exponent(d.spec.dtype) - f.mantissa_bits, f.bits > 8 ? -14 : -9);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t exponent = d.rng.integer(at(d, i), low, low + 5);
    const double sign = d.rng.split(1).integer(at(d, i), 0, 3) == 0 ? -1 : 1;
    out[i] = i % 16 == 0 ? 1 : sign * power(exponent);
  }
}

void accumulator(const RowDraw& d, std::span<double> out) {
  plain(d, out);
  const int high = d.spec.dtype == Dtype::F16 ? 10 : 14;
  if (d.spec.name == "c")
    for (double& c : out) c *= power(high);
}

// Operands of half the least exponent, so that products and sums come near 2^-126 and below.
void subnormals(const RowDraw& d, std::span<double> out) {
  plain(d, out);
  const int least = least_exponent(d.spec.dtype);
  if (d.spec.name == "c")  // beside scales of 2^-127 it would hide what they leave
    for (double& c : out) c *= d.row % 4 == 2 ? 0 : power(std::max(-128, least - 2));
  if (d.spec.name == "scale_x" && d.spec.dtype == Dtype::E8M0 && d.row % 4 == 2)
    for (double& scale : out) scale = 0x1p-127;
  if (!is_operand(d)) return;
  const Rng exponents = d.rng.split(1);
  const bool wide_range = least < -100;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t n = at(d, i);
    const std::int64_t middle = wide_range ? -65 : least;
    out[i] *= power(middle + exponents.integer(n, -3, 2));
    // In wide formats subnormal operands have to meet large ones.
    if (wide_range && n % 5 == 0) out[i] = d.rng.normal(n) * power(d.spec.name == "x" ? -130 : -1);
  }
}

// Every third factor is zero, on the other side of the largest that there are; -0 too.
void zeros(const RowDraw& d, std::span<double> out) {
  plain(d, out);
  if (!is_operand(d)) return;
  const double huge = power(greatest_exponent(d.spec.dtype) - 1);
  const bool x = d.spec.name == "x";
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % 3 == 0) out[i] = x ? (i % 2 == 0 ? 0.0 : -0.0) : huge;
    if (i % 3 == 1) out[i] = x ? huge : 0.0;
  }
  if (d.row % 4 == 3)
    for (double& v : out) v = -0.0;
}

// NaN and infinities in some rows; rows that overflow.
void specials(const RowDraw& d, std::span<double> out) {
  plain(d, out);
  const Format& f = format(d.spec.dtype);
  if (d.spec.name.starts_with("scale_") && d.row % 5 == 1)
    out[0] = std::numeric_limits<double>::quiet_NaN();
  if (!is_operand(d)) return;
  const std::size_t place = static_cast<std::size_t>(d.row) * 7 % out.size();
  const double sign = d.row % 2 == 0 ? 1 : -1;
  if (d.row % 5 == 1 && f.has_nan) out[place] = std::numeric_limits<double>::quiet_NaN();
  if (d.row % 5 == 2 && f.has_inf) out[place] = sign * std::numeric_limits<double>::infinity();
  if (d.row % 5 == 3)
    for (double& v : out) v = std::copysign(f.max_finite, v);
  if (d.row % 5 == 4) out[place] = 0;
}

}  // namespace

constinit const Fill kNormal = {"normal", "ordinary data", plain};
constinit const Fill kIntegers = {"integers", "what is read, and what it is multiplied by",
                                  integers, true};
constinit const Fill kCancellation = {"cancellation", "bits kept below the greatest term",
                                      cancellation};
constinit const Fill kWide = {"wide", "alignment of terms of every size", wide};
constinit const Fill kEdges = {"edges", "the last bit kept, rounding of the sum, size of a group",
                               edges};
constinit const Fill kAccumulator = {"accumulator", "how the accumulator is aligned and rounded",
                                     accumulator};
constinit const Fill kSubnormals = {"subnormals", "flushing, and where the format ends",
                                    subnormals};
constinit const Fill kZeros = {"zeros", "whether a zero takes part in the alignment", zeros};
constinit const Fill kSpecials = {"specials", "NaN, infinities, overflow", specials};

}  // namespace parity::gemm_cases
