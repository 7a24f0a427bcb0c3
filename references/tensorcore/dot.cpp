#include "references/tensorcore/dot.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace parity::tensorcore {
namespace {

using Class = Operand::Class;

// A product or an accumulator on its way into the adder: value = significand * 2^(exponent - bits).
struct Term {
  std::int64_t significand = 0;
  int exponent = 0;
  int bits = 0;
};

// What infinities and NaN among the terms decide before anything is added.
struct Special {
  bool nan = false, positive = false, negative = false;
  void infinity(bool minus) { (minus ? negative : positive) = true; }
  [[nodiscard]] bool any() const { return nan || positive || negative; }
  [[nodiscard]] bool is_nan() const { return nan || (positive && negative); }
};

class Step {
 public:
  Step(int fraction, const Defect& defect)
      : fraction_(fraction + defect.fraction), defect_(defect) {}

  void add(const Operand& x) {
    if (x.kind == Class::Nan) special_.nan = true;
    if (x.kind == Class::Infinite) special_.infinity(x.negative);
    if (x.kind == Class::Finite && x.significand != 0)
      add_term({x.negative ? -x.significand : x.significand, x.exponent, x.bits});
  }

  // `shift`: exponents of e8m0 scales.
  void add_product(const Operand& x, const Operand& y, int shift) {
    const bool minus = x.negative != y.negative;
    const bool zero = (x.kind == Class::Finite && x.significand == 0) ||
                      (y.kind == Class::Finite && y.significand == 0);
    if (x.kind == Class::Nan || y.kind == Class::Nan) {
      special_.nan = true;
    } else if (x.kind == Class::Infinite || y.kind == Class::Infinite) {
      if (zero)
        special_.nan = true;
      else
        special_.infinity(minus);
    } else if (!zero || defect_.zero_aligns) {
      // A zero operand takes no part in the alignment [measured: sm_90].
      const int x_exponent = x.significand == 0 ? kZeroExponent : x.exponent;
      const int y_exponent = y.significand == 0 ? kZeroExponent : y.exponent;
      const std::int64_t product = x.significand * y.significand;
      add_term({minus ? -product : product, x_exponent + y_exponent + shift, x.bits + y.bits});
    }
  }

  void add_term(const Term& term) { terms_[count_++] = term; }
  void poison() { special_.nan = true; }

  // The sum in the accumulator's format.
  [[nodiscard]] std::uint64_t finish(Dtype d, Keeps keeps) const {
    const bool f16 = d == Dtype::F16;
    if (special_.is_nan() && !defect_.nan_is_inf) return f16 ? kNanF16 : kNanF32;
    if (special_.any()) {
      const bool minus = special_.negative && !special_.positive;
      return f16 ? (minus ? 0xFC00u : 0x7C00u) : (minus ? 0xFF800000u : 0x7F800000u);
    }
    return round(value(), f16, keeps);
  }

 private:
  static constexpr int kZeroExponent = -126;
  static constexpr std::size_t kMostTerms = 65;  // of an instruction with its accumulator

  // Exact: the sum of at most 65 terms has fewer than 53 bits.
  [[nodiscard]] double value() const {
    const std::span<const Term> terms(terms_.data(), count_);
    if (terms.empty()) return 0;
    const int top = std::ranges::max(terms, {}, &Term::exponent).exponent;
    std::int64_t sum = 0;
    for (const Term& t : terms) sum += aligned(t, top);
    return std::ldexp(static_cast<double>(sum), top - fraction_);
  }

  [[nodiscard]] std::int64_t aligned(const Term& t, int top) const {
    const int left = fraction_ + t.exponent - top - t.bits;
    if (left >= 0) return t.significand * (std::int64_t{1} << left);
    const std::int64_t size = std::abs(t.significand);
    const std::int64_t kept = left <= -63 ? 0 : size >> -left;
    return t.significand < 0 ? -kept : kept;
  }

  [[nodiscard]] std::uint64_t round(double sum, bool f16, Keeps keeps) const {
    if (f16) return positive_zero(encode(Dtype::F16, sum), 0x8000);
    const Rounding mode = defect_.nearest ? Rounding::NearestEven : Rounding::TowardZero;
    if (defect_.bf16_accumulator) sum = round_to(Dtype::BF16, sum);
    if (keeps == Keeps::E8M13 && !defect_.wide_fp8) sum = thirteen_bits(sum);
    if (defect_.flushes && std::abs(sum) < 0x1p-126) sum = 0;
    if (std::abs(sum) >= 0x1p128) return sum < 0 ? 0xFF800000u : 0x7F800000u;
    return positive_zero(encode(Dtype::F32, sum, mode), 0x80000000);
  }

