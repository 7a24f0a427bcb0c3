// microxcaling's `_quantize_mx`: dequantised values only, every operation rounded to the input
// dtype (R). Elements e4m3, e5m2, e3m2, e2m3, e2m1 and int8 (option `elem`), roundings nearest
// (half away from zero, the default), even, floor (option `round`).
//
//   e    floor(R(log2(amax))) - emax, amax 0 as 2^-126; above 127 NaN; at least -127
//   A    R(x / 2^e);  p = max(floor(R(log2 |A|)), pmin), 0 for int8
//   out  R(clamp(sign(A) rnd(|A| 2^-p 2^m) 2^-m 2^p, +-max) 2^e); an infinite A stays
//
// elem=bfloat16 is its `_quantize_bfloat`: the same element step without a scale, pmin -126, m 7,
// beyond max infinite.
//   source   microsoft/microxcaling 7bc41952, mx/mx_ops.py, mx/elemwise_ops.py
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

struct Kind {
  std::string_view name;
  int emax, pmin, m;
  float max;
  bool scaled = true;
};
constexpr float kMaxBf16 = 0x1.FEp127F;
constexpr std::array<Kind, 7> kKinds = {{{"e4m3", 8, -6, 3, 448},
                                         {"e5m2", 15, -14, 2, 57344},
                                         {"e3m2", 4, -2, 2, 28},
                                         {"e2m3", 2, 0, 3, 7.5F},
                                         {"e2m1", 2, 0, 1, 6},
                                         {"int8", 0, 0, 6, 127.0F / 64.0F},
                                         {"bfloat16", 0, -126, 7, kMaxBf16, false}}};

// Arithmetic of the input dtype: one operation in f32, rounded.
struct Arithmetic {
  Dtype dtype = Dtype::F32;
  Defect defect = Defect::None;
  float r(float x) const {
    return dtype == Dtype::BF16 ? static_cast<float>(round_to(Dtype::BF16, static_cast<double>(x)))
                                : x;
  }
  float log2_floor(float x) const {
    const float log = log2_f32(x);
    return std::floor(defect == Defect::WideLog ? log : r(log));
  }
};

float power(float exponent) { return std::ldexp(1.0F, static_cast<int>(exponent)); }

float shared_exponent(const Arithmetic& a, const Kind& kind, float amax, float limit) {
  const float e = a.log2_floor(amax == 0 ? 0x1p-126F : amax) - static_cast<float>(kind.emax);
  if (std::isnan(e) || e > limit) return std::numeric_limits<float>::quiet_NaN();
  return std::max(e, -limit);
}

float rounded(const Arithmetic& a, float size, std::string_view round) {
  if (a.defect == Defect::Truncated || round == "floor") return std::floor(size);
  const float up = std::floor(a.r(size + 0.5F));
  const bool even = (round == "even") != (a.defect == Defect::HalfAway);
  const bool tie = std::fmod(a.r(size - 0.5F), 2.0F) == 0;  // 0.5, 2.5, 4.5, ...
  return even && tie ? up - 1 : up;
}

float element(const Arithmetic& a, const Kind& kind, float x, std::string_view round) {
  const float size = std::fabs(x);
  float p = 0;
  if (kind.name != "int8")
    p = std::max(a.log2_floor(size == 0 ? 1.0F : size), static_cast<float>(kind.pmin));
  const float one = power(static_cast<float>(kind.m));
  const float sign = x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F;
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return x;
  const float scale = power(p);
  const float integer = rounded(a, a.r(a.r(size / scale) * one), round);
  const float out = a.r(a.r(a.r(sign * integer) / one) * scale);
  if (std::fabs(out) <= kind.max) return out;
  return std::copysign(kind.scaled ? kind.max : std::numeric_limits<float>::infinity(), out);
}

std::vector<TensorSpec> outputs_of(const Case& c) {
  return {quantize::matrix_spec("dequant", Role::Output, c.dtype, quantize::rows_of(c),
                                quantize::columns_of(c), "K")};
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const std::string elem = c.options.get("elem", "e4m3");
  const std::string round = c.options.get("round", "nearest");
  const auto kind = std::ranges::find(kKinds, elem, &Kind::name);
  if (kind == kKinds.end()) return {.refused = "no element format '" + elem + "'"};
  if (round != "nearest" && round != "even" && round != "floor")
    return {.refused = "no deterministic rounding '" + round + "'"};
  const std::string method = c.options.get("exponent", "max");
  if (method != "max" && method != "none")
    return {.refused = "no shared exponent by '" + method + "'"};
  const Defect defect = defect_of(fault);
  const Arithmetic a{.dtype = c.dtype, .defect = defect};
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const std::int64_t block = method == "none" ? 1 : block_of(c);
  const auto limit =
      static_cast<float>((std::int64_t{1} << (c.options.integer("scale_bits", 8) - 1)) - 1);
  const std::vector<float> maxima = block_maxima(x, block, defect);
  const std::int64_t blocks = (x.columns + block - 1) / block;
  std::vector<float> values;
  for (std::int64_t i = 0; i < std::ssize(x.values); ++i) {
    const float v = x.values[static_cast<std::size_t>(i)];
    if (!kind->scaled) {
      values.push_back(element(a, *kind, v, round));
      continue;
    }
    const float amax =
        maxima[static_cast<std::size_t>(i / x.columns * blocks + i % x.columns / block)];
    const float e = shared_exponent(a, *kind, amax, limit);
    if (std::isnan(e)) {
      values.push_back(e);
      continue;
    }
    const bool flushed =
        c.options.flag("flush") && e + static_cast<float>(kind->emax) <= static_cast<float>(-kBias);
    const float scaled = a.r((flushed ? v * 0.0F : v) / power(e));
    values.push_back(a.r(element(a, *kind, scaled, round) * power(e)));
  }
  Answer answer(outputs_of(c));
  answer.values("dequant", values);
  return answer.take();
}

// "fp8_e4m3" -> "e4m3", "int8" as it is.
void import(const StoredCase& stored, ImportedCase& imported) {
  import_torchao(stored, imported);  // the block
  Options& options = imported.problem.options;
  const std::string elem = quantize::attribute_of(stored, "elem_format");
  options.set("elem", elem.empty() ? stored.group.substr(stored.group.rfind('_') + 1)
                                   : elem.substr(elem.find('_') + 1));
  quantize::take_option(stored, "round", "round", options);
  quantize::take_option(stored, "scale_bits", "scale_bits", options);
  quantize::take_option(stored, "shared_exp_method", "exponent", options);
  if (quantize::flag_of(stored, "flush_fp32_subnorms")) options.set("flush", "1");
  if (elem.empty() && quantize::attribute_of(stored, "round").empty())
    options.set("round", stored.name.substr(stored.name.rfind('_') + 1));
}

const Register chain{ChainDef{
    .name = "mx_microxcaling",
    .what = "e = floor(R(log2 amax)) - emax; elements rounded by floor(t + 1/2) in the input dtype",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"mx_microxcaling_bfloat16", "mx_microxcaling_e2m1", "mx_microxcaling_e2m3",
               "mx_microxcaling_e3m2", "mx_microxcaling_e4m3", "mx_microxcaling_e5m2",
               "mx_microxcaling_int8"},
    .faults = faults_of({Defect::WideLog, Defect::HalfAway, Defect::Truncated, Defect::AmaxDropsNan,
                         Defect::AmaxSigned}),
    .import = import,
}};

}  // namespace
}  // namespace parity::mx
