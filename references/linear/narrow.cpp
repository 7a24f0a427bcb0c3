// MX and FP8 linears of torchao.
//   mx_qat   forward and backward of the dequantised operands, blocks of 32 along K (elem, mode)
//   fp8      scheme=tensorwise: x, w e4m3, dy e5m2, one scale each
//            scheme=rowwise: e4m3, power-of-two scales along the contracted axis of each product
//            scheme=rowwise_with_gw_hp: wgrad unquantised, w by the tensor in dgrad
//            out=e4m3, result_scale=S: y = e4m3(S x w^T)
//            operands are f32 quotients fl(code / scale), as the emulated product has them
#include "harness/failure.hpp"
#include "references/linear/recipe.hpp"

namespace parity::linear {
namespace {

// ---- MX ----

Options mx_options(const Case& c) {
  return {{"chain", "mx_torchao_018"},
          {"elem", c.options.get("elem", "e4m3")},
          {"mode", c.options.get("mode", "rceil")},
          {"dequant", "1"}};
}
const std::vector<std::string_view> kMxTaps = {"codes", "scales", "dequant"};

Plan mx_plan(const Problem& p) {
  Plan plan;
  const Operand x = run_chain(mx_options(p.c), p.tensors.at("x"));
  const Operand w = run_chain(mx_options(p.c), p.tensors.at("params/weight"));
  for (const Operand* o : {&x, &w})
    if (!o->refused.empty()) plan.refused = o->refused;
  if (!plan.refused.empty()) return plan;
  const auto stored = [&](const Operand& o, bool scrambled) {
    return scrambled ? scaled_blocks(o.part("codes"), o.part("scales"), 32, true)
                     : dense_of(o.part("dequant"));
  };
  plan.fprop = {.a = stored(x, p.faulty("P-lin-scales")), .b = stored(w, false)};
  if (p.has("cotangents/y")) {
    const Dense dy = dense_of(p.tensors.at("cotangents/y"));
    plan.dgrad = {.a = dy, .b = transposed(stored(w, false))};
    plan.wgrad = {.a = transposed(dy), .b = transposed(stored(x, false))};
  }
  if (p.c.options.flag("taps")) {
    add_taps(plan, x, "x", kMxTaps);
    add_taps(plan, w, "w", kMxTaps);
  }
  return plan;
}

std::vector<TensorSpec> mx_taps(const Case& c) {
  const auto [M, N, K] = extents(c);
  std::vector<TensorSpec> specs = chain_specs(mx_options(c), c.dtype, M, K, "x", kMxTaps);
  for (TensorSpec& spec : chain_specs(mx_options(c), c.dtype, N, K, "w", kMxTaps))
    specs.push_back(std::move(spec));
  return specs;
}

// ---- FP8 ----

struct Cast {
  std::string_view prefix = {};       // of its taps
  std::string_view granularity = {};  // "tensor", "row", "column" of the matrix below
  bool e5m2 = false;
};

struct Scheme {
  Cast x, w, dgrad_dy, dgrad_w, wgrad_dy, wgrad_x;
  bool pow2 = false;
  bool plain_wgrad = false;
};

// Weights are quantised as w^T [K,N]: columns are the rows of w.
Scheme scheme_of(const Case& c) {
  const std::string name = c.options.get("scheme", "tensorwise");
  if (name == "tensorwise")
    return {{"fprop_input", "tensor"},      {"fprop_weight_t", "tensor"},
            {"dgrad_grad", "tensor", true}, {"dgrad_weight_t", "tensor"},
            {"wgrad_grad", "tensor", true}, {"wgrad_input", "tensor"}};
  const bool plain = name == "rowwise_with_gw_hp";
  if (!plain && name != "rowwise") throw UsageError("no scheme '" + name + "'");
  return {.x = {"fprop_input", "row"},
          .w = {"fprop_weight_t", "column"},
          .dgrad_dy = {"dgrad_grad", "row"},
          .dgrad_w = {"dgrad_weight_t", plain ? "tensor" : "row"},
          .wgrad_dy = {"wgrad_grad", "column"},
          .wgrad_x = {"wgrad_input", "column"},
          .pow2 = true,
          .plain_wgrad = plain};
}

Options fp8_options(const Scheme& s, const Cast& cast, std::string_view fault) {
  const bool e5m2 = cast.e5m2 && fault != "P-lin-gradient-format";
  return {{"chain", "fp8_torchao"},
          {"granularity", std::string(cast.granularity)},
          {"elem", e5m2 ? "e5m2" : "e4m3"},
          {"pow2", s.pow2 ? "1" : "0"}};
}
const std::vector<std::string_view> kFp8Taps = {"codes", "scale"};

// fl(code / scale) of every element.
Dense quotients(const Operand& o, std::string_view granularity, bool wrong_axis) {
  Dense d = dense_of(o.part("codes"));
  const std::vector<double>& scales = o.part("scale").value;
  for (std::int64_t r = 0; r < d.rows; ++r)
    for (std::int64_t k = 0; k < d.columns; ++k) {
      std::int64_t g = granularity == "row" ? r : granularity == "column" ? k : 0;
      if (wrong_axis) g = (g + 1) % std::ssize(scales);
      double& v = d.values[static_cast<std::size_t>(r * d.columns + k)];
      v = static_cast<double>(static_cast<float>(v) /
                              static_cast<float>(scales[static_cast<std::size_t>(g)]));
    }
  return d;
}

Plan fp8_plan(const Problem& p) {
  Plan plan;
  const Scheme s = scheme_of(p.c);
  const auto stored = [&](const Cast& cast, const Tensor& t) {
    const Operand o = run_chain(fp8_options(s, cast, p.fault), t);
    if (!o.refused.empty()) {
      plan.refused = o.refused;
      return Dense{};
    }
    if (p.c.options.flag("taps")) add_taps(plan, o, cast.prefix, kFp8Taps);
    return quotients(o, cast.granularity, p.faulty("P-lin-scales") && cast.granularity != "tensor");
  };
  const Tensor &x = p.tensors.at("x"), &w = p.tensors.at("params/weight");
  const Tensor turned = transposed(w);
  const Dense fx = stored(s.x, x), fw = stored(s.w, turned);
  if (!plan.refused.empty()) return plan;
  plan.fprop = {.a = fx, .b = transposed(fw)};
  if (!p.faulty("P-lin-result-scale")) plan.fprop.factor = p.c.options.real("result_scale", 1);
  if (!p.has("cotangents/y")) return plan;
  const Tensor& dy = p.tensors.at("cotangents/y");
  const Dense dgrad_dy = stored(s.dgrad_dy, dy), dgrad_w = stored(s.dgrad_w, turned);
  plan.dgrad = {.a = dgrad_dy, .b = dgrad_w};
  if (s.plain_wgrad) {
    plan.wgrad = {.a = transposed(dense_of(dy)), .b = transposed(dense_of(x))};
  } else {
    const Dense wgrad_dy = stored(s.wgrad_dy, dy), wgrad_x = stored(s.wgrad_x, x);
    plan.wgrad = {.a = transposed(wgrad_dy), .b = transposed(wgrad_x)};
  }
  return plan;
}

std::vector<TensorSpec> fp8_taps(const Case& c) {
  const auto [M, N, K] = extents(c);
  const Scheme s = scheme_of(c);
  std::vector<TensorSpec> specs;
  const auto add = [&](const Cast& cast, std::int64_t rows, std::int64_t columns) {
    for (TensorSpec& spec :
         chain_specs(fp8_options(s, cast, ""), c.dtype, rows, columns, cast.prefix, kFp8Taps))
      specs.push_back(std::move(spec));
  };
  add(s.x, M, K);
  add(s.w, K, N);
  add(s.dgrad_dy, M, N);
  add(s.dgrad_w, K, N);
  if (s.plain_wgrad) return specs;
  add(s.wgrad_dy, M, N);
  add(s.wgrad_x, M, K);
  return specs;
}

}  // namespace

Recipe mx_qat() {
  return {.name = "mx_qat",
          .what = "blocks of 32 along K under powers of two; backward of the dequantised operands",
          .chain = "mx_torchao_018",
          .plan = mx_plan,
          .taps = mx_taps};
}
Recipe fp8_torchao() {
  return {.name = "fp8",
          .what = "dynamic float8 of every operand, by the tensor or along the contracted axis",
          .chain = "fp8_torchao",
          .plan = fp8_plan,
          .taps = fp8_taps};
}

}  // namespace parity::linear
