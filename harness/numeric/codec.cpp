// encode, decode and runs of elements, over all formats (harness/dtype.hpp).
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "harness/dtype.hpp"
#include "harness/numeric/formats.hpp"
#include "harness/numeric/rounding.hpp"

namespace parity {
namespace {

namespace rd = rounding_detail;

template <class T>
T load(const std::byte* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* bytes, std::int64_t index, T value) {
  std::memcpy(bytes + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// The integer that the mode gives, as a double (which holds integers of that size exactly).
double to_integer(double value, const Conversion& conversion) {
  const double below = std::trunc(value);
  const double rest = std::fabs(value - below);  // exact
  const auto kept = static_cast<std::uint64_t>(std::fabs(std::fmod(below, 2.0)));
  const auto units = static_cast<std::uint64_t>(rest * 0x1p62);
  // 62 bits hold every fraction of at least 2^-9; of a smaller one, only whether it is zero can
  // matter further.
  const bool sticky = units == 0 && rest != 0;
  const bool away =
      rd::rounds_away(kept, units + static_cast<std::uint64_t>(sticky), 62, value < 0, conversion);
  return away ? below + std::copysign(1.0, value) : below;
}

std::uint64_t encode_integer(Dtype dtype, double value, const Conversion& conversion) {
  if (std::isnan(value)) {
    throw std::domain_error("NaN has no code in " + std::string(name(dtype)));
  }
  if (dtype == Dtype::Bool) return value != 0 ? 1 : 0;
  const Format& f = format(dtype);
  const bool is_signed = dtype != Dtype::U8;
  const std::uint64_t mask = f.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << f.bits) - 1;
  const double lowest = is_signed ? -std::ldexp(1.0, f.mantissa_bits) : 0.0;
  const double rounded = std::isinf(value) ? value : to_integer(value, conversion);
  if (rounded <= lowest)
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(lowest)) & mask;
  if (rounded >= f.max_finite) return (std::uint64_t{1} << f.mantissa_bits) - 1;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded)) & mask;
}

std::uint64_t f64_code(double value) { return std::bit_cast<std::uint64_t>(value); }

template <rd::Layout kLayout, class Code>
void narrow_as(std::span<const double> in, std::int64_t first, std::byte* bytes) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    store(bytes, first + static_cast<std::int64_t>(i),
          static_cast<Code>(rd::encode<kLayout>(in[i], {})));
  }
}

template <class T, class F>
void widen_as(const std::byte* bytes, std::int64_t first, std::span<double> out, F&& value) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(value(load<T>(bytes, first + static_cast<std::int64_t>(i))));
  }
}

}  // namespace

std::uint64_t encode(Dtype dtype, double value, const Conversion& conversion) {
  switch (dtype) {
    case Dtype::F64:
      return f64_code(value);
    case Dtype::F32:
      return rd::encode<rd::kF32>(value, conversion);
    case Dtype::TF32:
      return rd::encode<rd::kTf32>(value, conversion) << 13;
    case Dtype::BF16:
      return rd::encode<rd::kBf16>(value, conversion);
    case Dtype::F16:
      return rd::encode<rd::kF16>(value, conversion);
    case Dtype::E4M3:
      return rd::encode<rd::kE4m3>(value, conversion);
    case Dtype::E5M2:
      return rd::encode<rd::kE5m2>(value, conversion);
    case Dtype::E8M0:
      return rd::encode_e8m0(value, conversion);
    case Dtype::E3M2:
      return rd::encode<rd::kE3m2>(value, conversion);
    case Dtype::E2M3:
      return rd::encode<rd::kE2m3>(value, conversion);
    case Dtype::E2M1:
      return rd::encode<rd::kE2m1>(value, conversion);
    default:
      return encode_integer(dtype, value, conversion);
  }
}

std::uint64_t encode(Dtype dtype, double value, Rounding rounding) {
  if (rounding == Rounding::Stochastic) {
    throw std::invalid_argument("stochastic rounding needs random bits: use Conversion");
  }
  return encode(dtype, value, Conversion{.rounding = rounding});
}

double decode(Dtype dtype, std::uint64_t code) {
  switch (dtype) {
    case Dtype::F64:
      return std::bit_cast<double>(code);
    case Dtype::F32:
    case Dtype::TF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(code)));
    case Dtype::BF16:
      return static_cast<double>(float_from_bf16(static_cast<std::uint16_t>(code)));
    case Dtype::F16:
      return static_cast<double>(float_from_f16(static_cast<std::uint16_t>(code)));
    case Dtype::E4M3:
      return static_cast<double>(float_from_e4m3(static_cast<std::uint8_t>(code)));
    case Dtype::E5M2:
      return static_cast<double>(float_from_e5m2(static_cast<std::uint8_t>(code)));
    case Dtype::E8M0:
      return static_cast<double>(float_from_e8m0(static_cast<std::uint8_t>(code)));
    case Dtype::E3M2:
      return static_cast<double>(formats_detail::kE3m2[code & 0x3F]);
    case Dtype::E2M3:
      return static_cast<double>(formats_detail::kE2m3[code & 0x3F]);
    case Dtype::E2M1:
      return static_cast<double>(formats_detail::kE2m1[code & 0xF]);
    case Dtype::I64:
      return static_cast<double>(static_cast<std::int64_t>(code));
    case Dtype::I32:
      return static_cast<double>(static_cast<std::int32_t>(code));
    case Dtype::I16:
      return static_cast<double>(static_cast<std::int16_t>(code));
    case Dtype::I8:
      return static_cast<double>(static_cast<std::int8_t>(code));
    case Dtype::U8:
      return static_cast<double>(static_cast<std::uint8_t>(code));
    case Dtype::Bool:
      return (code & 0xFF) != 0 ? 1.0 : 0.0;
  }
  throw std::invalid_argument("decode: not a dtype");
}

