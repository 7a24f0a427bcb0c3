// Transformer Engine's delayed scaling, one step: x is quantised with the scale that earlier steps
// left; its amax enters the history, from which the next scale comes. Nothing is updated in place:
// the state before and after are tensors of their own.
//   in   x_MK, history (N amax values, the newest first), scale (1)
//   out  codes, scale_inv = fl(1 / scale); history_next, scale_next
//
//   code         = cast(fl(x scale)), saturating; e4m3 or e5m2
//   history[0]   = max |x|
//   amax         = max history, or history[0] (algo=most_recent)
//   scale_next   = fl(fl(max 2^-margin) / amax); scale where amax is 0 or not finite; inf as
//   FLT_MAX history_next = history rolled by one, its first place 0
//
//   source   NVIDIA/TransformerEngine d0067d0d, common/recipe/delayed_scaling.cu
#include <algorithm>
#include <cmath>
#include <limits>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {
namespace {

std::int64_t length_of(const Case& c) { return c.sizes.get("N", 4); }

std::vector<TensorSpec> inputs_of(const Case& c) {
  return {matrix_spec("x", Role::Input, c.dtype, rows_of(c), columns_of(c), "K"),
          row_spec("history", Role::Input, Dtype::F32, length_of(c)),
          row_spec("scale", Role::Input, Dtype::F32, 1)};
}

std::vector<TensorSpec> outputs_of(const Case& c) {
  return {matrix_spec("codes", Role::Codes, format_of(c).dtype, rows_of(c), columns_of(c), "K"),
          row_spec("scale_inv", Role::Output, Dtype::F32, 1),
          row_spec("history_next", Role::State, Dtype::F32, length_of(c)),
          row_spec("scale_next", Role::State, Dtype::F32, 1)};
}

float next_scale(const Case& c, const Format8& f, float amax, float scale, Defect defect) {
  if (!std::isfinite(amax) || (amax == 0 && defect != Defect::FloorMissing)) return scale;
  const auto margin =
      defect == Defect::MarginMissing ? 0 : static_cast<int>(c.options.integer("margin", 0));
  const float max = std::ldexp(f.max, -margin);
  return std::min(max / amax, std::numeric_limits<float>::max());
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses_format(c); !why.empty()) return {.refused = why};
  const std::string algo = c.options.get("algo", "max");
  if (algo != "max" && algo != "most_recent") return {.refused = "no amax by '" + algo + "'"};
  const Defect defect = defect_of(fault);
  const Format8 f = format_of(c);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  std::vector<float> history;
  for (const double v : inputs.at("history").widened()) history.push_back(static_cast<float>(v));
  auto scale = static_cast<float>(inputs.at("scale").widened().front());
  history.front() = maxima(x, groups_of(c, x), defect).front();
  const float amax = algo == "max" ? quantize::amax(history) : history.front();
  const float next = next_scale(c, f, amax, scale, defect);
  if (defect == Defect::ScaleUpdated) scale = next;
  if (defect != Defect::HistoryKept)
    std::rotate(history.begin(), history.begin() + 1, history.end());
  history.front() = 0;
  std::vector<std::uint8_t> codes;
  for (const float v : x.values) codes.push_back(cast(f, v * scale, Overflow::Saturate, defect));
  Answer answer(outputs_of(c));
  answer.codes("codes", codes);
  answer.values("scale_inv", std::vector{1 / scale});
  answer.values("history_next", history);
  answer.values("scale_next", std::vector{next});
  return answer.take();
}

const Register chain{ChainDef{
    .name = "fp8_te_delayed",
    .what =
        "code = cast(x scale) by the scale of earlier amaxes; scale' = max 2^-margin / max history",
    .quantize = quantize,
    .outputs = outputs_of,
    .faults = faults_of({Defect::ScaleUpdated, Defect::MarginMissing, Defect::HistoryKept,
                         Defect::FloorMissing, Defect::CastSaturates, Defect::AmaxSigned}),
    .inputs = inputs_of,
}};

}  // namespace
}  // namespace parity::fp8