  // A zero is +0, from whichever side the sum came to it [measured: sm_90].
  static std::uint64_t positive_zero(std::uint64_t code, std::uint64_t sign) {
    return code == sign ? 0 : code;
  }

  [[nodiscard]] double thirteen_bits(double sum) const {
    int exponent = 0;
    std::frexp(sum, &exponent);  // |sum| in [2^(exponent-1), 2^exponent)
    const int unit = std::max(exponent - 1, -126) - 13;
    const double scaled = std::ldexp(sum, -unit);
    return std::ldexp(defect_.nearest ? std::nearbyint(scaled) : std::trunc(scaled), unit);
  }

  int fraction_ = 0;
  const Defect& defect_;
  std::array<Term, kMostTerms> terms_;  // the first count_ are set
  std::size_t count_ = 0;
  Special special_ = {};
};

Operand with_defect(Operand x, const Defect& defect) {
  const bool subnormal = x.kind == Class::Finite && x.significand >> x.bits == 0;
  if (defect.flushes && subnormal) x.significand = 0;
  return x;
}

Operand operand(Dtype dtype, std::uint64_t code, const Defect& defect) {
  return with_defect(take_apart(dtype, code), defect);
}

Operand product_operand(const Unit& unit, Dtype dtype, std::span<const std::uint64_t> codes,
                        std::size_t k, const Defect& defect) {
  return k < codes.size() ? with_defect(operand_of(unit, dtype, codes[k]), defect) : Operand{};
}

// Exponent of an e8m0 code.
int e8m0_exponent(std::uint64_t code, const Defect& defect) {
  return static_cast<int>(code) - (defect.scale_bias ? 128 : 127);
}

constexpr std::uint64_t kE8m0Nan = 0xFF;

std::uint64_t aligned_dot(const Instruction& i, const Factors& f, std::uint64_t c,
                          const Defect& defect) {
  const Unit& unit = *i.unit;
  const int group = defect.half_groups ? (unit.group + 1) / 2 : unit.group;
  for (int first = 0; first < unit.k; first += group) {
    Step step(unit.fraction, defect);
    step.add(operand(i.d, c, defect));
    for (int k = first; k < first + group; ++k) {
      const auto at = static_cast<std::size_t>(k);
      int shift = 0;
      if (unit.scaling != Scaling::None) {
        const std::size_t block = at / static_cast<std::size_t>(unit.scale_block);
        if (block >= f.scale_a.size()) break;
        if (f.scale_a[block] == kE8m0Nan || f.scale_b[block] == kE8m0Nan) step.poison();
        shift = e8m0_exponent(f.scale_a[block], defect) + e8m0_exponent(f.scale_b[block], defect);
      }
      step.add_product(product_operand(unit, i.a, f.a, at, defect),
                       product_operand(unit, i.b, f.b, at, defect), shift);
    }
    c = step.finish(i.d, unit.keeps);
  }
  return c;
}

std::uint64_t via_half(const Instruction& i, const Factors& f, std::uint64_t c,
                       const Defect& defect) {
  std::uint64_t sum = 0;
  for (const int first : {0, 2}) {
    Step step(i.unit->fraction, defect);
    step.add(operand(i.d, sum, defect));
    for (int k = first; k < i.unit->k; k += 4)
      for (const int at : {k, k + 1})
        step.add_product(product_operand(*i.unit, i.a, f.a, static_cast<std::size_t>(at), defect),
                         product_operand(*i.unit, i.b, f.b, static_cast<std::size_t>(at), defect),
                         0);
    sum = step.finish(i.d, Keeps::F32);
  }
  return plain_sum(i.d, sum, c);
}

std::uint64_t fma_chain(const Instruction& i, const Factors& f, std::uint64_t c) {
  if (i.d == Dtype::F32) {
    float sum = std::bit_cast<float>(static_cast<std::uint32_t>(c));
    for (std::size_t k = 0; k < f.a.size(); ++k)
      sum = std::fma(std::bit_cast<float>(static_cast<std::uint32_t>(f.a[k])),
                     std::bit_cast<float>(static_cast<std::uint32_t>(f.b[k])), sum);
    return std::isnan(sum) ? kNanF32 : std::bit_cast<std::uint32_t>(sum);
  }
  double sum = std::bit_cast<double>(c);
  for (std::size_t k = 0; k < f.a.size(); ++k)
    sum = std::fma(std::bit_cast<double>(f.a[k]), std::bit_cast<double>(f.b[k]), sum);
  return std::bit_cast<std::uint64_t>(sum);
}

// Dot products of 16 elements are exact: multiples of a quarter up to 576. A block whose dot is
// zero still has its scales' exponent, as the published model has it (open on hardware).
std::uint64_t block_dots(const Instruction& i, const Factors& f, std::uint64_t c,
                         const Defect& defect) {
  constexpr std::size_t kDot = 16;
  const Unit& unit = *i.unit;
  Step step(unit.fraction, defect);
  step.add(operand(i.d, c, defect));
  for (std::size_t first = 0; first < f.a.size(); first += kDot) {
    Term term{.bits = 2};
    for (std::size_t k = first; k < std::min(first + kDot, f.a.size()); ++k)
      term.significand += std::llrint(4 * decode(i.a, f.a[k]) * decode(i.b, f.b[k]));
    const std::size_t block = first / static_cast<std::size_t>(unit.scale_block);
    for (const std::uint64_t code : {f.scale_a[block], f.scale_b[block]}) {
      if (unit.scaling == Scaling::E8M0) {
        if (code == kE8m0Nan) step.poison();
        term.exponent += e8m0_exponent(code, defect);
        continue;
      }
      const Operand scale = take_apart(Dtype::E4M3, code & 0x7F);  // the sign is not looked at
      if (scale.kind == Class::Nan) step.poison();
      term.significand *= scale.significand;
      term.exponent += scale.exponent;
      term.bits += scale.bits;
    }
    step.add_term(term);
  }
  return step.finish(i.d, unit.keeps);
}

}  // namespace

