// NVFP4 linears.
//   nvfp4_te      training as Transformer Engine's python reference: chain A, weights in 16x16 or
//                 1x16, activations and gradients in 1x16 both ways, wgrad's two operands after the
//                 same random Hadamard transform (rht=1); sr=1: dy stochastically, by rbits
//   nvfp4_qat     torchao's QAT: forward the PTQ product, backward of the dequantised operands
//   nvfp4_weight  weights alone, chain B two level: what a serving kernel dequantises on the way
#include <cmath>

#include "harness/failure.hpp"
#include "references/linear/recipe.hpp"

namespace parity::linear {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr float kFull = 36.0F * 448 * 448;  // (6 448)^2, exact

// ---- Transformer Engine ----

Options te_options(const Case& c, bool weight) {
  Options o{{"chain", "nvfp4_te"}};
  if (weight && c.options.get("weight_tile", "16x16") == "16x16") o.set("tile", "16");
  const bool turned = !weight && c.options.flag("rht");
  o.set(turned ? "rht" : "transpose", "1");
  return o;
}

// Signs of the transform: 16 bits, bit i set where sgn[i] = -1.
Tensor signs_tensor(std::int64_t mask) {
  std::vector<double> signs;
  for (int i = 0; i < 16; ++i) signs.push_back((mask >> i & 1) != 0 ? -1 : 1);
  return make_tensor({.name = "signs", .dtype = Dtype::F32, .dims = {{"N", 16}}}, signs);
}
constexpr std::int64_t kDefaultSigns = 0xD7E8;
std::int64_t signs_of(const Case& c) { return c.options.integer("signs", kDefaultSigns); }

// The product in the order that the reference states: k-blocks ascending, y = fl(y + fl(fl(sA sB)
// dot)), dot of 16 exact; alpha = fl(fl(amaxA amaxB) / 7225344); fl(alpha y).
Dense stated_product(const ExpectedTensor& ca, const ExpectedTensor& sa, const ExpectedTensor& cb,
                     const ExpectedTensor& sb, float alpha, std::string_view fault) {
  const Dense a = dense_of(ca), b = dense_of(cb);
  const std::int64_t blocks = sa.spec.dims.at(1).extent;
  Dense y{.rows = a.rows, .columns = b.rows};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t s = 0; s < b.rows; ++s) {
      float sum = 0;
      for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t k = fault == "P-lin-order" ? blocks - 1 - i : i;
        double dot = 0;
        for (std::int64_t e = k * kBlock; e < std::min((k + 1) * kBlock, a.columns); ++e)
          dot += a.at(r, e) * b.at(s, e);
        const auto of = [&](const ExpectedTensor& scales, std::int64_t row) {
          return static_cast<float>(scales.value[static_cast<std::size_t>(row * blocks + k)]);
        };
        const float scale = of(sa, r) * of(sb, s);
        sum = sum + scale * static_cast<float>(dot);
      }
      y.values.push_back(static_cast<double>(alpha * sum));
    }
  }
  return y;
}

struct Copy {  // of an operand: codes and scales, of the matrix or of its transpose
  const Operand* operand = nullptr;
  bool turned = false;
  const ExpectedTensor& codes() const { return operand->part(turned ? "codes_t" : "codes"); }
  const ExpectedTensor& scales() const { return operand->part(turned ? "scales_t" : "scales"); }
  float amax() const {
    return static_cast<float>(operand->number(turned ? "amax_col" : "amax_row"));
  }
};

Gemm te_gemm(const Problem& p, const Copy& a, const Copy& b) {
  const bool scrambled = p.faulty("P-lin-scales");
  Gemm g{.a = scaled_blocks(a.codes(), a.scales(), kBlock, scrambled),
         .b = scaled_blocks(b.codes(), b.scales(), kBlock)};
  g.factor =
      static_cast<double>(a.amax()) * static_cast<double>(b.amax()) / static_cast<double>(kFull);
  if (p.c.options.flag("stated"))
    g.stated = stated_product(a.codes(), a.scales(), b.codes(), b.scales(),
                              a.amax() * b.amax() / kFull, p.fault);
  return g;
}

