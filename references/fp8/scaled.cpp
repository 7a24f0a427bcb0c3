#include "references/fp8/scaled.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "references/mx/elements.hpp"
#include "references/quantize/fault_table.hpp"

namespace parity::fp8 {
namespace {

const quantize::FaultTable<Defect>& table() {
  static const quantize::FaultTable<Defect> rows = {
      {Defect::FloorMissing,
       {"P-zero-guard", "", "amax 0 not guarded: 0 inf, NaN codes of a zero row (torchao #4713)"}},
      {Defect::FloorNarrow,
       {"P-fp8-floor", "", "least amax rounded to bf16 (or not, where it is), or left out"}},
      {Defect::ScaleTwice,
       {"P-fp8-two-roundings", "", "scale = 1 / fl(amax / max): two roundings"}},
      {Defect::ScaleWide, {"P-fp8-scale-wide", "", "scale of bf16 data not rounded to bf16"}},
      {Defect::MaxOfE4m3, {"P-fp8-max", "", "the largest e4m3 in place of the largest e5m2"}},
      {Defect::PowerUp,
       {"P-fp8-power-up", "", "power-of-two scale rounded up: the amax saturates"}},
      {Defect::PowerMissing, {"P-fp8-power-missing", "", "scale not rounded to a power of two"}},
      {Defect::OtherAxis, {"P-fp8-axis", "", "scales along the other axis"}},
      {Defect::DequantMultiplied,
       {"P-fp8-dequant", "",
        "dequantised by the reciprocal where the chain divides, or the reverse"}},
      {Defect::CastSaturates,
       {"P-cast-overflow", "", "saturation of the cast turned around (pytorch #154028)"}},
      {Defect::ScaleUpdated, {"A-QT09", "", "quantised with the scale that this step updated"}},
      {Defect::MarginMissing, {"P-fp8-margin", "", "margin of the delayed scale left out"}},
      {Defect::HistoryKept, {"P-fp8-history", "", "the amax history does not move"}},
      {Defect::GradientStraight,
       {"P-fp8-gradient", "", "cotangent of the codes not rounded to e4m3"}},
      {Defect::GradientDetached, {"P-fp8-detached", "", "no gradient through the scale"}},
      {Defect::AmaxInBf16, {"P-amax-bf16", "", "amax of f32 data rounded to bf16"}},
      {Defect::AmaxDropsNan, {"P-amax-nan", "", "fmax drops a NaN: a finite scale hides it"}},
      {Defect::AmaxSigned, {"P-amax-signed", "", "max x in place of max |x|"}},
      {Defect::HalfAway, {"P-half-away", "", "ties of a code away from zero"}},
      {Defect::DoubleRounding, {"P-double-rounding", "", "fp32 to bf16 to fp8"}},
      {Defect::ShiftWraps,
       {"P-cast-shift", "", "software cast shifts by more than 63 (rocm-systems #10591)"}},
      {Defect::ImplicitOne,
       {"P-element-subnormal", "", "subnormal elements decoded with the implicit one"}},
  };
  return rows;
}

// The same slips of a cast as in an MX element.
mx::Defect element_defect(Defect defect) {
  switch (defect) {
    case Defect::HalfAway:
      return mx::Defect::HalfAway;
    case Defect::DoubleRounding:
      return mx::Defect::DoubleRounding;
    case Defect::ShiftWraps:
      return mx::Defect::ShiftWraps;
    case Defect::ImplicitOne:
      return mx::Defect::ImplicitOne;
    default:
      return mx::Defect::None;
  }
}

const mx::Element& element_of(const Format8& f) { return *mx::element_of(name(f.dtype)); }

}  // namespace

Defect defect_of(std::string_view fault) { return table().defect(fault); }
std::vector<FaultDef> faults_of(const std::vector<Defect>& defects) {
  return table().faults(defects);
}

Format8 format_of(const Case& c) {
  if (c.options.get("elem", "e4m3") == "e5m2") return {.dtype = Dtype::E5M2, .max = 57344};
  return {};
}

std::string refuses_format(const Case& c) {
  const std::string elem = c.options.get("elem", "e4m3");
  if (elem != "e4m3" && elem != "e5m2") return "no 8-bit format '" + elem + "'";
  const std::string granularity = c.options.get("granularity", "tensor");
  if (granularity != "tensor" && granularity != "row" && granularity != "column")
    return "no granularity '" + granularity + "'";
  return "";
}

std::string element_name(const std::string& torch_name) {
  return torch_name.empty() ? "e4m3" : std::string(name(parse_dtype(torch_name)));
}

std::uint8_t cast(const Format8& f, float y, Overflow overflow, Defect defect) {
  if (defect == Defect::CastSaturates)
    overflow = overflow == Overflow::Saturate ? Overflow::Infinity : Overflow::Saturate;
  const mx::Defect slip = element_defect(defect);
  if (slip != mx::Defect::None && std::fabs(y) <= f.max) return mx::code_of(element_of(f), y, slip);
  return static_cast<std::uint8_t>(encode(f.dtype, y, {.overflow = overflow}));
}

float value_of(const Format8& f, std::uint8_t code, Defect defect) {
  return mx::value_of(element_of(f), code, element_defect(defect));
}

float rounded(Dtype dtype, float x) {
  return static_cast<float>(round_to(dtype, static_cast<double>(x)));
}

Groups groups_of(const Case& c, const Matrix& x, Defect defect) {
  Groups g{.rows = x.rows, .columns = x.columns, .tile_rows = x.rows, .tile_columns = x.columns};
  const std::string granularity = c.options.get("granularity", "tensor");
  const bool other = defect == Defect::OtherAxis;
  if (granularity == (other ? "column" : "row")) g.tile_rows = 1;
  if (granularity == (other ? "row" : "column")) g.tile_columns = 1;
  return g;
}

std::vector<float> maxima(const Matrix& x, const Groups& groups, Defect defect) {
  std::vector<float> max(static_cast<std::size_t>(groups.count()), 0);
  for (std::int64_t i = 0; i < std::ssize(x.values); ++i) {
    float& m = max[groups.of(i)];
    const float v = x.values[static_cast<std::size_t>(i)];
    const float size = defect == Defect::AmaxSigned ? v : std::fabs(v);
    m = defect == Defect::AmaxDropsNan ? std::fmax(m, size) : quantize::max_nan(m, size);
  }
  if (defect == Defect::AmaxInBf16)
    for (float& m : max) m = rounded(Dtype::BF16, m);
  return max;
}

float floor_power(float scale, Defect defect) {
  const float log = mx::log2_f32(scale);
  return std::exp2(defect == Defect::PowerUp ? std::ceil(log) : std::floor(log));
}

}  // namespace parity::fp8
