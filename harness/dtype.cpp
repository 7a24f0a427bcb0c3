// The table of formats, and the way between a format and its names.
#include "harness/dtype.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <string>
#include <vector>

namespace parity {
namespace {

constexpr double power_of_two(int exponent) {
  double value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

enum class Top : std::uint8_t {
  Infinity,
  OneNan,
  Finite
};  // what the largest exponent field holds

constexpr Format floating(std::string_view name, std::string_view alias, int exponent_bits,
                          int mantissa_bits, int bias, Top top) {
  const int largest_field = (1 << exponent_bits) - (top == Top::Infinity ? 2 : 1);
  // 1.11…1 in the last place that is a number; with one NaN at the top (E4M3) the last bit is
  // missing.
  const double significand = 2 - power_of_two(-mantissa_bits) * (top == Top::OneNan ? 2 : 1);
  return {.name = name,
          .alias = alias,
          .bits = name == "tf32" ? 32 : 1 + exponent_bits + mantissa_bits,
          .exponent_bits = exponent_bits,
          .mantissa_bits = mantissa_bits,
          .bias = bias,
          .is_float = true,
          .has_inf = top == Top::Infinity,
          .has_nan = top != Top::Finite,
          .unit_roundoff = power_of_two(-mantissa_bits - 1),
          .max_finite = significand * power_of_two(largest_field - bias),
          .min_normal = power_of_two(1 - bias),
          .min_subnormal = power_of_two(1 - bias - mantissa_bits)};
}

constexpr Format integer(std::string_view name, std::string_view alias, int bits, int value_bits) {
  return {
      .name = name,
      .alias = alias,
      .bits = bits,
      .mantissa_bits = value_bits,
      .max_finite = power_of_two(value_bits) - 1,  // I64: 2^63, which is what 2^63 - 1 rounds to
      .min_normal = 1,
      .min_subnormal = 1};
}

constexpr std::array<Format, kDtypes> kFormats = {
    floating("f64", "float64", 11, 52, 1023, Top::Infinity),
    floating("f32", "float32", 8, 23, 127, Top::Infinity),
    floating("tf32", "tfloat32", 8, 10, 127, Top::Infinity),
    floating("bf16", "bfloat16", 8, 7, 127, Top::Infinity),
    floating("f16", "float16", 5, 10, 15, Top::Infinity),
    floating("e4m3", "float8_e4m3fn", 4, 3, 7, Top::OneNan),
    floating("e5m2", "float8_e5m2", 5, 2, 15, Top::Infinity),
    Format{.name = "e8m0",
           .alias = "float8_e8m0fnu",
           .bits = 8,
           .exponent_bits = 8,
           .bias = 127,
           .is_float = true,
           .has_nan = true,
           .unit_roundoff = 0.5,
           .max_finite = power_of_two(127),
           .min_normal = power_of_two(-127),
           .min_subnormal = power_of_two(-127)},
    floating("e3m2", "float6_e3m2fn", 3, 2, 3, Top::Finite),
    floating("e2m3", "float6_e2m3fn", 2, 3, 1, Top::Finite),
    floating("e2m1", "float4_e2m1fn_x2", 2, 1, 1, Top::Finite),
    integer("i64", "int64", 64, 63),
    integer("i32", "int32", 32, 31),
    integer("i16", "int16", 16, 15),
    integer("i8", "int8", 8, 7),
    integer("u8", "uint8", 8, 8),
    integer("bool", "boolean", 8, 1),
};

struct Spelling {
  std::string_view text;
  Dtype dtype = Dtype::F64;
};
// Besides name and alias of each format.
constexpr std::array<Spelling, 21> kOtherSpellings = {{
    {"double", Dtype::F64},         {"fp64", Dtype::F64},
    {"float", Dtype::F32},          {"fp32", Dtype::F32},
    {"tensorfloat32", Dtype::TF32}, {"fp16", Dtype::F16},
    {"half", Dtype::F16},           {"fp8_e4m3", Dtype::E4M3},
    {"float8_e4m3", Dtype::E4M3},   {"e4m3fn", Dtype::E4M3},
    {"fp8_e5m2", Dtype::E5M2},      {"float8_e8m0", Dtype::E8M0},
    {"ue8m0", Dtype::E8M0},         {"float6_e3m2", Dtype::E3M2},
    {"float6_e2m3", Dtype::E2M3},   {"float4_e2m1", Dtype::E2M1},
    {"float4_e2m1fn", Dtype::E2M1}, {"fp4_e2m1", Dtype::E2M1},
    {"long", Dtype::I64},           {"int", Dtype::I32},
    {"short", Dtype::I16},
}};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

const Format& format(Dtype dtype) { return kFormats.at(static_cast<std::size_t>(dtype)); }

std::string_view name(Dtype dtype) { return format(dtype).name; }

Dtype parse_dtype(std::string_view text) {
  std::string wanted(text);
  std::ranges::transform(wanted, wanted.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (wanted.starts_with("torch.")) wanted.erase(0, 6);

  std::string_view nearest;
  std::size_t least = ~std::size_t{0};
  const auto matches = [&](std::string_view spelling) {
    const std::size_t distance = edit_distance(wanted, spelling);
    if (distance < least) {
      least = distance;
      nearest = spelling;
    }
    return distance == 0;
  };
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    if (matches(kFormats[i].name) || matches(kFormats[i].alias)) return static_cast<Dtype>(i);
  }
  for (const Spelling& other : kOtherSpellings) {
    if (matches(other.text)) return other.dtype;
  }
  std::string message = "unknown dtype '" + std::string(text) + "'; did you mean '" +
                        std::string(nearest) + "'? Known:";
  for (const Format& known : kFormats) message += " " + std::string(known.name);
  throw std::invalid_argument(message);
}

std::size_t bytes_for(Dtype dtype, std::int64_t elements) {
  if (elements < 0) throw std::invalid_argument("bytes_for: negative number of elements");
  const auto count = static_cast<std::size_t>(elements);
  if (dtype == Dtype::E2M1) return count / 2 + count % 2;
  const auto bits = static_cast<std::size_t>(format(dtype).bits);
  return count * ((bits + 7) / 8);
}

}  // namespace parity
