#include "harness/numeric/ulp.hpp"

#include <cmath>

namespace parity {
namespace {

std::uint64_t sign_bit(const Format& f) { return std::uint64_t{1} << (f.bits - 1); }

std::int64_t sign_extended(Dtype dtype, std::uint64_t code) {
  switch (dtype) {
    case Dtype::I64:
      return static_cast<std::int64_t>(code);
    case Dtype::I32:
      return static_cast<std::int32_t>(code);
    case Dtype::I16:
      return static_cast<std::int16_t>(code);
    case Dtype::I8:
      return static_cast<std::int8_t>(code);
    case Dtype::Bool:
      return (code & 0xFF) != 0 ? 1 : 0;
    default:
      return static_cast<std::int64_t>(code & 0xFF);
  }
}

bool is_nan(Dtype dtype, std::uint64_t code) {
  return format(dtype).has_nan && std::isnan(decode(dtype, code));
}

}  // namespace

std::int64_t ulp_rank(Dtype dtype, std::uint64_t code, ZeroSign zero_sign) {
  const Format& f = format(dtype);
  if (!f.is_float || dtype == Dtype::E8M0) return sign_extended(dtype, code);
  if (dtype ==
      Dtype::TF32) {  // one step is 2^13 codes of the f32 pattern; stray low bits do not count
    code = (code & 0xFFFFFFFFu) >> 13;
    const auto magnitude = static_cast<std::int64_t>(code & 0x3FFFFu);
    return (code >> 18) == 0 ? magnitude : -magnitude - (zero_sign == ZeroSign::Distinct ? 1 : 0);
  }
  const auto magnitude = static_cast<std::int64_t>(code & (sign_bit(f) - 1));
  if ((code & sign_bit(f)) == 0) return magnitude;
  return -magnitude - (zero_sign == ZeroSign::Distinct ? 1 : 0);
}

std::int64_t ulp_distance(Dtype dtype, std::uint64_t a, std::uint64_t b, ZeroSign zero_sign) {
  const bool nan_a = is_nan(dtype, a);
  const bool nan_b = is_nan(dtype, b);
  if (nan_a || nan_b) return nan_a && nan_b ? 0 : kUlpInfinite;
  const std::int64_t rank_a = ulp_rank(dtype, a, zero_sign);
  const std::int64_t rank_b = ulp_rank(dtype, b, zero_sign);
  const auto upper = static_cast<std::uint64_t>(rank_a > rank_b ? rank_a : rank_b);
  const auto lower = static_cast<std::uint64_t>(rank_a > rank_b ? rank_b : rank_a);
  const std::uint64_t distance =
      upper - lower;  // exact: the difference of two int64 fits in uint64
  constexpr auto kLargest = static_cast<std::uint64_t>(kUlpInfinite - 1);
  return static_cast<std::int64_t>(distance < kLargest ? distance : kLargest);
}

double ulp(Dtype dtype, double value) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  const Format& f = format(dtype);
  if (!f.is_float) return 1;
  const double magnitude = std::fabs(value);
  if (magnitude < f.min_normal) return f.min_subnormal;
  return std::ldexp(1.0, std::ilogb(magnitude) - f.mantissa_bits);
}

double ulp_error(Dtype dtype, double truth, double got) {
  return std::fabs(got - truth) / ulp(dtype, truth);
}

}  // namespace parity