Operand take_apart(Dtype dtype, std::uint64_t code) {
  const Format& f = format(dtype);
  const bool tf32 = dtype == Dtype::TF32;
  const int bits = tf32 ? 23 : f.mantissa_bits;
  if (tf32) code &= ~std::uint64_t{0x1FFF};
  const std::uint64_t fraction = code & ((std::uint64_t{1} << bits) - 1);
  const std::uint64_t fields = (std::uint64_t{1} << f.exponent_bits) - 1;
  const std::uint64_t field = (code >> bits) & fields;
  Operand x{.negative = ((code >> (bits + f.exponent_bits)) & 1) != 0, .bits = bits};
  if (f.has_inf && field == fields) {
    x.kind = fraction != 0 ? Class::Nan : Class::Infinite;
    return x;
  }
  if (!f.has_inf && f.has_nan && field == fields &&
      fraction == (std::uint64_t{1} << bits) - 1) {  // e4m3: all ones
    x.kind = Class::Nan;
    return x;
  }
  x.exponent = static_cast<int>(field == 0 ? 1 : field) - f.bias;
  x.significand =
      static_cast<std::int64_t>(field == 0 ? fraction : fraction | (std::uint64_t{1} << bits));
  if (tf32) x.significand >>= 13, x.bits = 10;
  return x;
}

Operand operand_of(const Unit& unit, Dtype dtype, std::uint64_t code) {
  if (unit.scheme != Scheme::ViaHalf) return take_apart(dtype, code);
  return take_apart(Dtype::F16, encode(Dtype::F16, decode(dtype, code)));
}

int product_bits(const Unit& unit, Dtype a, Dtype b) {
  const auto bits = [&](Dtype d) { return operand_of(unit, d, 0).bits; };
  return bits(a) + bits(b);
}

std::uint64_t plain_sum(Dtype d, std::uint64_t x, std::uint64_t y) {
  const double sum = decode(d, x) + decode(d, y);
  if (std::isnan(sum)) return d == Dtype::F16 ? kNanF16 : kNanF32;
  if (d == Dtype::F16) return encode(d, sum + 0.0);  // the sum of two is exact in f64
  const float rounded = static_cast<float>(decode(d, x)) + static_cast<float>(decode(d, y));
  return std::bit_cast<std::uint32_t>(rounded + 0.0F);
}

std::uint64_t dot(const Instruction& i, const Factors& f, std::uint64_t c, const Defect& defect) {
  switch (i.unit->scheme) {
    case Scheme::ViaHalf:
      return via_half(i, f, c, defect);
    case Scheme::Fma:
      return fma_chain(i, f, c);
    case Scheme::BlockDots:
      return block_dots(i, f, c, defect);
    case Scheme::Aligned:
      break;
  }
  return aligned_dot(i, f, c, defect);
}

}  // namespace parity::tensorcore