const std::vector<std::string_view> kTeTaps = {"codes",    "scales",   "codes_t",
                                               "scales_t", "amax_row", "amax_col"};

std::string te_refuses(const Case& c, bool gradients) {
  const auto [M, N, K] = extents(c);
  const auto gemm = [](std::int64_t depth, std::int64_t outer) -> std::string {
    if (depth % 32 != 0) return "the contracted axis must be a multiple of 32";
    if (outer % 8 != 0) return "the outer axis must be a multiple of 8";
    return "";
  };
  if (c.dtype != Dtype::BF16) return "operands are bf16";
  if (std::string why = gemm(K, N); !why.empty() || !gradients) return why;
  if (std::string why = gemm(N, K); !why.empty()) return why;
  return gemm(M, K);
}

Plan te_plan(const Problem& p) {
  const Case& c = p.c;
  Plan plan;
  const bool backward = p.has("cotangents/y");
  if (plan.refused = te_refuses(c, backward); !plan.refused.empty()) return plan;
  const bool rht = c.options.flag("rht");
  const auto with_signs = [&](std::int64_t mask) {
    return rht ? std::vector<Tensor>{signs_tensor(mask)} : std::vector<Tensor>{};
  };
  // A tensor-parallel path that forgets the module's vector takes the default (torchao #4369).
  const std::int64_t of_x = p.faulty("P-lin-two-signs") ? kDefaultSigns : signs_of(c);
  const Operand x = run_chain(te_options(c, false), p.tensors.at("x"), with_signs(of_x));
  const Operand w = run_chain(te_options(c, true), p.tensors.at("params/weight"));
  for (const Operand* o : {&x, &w})
    if (!o->refused.empty()) plan.refused = o->refused;
  if (!plan.refused.empty()) return plan;
  plan.fprop = te_gemm(p, {&x, false}, {&w, false});
  if (c.options.flag("taps")) {
    add_taps(plan, x, "x", kTeTaps);
    add_taps(plan, w, "w", kTeTaps);
  }
  if (!backward) return plan;
  Options of_dy = te_options(c, false);
  std::vector<Tensor> more = with_signs(signs_of(c));
  if (c.options.flag("sr") && !p.faulty("P-lin-gradient-nearest")) {
    of_dy.set("sr", "1");
    for (const char* bits : {"rbits", "rbits_t"}) {
      const bool shared = p.faulty("P-lin-shared-random");
      Tensor t = p.tensors.at(shared ? "rbits" : bits);
      t.spec.name = bits;
      if (shared && std::string_view(bits) == "rbits_t") std::swap(t.spec.dims[0], t.spec.dims[1]);
      more.push_back(std::move(t));
    }
  }
  const Operand dy = run_chain(of_dy, p.tensors.at("cotangents/y"), std::move(more));
  if (plan.refused = dy.refused; !plan.refused.empty()) return plan;
  plan.dgrad = te_gemm(p, {&dy, false}, {&w, true});
  plan.wgrad = te_gemm(p, {&dy, true}, {&x, true});
  if (p.faulty("P-lin-weight-rows")) {  // scales of 1x16 blocks do not serve the transpose
    plan.dgrad.b = linear::transposed(scaled_blocks(w.part("codes"), w.part("scales"), kBlock));
    plan.dgrad.stated.reset();
  }
  if (c.options.flag("taps")) add_taps(plan, dy, "dy", kTeTaps);
  return plan;
}

std::vector<TensorSpec> te_taps(const Case& c) {
  const auto [M, N, K] = extents(c);
  std::vector<TensorSpec> specs = chain_specs(te_options(c, false), c.dtype, M, K, "x", kTeTaps);
  const auto add = [&](std::vector<TensorSpec> more) {
    for (TensorSpec& spec : more) specs.push_back(std::move(spec));
  };
  add(chain_specs(te_options(c, true), c.dtype, N, K, "w", kTeTaps));
  add(chain_specs(te_options(c, false), c.dtype, M, N, "dy", kTeTaps));
  return specs;
}

// ---- torchao, two levels ----

const Options kTwoLevel{{"chain", "nvfp4_torchao_b2"}, {"dequant", "1"}};
const std::vector<std::string_view> kTwoLevelTaps = {"codes", "scales", "tensor_scale", "dequant"};