double round_to(Dtype dtype, double value, const Conversion& conversion) {
  return decode(dtype, encode(dtype, value, conversion));
}

double round_to(Dtype dtype, double value, Rounding rounding) {
  if (rounding ==
      Rounding::NearestEven) {  // the hardware's own narrowing is the same single rounding
    if (dtype == Dtype::F64) return value;
    if (dtype == Dtype::F32) return static_cast<double>(static_cast<float>(value));
    if (dtype == Dtype::BF16) return decode(dtype, rd::encode<rd::kBf16>(value, {}));
  }
  return decode(dtype, encode(dtype, value, rounding));
}

std::uint64_t load_code(Dtype dtype, const std::byte* bytes, std::int64_t index) {
  if (dtype == Dtype::E2M1) {
    const auto pair = static_cast<unsigned>(bytes[index / 2]);
    return (index % 2 == 0 ? pair : pair >> 4) & 0xFu;
  }
  switch (format(dtype).bits) {
    case 64:
      return load<std::uint64_t>(bytes, index);
    case 32:
      return load<std::uint32_t>(bytes, index);
    case 16:
      return load<std::uint16_t>(bytes, index);
    default:
      return load<std::uint8_t>(bytes, index);
  }
}

void store_code(Dtype dtype, std::byte* bytes, std::int64_t index, std::uint64_t code) {
  if (dtype == Dtype::E2M1) {
    const auto pair = static_cast<unsigned>(bytes[index / 2]);
    const auto nibble = static_cast<unsigned>(code & 0xFu);
    bytes[index / 2] = static_cast<std::byte>(index % 2 == 0 ? (pair & 0xF0u) | nibble
                                                             : (pair & 0x0Fu) | (nibble << 4));
    return;
  }
  switch (format(dtype).bits) {
    case 64:
      return store(bytes, index, code);
    case 32:
      return store(bytes, index, static_cast<std::uint32_t>(code));
    case 16:
      return store(bytes, index, static_cast<std::uint16_t>(code));
    default:
      return store(bytes, index, static_cast<std::uint8_t>(code));
  }
}

void widen(Dtype dtype, const std::byte* bytes, std::int64_t first, std::span<double> out) {
  const auto same = [](auto x) { return x; };
  switch (dtype) {
    case Dtype::F64:
      return widen_as<double>(bytes, first, out, same);
    case Dtype::F32:
    case Dtype::TF32:
      return widen_as<float>(bytes, first, out, same);
    case Dtype::BF16:
      return widen_as<std::uint16_t>(bytes, first, out, float_from_bf16);
    case Dtype::F16:
      return widen_as<std::uint16_t>(bytes, first, out, float_from_f16);
    case Dtype::E4M3:
      return widen_as<std::uint8_t>(bytes, first, out, float_from_e4m3);
    case Dtype::E5M2:
      return widen_as<std::uint8_t>(bytes, first, out, float_from_e5m2);
    case Dtype::E8M0:
      return widen_as<std::uint8_t>(bytes, first, out, float_from_e8m0);
    case Dtype::I64:
      return widen_as<std::int64_t>(bytes, first, out, same);
    case Dtype::I32:
      return widen_as<std::int32_t>(bytes, first, out, same);
    case Dtype::I16:
      return widen_as<std::int16_t>(bytes, first, out, same);
    case Dtype::I8:
      return widen_as<std::int8_t>(bytes, first, out, same);
    case Dtype::U8:
      return widen_as<std::uint8_t>(bytes, first, out, same);
    default:
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = decode(dtype, load_code(dtype, bytes, first + static_cast<std::int64_t>(i)));
      }
  }
}

void narrow(Dtype dtype, std::span<const double> in, std::int64_t first, std::byte* bytes) {
  switch (dtype) {
    case Dtype::BF16:
      return narrow_as<rd::kBf16, std::uint16_t>(in, first, bytes);
    case Dtype::F16:
      return narrow_as<rd::kF16, std::uint16_t>(in, first, bytes);
    case Dtype::E4M3:
      return narrow_as<rd::kE4m3, std::uint8_t>(in, first, bytes);
    case Dtype::E5M2:
      return narrow_as<rd::kE5m2, std::uint8_t>(in, first, bytes);
    case Dtype::F32:
      return narrow_as<rd::kF32, std::uint32_t>(in, first, bytes);
    default:
      for (std::size_t i = 0; i < in.size(); ++i) {
        store_code(dtype, bytes, first + static_cast<std::int64_t>(i), encode(dtype, in[i]));
      }
  }
}

}  // namespace parity
