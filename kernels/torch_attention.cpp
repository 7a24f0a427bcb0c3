// LibTorch's own attention on the CPU as candidates: the plain composition of operations, and the
// fused kernel (flash). Its memory-efficient kernel is for GPUs alone.
#include <ATen/ATen.h>
#include <cmath>
#include <limits>

#include "harness/torch/module.hpp"

namespace parity {
namespace {

struct Operands {
  at::Tensor q, k, v;  // [B,H,T,D], [B,H,S,D], [B,H,S,V], key heads repeated
  at::Tensor mask;     // added to the logits, [T,S]: 0 or -inf
  double scale = 1;
};

// Which keys a query sees: its document's, up to its own position.
at::Tensor allowed(const Case& c, std::int64_t T, std::int64_t S) {
  const Size &queries = *c.sizes.find("T"),
             &keys = c.sizes.find("S") ? *c.sizes.find("S") : queries;
  const auto parts = [](const Size& size) {
    return size.parts.empty() ? std::vector{size.extent} : size.parts;
  };
  at::Tensor mask = at::zeros({T, S}, at::kBool);
  std::int64_t t = 0, s = 0;
  for (std::size_t i = 0; i < parts(queries).size(); ++i) {
    const std::int64_t rows = parts(queries)[i], columns = parts(keys)[i];
    at::Tensor block = at::ones({rows, columns}, at::kBool);
    if (c.options.integer("causal", 1) != 0)
      block = block.tril(c.options.get("align", "") == "top" ? 0 : columns - rows);
    mask.narrow(0, t, rows).narrow(1, s, columns).copy_(block);
    t += rows, s += columns;
  }
  return mask;
}

Operands operands(const Case& c, const torch_module::Named& in) {
  const auto by_head = [&](const char* name) { return in.at(name).transpose(1, 2); };
  Operands x{by_head("q"), by_head("k"), by_head("v"), {}, 1};
  const std::int64_t group = x.q.size(1) / x.k.size(1);
  x.k = x.k.repeat_interleave(group, 1), x.v = x.v.repeat_interleave(group, 1);
  const at::Tensor seen = allowed(c, x.q.size(2), x.k.size(2));
  x.mask = at::zeros(seen.sizes(), x.q.options().requires_grad(false))
               .masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  x.scale = c.options.real("scale", 1 / std::sqrt(static_cast<double>(x.q.size(3))));
  return x;
}

torch_module::Named results(const at::Tensor& o, const at::Tensor& lse) {
  return {{"o", o.transpose(1, 2)}, {"lse", lse}};
}

torch_module::Named math(const Case& c, const torch_module::Named& in) {
  const Operands x = operands(c, in);
  const at::Tensor o = std::get<0>(at::_scaled_dot_product_attention_math(
      x.q, x.k, x.v, x.mask, 0, false, std::nullopt, x.scale));
  const auto wide = x.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor logits = at::matmul(x.q.to(wide), x.k.to(wide).transpose(-1, -2)) * x.scale;
  return results(o, at::logsumexp(logits.detach() + x.mask.to(wide), at::IntArrayRef{-1}));
}

torch_module::Named flash(const Case& c, const torch_module::Named& in) {
  const Operands x = operands(c, in);
  const auto [o, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      x.q, x.k, x.v, 0, false, x.mask.view({1, 1, x.mask.size(0), x.mask.size(1)}), x.scale);
  return results(o, lse);
}

// A row that sees nothing is NaN in the plain composition. Grouped heads are repeated outside of
// it, and the gradient of that adds what was rounded to bf16.
std::string refuses_math(const Case& c, const Options&) {
  if (c.dtype == Dtype::BF16 && c.sizes.get("G", c.sizes.get("H", 1)) != c.sizes.get("H", 1))
    return "gradients of repeated heads are added in bf16";
  if (c.options.integer("causal", 1) == 0 || c.options.get("align", "") == "top") return "";
  return c.sizes["T"] > c.sizes.get("S", c.sizes["T"]) ? "more queries than keys" : "";
}

// The fused kernel recomputes weights from a rounded log sum exp and subtracts a delta of another
// order: exact only where one key has all the weight and sums are of integers; where a query sees
// one key alone its dq is noise instead of zero.
std::string refuses_flash(const Case& c, const Options& options) {
  if (c.sizes.get("V", c.sizes["D"]) != c.sizes["D"]) return "one width for keys and values";
  if (c.check == Check::Exact && c.fill != "one_key")
    return "a weight of 1/2 from a rounded log sum exp is not exact";
  if (c.dtype == Dtype::BF16 && c.options.integer("lse", 1) != 0)
    return "its log sum exp in bf16 comes from a fast exponential, good to 1e-5";
  const bool causal = c.options.integer("causal", 1) != 0;
  const bool square = !c.sizes.find("S") || c.options.get("align", "") == "top";
  if (causal && square && c.dtype != Dtype::F64 && c.check != Check::Exact)
    return "a query that sees one key has a noisy dq";
  return refuses_math(c, options);
}

template <torch_module::Module module>
KernelDef vendor(std::string_view name, Dtype dtype, std::string_view what,
                 std::string (*refuses)(const Case&, const Options&)) {
  KernelDef def = torch_module::candidate<module>("attention", name, dtype);
  def.what = what;
  def.refuses = refuses;
  if (module == math) def.contract.roundings.clear();  // computes bf16 in f32
  return def;
}

constexpr const char* kMath = "LibTorch's attention of plain operations, gradients by autograd";
constexpr const char* kFlash =
    "LibTorch's fused attention for the CPU and its own backward; tiles, f32 logits";

const Register math_f64{vendor<math>("attention.torch_math_f64", Dtype::F64, kMath, refuses_math)};
const Register math_f32{vendor<math>("attention.torch_math_f32", Dtype::F32, kMath, refuses_math)};
const Register math_bf16{
    vendor<math>("attention.torch_math_bf16", Dtype::BF16, kMath, refuses_math)};
const Register flash_f64{
    vendor<flash>("attention.torch_flash_f64", Dtype::F64, kFlash, refuses_flash)};
const Register flash_f32{
    vendor<flash>("attention.torch_flash_f32", Dtype::F32, kFlash, refuses_flash)};
const Register flash_bf16{
    vendor<flash>("attention.torch_flash_bf16", Dtype::BF16, kFlash, refuses_flash)};

}  // namespace
}  // namespace parity