Plan qat_plan(const Problem& p) {
  Plan plan;
  if (p.c.options.flag("cpu_forward")) {
    plan.refused = "the forward product of fp4 operands has no CPU kernel in the package";
    return plan;
  }
  const Operand x = run_chain(kTwoLevel, p.tensors.at("x"));
  const Operand w = run_chain(kTwoLevel, p.tensors.at("params/weight"));
  for (const Operand* o : {&x, &w})
    if (!o->refused.empty()) plan.refused = o->refused;
  if (!plan.refused.empty()) return plan;
  const auto stored = [](const Operand& o, bool scrambled) {
    return scaled_blocks(o.part("codes"), o.part("scales"), kBlock, scrambled);
  };
  plan.fprop = {.a = stored(x, p.faulty("P-lin-scales")),
                .b = stored(w, false),
                .factor = x.number("tensor_scale") * w.number("tensor_scale"),
                .finish = Finish::FactorLast};
  if (p.has("cotangents/y")) {
    const Dense dy = dense_of(p.tensors.at("cotangents/y"));
    plan.dgrad = {.a = dy, .b = linear::transposed(dense_of(w.part("dequant")))};
    plan.wgrad = {.a = linear::transposed(dy),
                  .b = linear::transposed(dense_of(x.part("dequant")))};
  }
  if (p.c.options.flag("taps")) {
    add_taps(plan, x, "x", kTwoLevelTaps);
    add_taps(plan, w, "w", kTwoLevelTaps);
  }
  return plan;
}

std::vector<TensorSpec> qat_taps(const Case& c) {
  const auto [M, N, K] = extents(c);
  std::vector<TensorSpec> specs = chain_specs(kTwoLevel, c.dtype, M, K, "x", kTwoLevelTaps);
  for (TensorSpec& spec : chain_specs(kTwoLevel, c.dtype, N, K, "w", kTwoLevelTaps))
    specs.push_back(std::move(spec));
  return specs;
}

// ---- weights alone ----

Plan weight_plan(const Problem& p) {
  Plan plan;
  const Operand w = run_chain(kTwoLevel, p.tensors.at("params/weight"));
  if (plan.refused = w.refused; !plan.refused.empty()) return plan;
  const Dense stored =
      scaled_blocks(w.part("codes"), w.part("scales"), kBlock, p.faulty("P-lin-scales"));
  const double factor = w.number("tensor_scale");
  const Dense x = dense_of(p.tensors.at("x"));
  plan.fprop = {.a = x, .b = stored, .factor = factor};
  if (p.has("cotangents/y")) {
    const Dense dy = dense_of(p.tensors.at("cotangents/y"));
    plan.dgrad = {.a = dy, .b = linear::transposed(stored), .factor = factor};
    plan.wgrad = {.a = linear::transposed(dy), .b = linear::transposed(x)};
  }
  if (p.c.options.flag("taps")) add_taps(plan, w, "w", kTwoLevelTaps);
  return plan;
}

std::vector<TensorSpec> weight_taps(const Case& c) {
  const auto [M, N, K] = extents(c);
  return chain_specs(kTwoLevel, c.dtype, N, K, "w", kTwoLevelTaps);
}

}  // namespace

Recipe nvfp4_te() {
  return {.name = "nvfp4_te",
          .what = "x, dy 1x16 and w 16x16 in chain A; wgrad after the Hadamard transform",
          .chain = "nvfp4_te",
          .plan = te_plan,
          .taps = te_taps};
}
Recipe nvfp4_qat() {
  return {.name = "nvfp4_qat",
          .what = "forward of chain B, backward of the dequantised operands",
          .chain = "nvfp4_torchao_b2",
          .plan = qat_plan,
          .taps = qat_taps,
          .finish = Finish::FactorLast};
}
Recipe nvfp4_weight() {
  return {.name = "nvfp4_weight",
          .what = "x times weights of chain B, dequantised on the way",
          .chain = "nvfp4_torchao_b2",
          .plan = weight_plan,
          .taps = weight_taps};
}

}  // namespace parity::linear
