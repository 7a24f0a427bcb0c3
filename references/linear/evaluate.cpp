#include "references/linear/evaluate.hpp"

#include <algorithm>
#include <cmath>

#include "harness/failure.hpp"
#include "references/chains/chain_op.hpp"

namespace parity::linear {
namespace {

constexpr double kUnit = 0x1p-24;  // of a companion that holds an allowance
bool against_source(const Case& c) { return c.options.get("against", "stored") == "source"; }
bool has_bits(const Case& c) {
  const Recipe* recipe = recipe_of(c);
  return (recipe != nullptr && recipe->exact) || c.options.flag("stated");
}

std::int64_t depth_of(const Case& c, std::string_view output) {
  const auto [M, N, K] = extents(c);
  if (output == "grads/x") return N;
  return output == "y" ? K : M;
}

TensorSpec spec_of(std::string_view name, Role role, Dtype dtype, std::vector<Dim> dims) {
  return {.name = std::string(name), .role = role, .dtype = dtype, .dims = std::move(dims)};
}

const Gemm& gemm_of(const Plan& plan, std::string_view output) {
  if (output == "y") return plan.fprop;
  return output == "grads/x" ? plan.dgrad : plan.wgrad;
}

// The same product of the operands as they came.
Gemm source_gemm(const Problem& p, std::string_view output) {
  const Dense x = dense_of(p.tensors.at("x")), w = dense_of(p.tensors.at("params/weight"));
  if (output == "y") return {.a = x, .b = w};
  const Dense dy = dense_of(p.tensors.at("cotangents/y"));
  if (output == "grads/x") return {.a = dy, .b = linear::transposed(w)};
  return {.a = linear::transposed(dy), .b = linear::transposed(x)};
}

void settle(Gemm& g) {  // an output that is the transpose of its product
  if (!g.transposed) return;
  std::swap(g.a, g.b);
  g.transposed = false;
}

// Faults of what is multiplied.
void spoil(const Problem& p, std::string_view output, Gemm& g) {
  const bool gradient = output != "y";
  if (p.faulty("P-lin-fallback")) g = source_gemm(p, output);
  if (p.faulty("P-lin-wgrad-source") && output == "grads/params/weight") g = source_gemm(p, output);
  if (p.faulty("P-lin-dgrad-source") && output == "grads/x") g = source_gemm(p, output);
  if (p.faulty("P-lin-factor") && g.factor != 1) g.factor = 1;
  if (p.faulty("P-lin-factor-twice")) g.factor *= g.factor;
  if (p.faulty("P-lin-factor-bf16")) g.factor = round_to(Dtype::BF16, g.factor);
  if (p.faulty("P-lin-depth-tail") && !gradient)
    for (std::int64_t r = 0; r < g.a.rows; ++r)
      for (std::int64_t k = g.a.columns - 8; k < g.a.columns; ++k)
        g.a.values[static_cast<std::size_t>(r * g.a.columns + k)] = 0;
  if (p.faulty("P-lin-local-amax")) {
    // The second shard's own, smaller maximum: its scale is not the one the product is taken with.
    for (std::int64_t r = g.a.rows / 2; r < g.a.rows; ++r)
      for (std::int64_t k = 0; k < g.a.columns; ++k)
        g.a.values[static_cast<std::size_t>(r * g.a.columns + k)] *= 1.0625;
  }
  if (p.fault == "P-lin-factor" || p.fault == "P-lin-factor-twice" || p.fault == "P-lin-fallback" ||
      p.fault == "P-lin-factor-bf16" || p.fault == "P-lin-depth-tail" ||
      p.fault == "P-lin-local-amax" || p.fault == "P-lin-wgrad-source" ||
      p.fault == "P-lin-dgrad-source")
    g.stated.reset();
}

// Truth of one product with its companion.
ExpectedTensor truth_of(const Problem& p, const TensorSpec& spec, Gemm g) {
  const Case& c = p.c;
  ExpectedTensor t{.spec = spec};
  const std::vector<double> bias = spec.name == "y" && p.has("params/bias")
                                       ? p.tensors.at("params/bias").widened()
                                       : std::vector<double>{};
  if (g.stated) {
    Dense stated = *g.stated;
    for (std::size_t i = 0; i < bias.size() && stated.columns > 0; ++i)
      for (std::int64_t r = 0; r < stated.rows; ++r) {
        double& v = stated.values[static_cast<std::size_t>(r * stated.columns) + i];
        v = static_cast<double>(static_cast<float>(round_to(spec.dtype, v)) +
                                static_cast<float>(bias[i]));
      }
    return chains::exact(spec, std::move(stated.values));
  }
  settle(g);
  const Product product = times_transposed(g.a, g.b);
  const auto columns = static_cast<std::size_t>(product.value.columns);
  const double size = std::fabs(g.factor);
  for (std::size_t i = 0; i < product.size.size(); ++i) {
    const double b = bias.empty() ? 0 : bias[i % columns];
    t.value.push_back(g.factor * product.value.values[i] + b);
    t.scale.push_back(size * product.size[i] + std::fabs(b));
  }
  if (!against_source(c)) return t;
  // Distance of the recipe itself: term by term, whatever its sign.
  const Gemm s = source_gemm(p, spec.name);
  const Product source = times_transposed(s.a, s.b);
  const auto n = static_cast<double>(s.a.columns);
  const double rounding = (n + 8) * 0x1p-24 + 3 * format(spec.dtype).unit_roundoff;
  for (std::int64_t r = 0; r < s.a.rows; ++r)
    for (std::int64_t q = 0; q < s.b.rows; ++q) {
      const auto i = static_cast<std::size_t>(r * s.b.rows + q);
      double moved = 0;
      if (s.a.columns == g.a.columns)
        for (std::int64_t k = 0; k < s.a.columns; ++k)
          moved += std::fabs(g.factor * g.a.at(r, k) * g.b.at(q, k) - s.a.at(r, k) * s.b.at(q, k));
      const double b = bias.empty() ? 0 : bias[i % columns];
      t.value[i] = source.value.values[i] + b;
      t.scale[i] = (moved + rounding * t.scale[i]) / kUnit;
    }
  return t;
}

ExpectedTensor bias_gradient(const Problem& p, const TensorSpec& spec) {
  const Dense dy = dense_of(p.tensors.at("cotangents/y"));
  ExpectedTensor t{.spec = spec,
                   .value = std::vector<double>(static_cast<std::size_t>(dy.columns)),
                   .scale = std::vector<double>(static_cast<std::size_t>(dy.columns))};
  for (std::int64_t m = 0; m < dy.rows; ++m)
    for (std::int64_t n = 0; n < dy.columns; ++n) {
      t.value[static_cast<std::size_t>(n)] += dy.at(m, n);
      t.scale[static_cast<std::size_t>(n)] += std::fabs(dy.at(m, n));
    }
  if (against_source(p.c))
    for (double& s : t.scale)
      s *= (static_cast<double>(dy.rows) * kUnit + format(spec.dtype).unit_roundoff) / kUnit;
  return t;
}

Plan plan_of(const Problem& p) {
  const Recipe* recipe = recipe_of(p.c);
  if (recipe == nullptr) return {.refused = refuses(p.c)};
  return recipe->plan(p);
}

}  // namespace

std::int64_t ranks_of(const Case& c, std::string_view output) {
  const std::string tp = c.options.get("tp", "none");
  const std::int64_t ranks = c.options.integer("ranks", 2);
  if ((tp == "row" && output == "y") || (tp == "column" && output == "grads/x")) return ranks;
  return 1;
}

std::string refuses(const Case& c) {
  for (const char* letter : {"M", "N", "K"})
    if (c.sizes.find(letter) == nullptr || c.sizes[letter] < 1) return "x is M x K and w is N x K";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16) return "operands are f32 or bf16";
  if (recipe_of(c) == nullptr) {
    std::string known;
    for (const Recipe& r : recipes()) known += (known.empty() ? "" : ", ") + std::string(r.name);
    return "no recipe '" + c.options.get("recipe", "") + "' (recipe=" + known + ")";
  }
  const std::string tp = c.options.get("tp", "none");
  if (tp != "none" && tp != "row" && tp != "column") return "tp is none, row or column";
  const auto [M, N, K] = extents(c);
  const std::int64_t ranks = c.options.integer("ranks", 2);
  if (tp != "none" && (ranks < 1 || (tp == "row" ? K : N) % (32 * ranks) != 0))
    return "shards are no multiples of 32";
  return "";
}

std::vector<TensorSpec> inputs(const Case& c) {
  const auto [M, N, K] = extents(c);
  std::vector<TensorSpec> specs = {
      spec_of("x", Role::Input, c.dtype, {{"M", M}, {"K", K}}),
      spec_of("params/weight", Role::Input, c.dtype, {{"N", N}, {"K", K}})};
  if (c.options.flag("bias"))
    specs.push_back(spec_of("params/bias", Role::Input, c.dtype, {{"N", N}}));
  if (c.options.flag("sr")) {
    specs.push_back(spec_of("rbits", Role::Input, Dtype::U8, {{"M", M}, {"N", N}}));
    specs.push_back(spec_of("rbits_t", Role::Input, Dtype::U8, {{"N", N}, {"M", M}}));
  }
  specs.push_back(spec_of("cotangents/y", Role::Cotangent, c.dtype, {{"M", M}, {"N", N}}));
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const auto [M, N, K] = extents(c);
  const Dtype out = out_dtype(c);
  std::vector<TensorSpec> specs = {spec_of("y", Role::Output, out, {{"M", M}, {"N", N}})};
  if (c.options.flag("taps"))
    for (TensorSpec& spec : recipe_of(c)->taps(c)) specs.push_back(std::move(spec));
  const Dtype gradient = gradient_dtype(c);
  specs.push_back(spec_of("grads/x", Role::Gradient, gradient, {{"M", M}, {"K", K}}));
  specs.push_back(spec_of("grads/params/weight", Role::Gradient, gradient, {{"N", N}, {"K", K}}));
  specs.back().parameter = "weight";
  if (c.options.flag("bias")) {
    specs.push_back(spec_of("grads/params/bias", Role::Gradient, gradient, {{"N", N}}));
    specs.back().parameter = "bias";
  }
  return specs;
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  const Problem p{.c = c, .tensors = tensors, .gradients = gradients};
  Plan plan = plan_of(p);
  if (!plan.refused.empty()) return {.refused = plan.refused};
  Expected expected;
  const bool backward = gradients && p.has("cotangents/y");
  for (const TensorSpec& spec : outputs(c)) {
    if (spec.role == Role::Gradient && !backward) continue;
    if (spec.name.starts_with("tap/")) {
      const auto tap = std::ranges::find(plan.taps, spec.name,
                                         [](const ExpectedTensor& t) { return t.spec.name; });
      if (tap != plan.taps.end()) expected.tensors.push_back(*tap);
    } else if (spec.name == "grads/params/bias") {
      expected.tensors.push_back(bias_gradient(p, spec));
    } else {
      expected.tensors.push_back(truth_of(p, spec, gemm_of(plan, spec.name)));
    }
  }
  return expected;
}

// ---- evaluations at a contract
// -------------------------------------------------------------------------------------------------

namespace {

Dense columns_of(const Dense& x, std::int64_t first, std::int64_t count) {
  Dense part{.rows = x.rows, .columns = count};
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t k = first; k < first + count; ++k) part.values.push_back(x.at(r, k));
  return part;
}

double finished(double sum, const Gemm& g, Dtype out) {
  const auto R = [&](double v) { return round_to(out, v); };
  const auto factor = static_cast<float>(g.factor);
  if (g.finish == Finish::FactorLast)
    return R(static_cast<double>(static_cast<float>(R(sum)) *
                                 static_cast<float>(R(static_cast<double>(factor)))));
  return R(static_cast<double>(static_cast<float>(sum) * factor));
}

// Sums of bf16: what an accumulator of the wrong format leaves.
Dense times_in_bf16(const Dense& a, const Dense& b) {
  Dense y{.rows = a.rows, .columns = b.rows};
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t s = 0; s < b.rows; ++s) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k)
        sum = round_to(Dtype::BF16, sum + a.at(r, k) * b.at(s, k));
      y.values.push_back(sum);
    }
  return y;
}

std::vector<double> evaluated(const BaseRequest& r, const TensorSpec& spec, Gemm g) {
  settle(g);
  const std::uint64_t order = r.variation == 0 ? 0 : r.seed | 1;
  const std::int64_t ranks = ranks_of(r.problem, spec.name);
  const std::int64_t part = g.a.columns / ranks;
  std::vector<double> y;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Dense a = ranks == 1 ? g.a : columns_of(g.a, rank * part, part);
    const Dense b = ranks == 1 ? g.b : columns_of(g.b, rank * part, part);
    const Dense sum =
        r.fault == "P-lin-bf16-sum" ? times_in_bf16(a, b) : times_transposed_f32(a, b, order);
    if (y.empty()) y.assign(sum.values.size(), 0);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = static_cast<double>(static_cast<float>(y[i]) +
                                 static_cast<float>(finished(sum.values[i], g, spec.dtype)));
    if (r.fault == "P-lin-one-shard") break;
  }
  for (double& v : y) v = round_to(spec.dtype, v);
  if (spec.name != "y" || r.inputs.find("params/bias") == nullptr || r.fault == "P-lin-no-bias")
    return y;
  const std::vector<double> bias = r.inputs.at("params/bias").widened();
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = round_to(spec.dtype, static_cast<double>(static_cast<float>(y[i]) +
                                                    static_cast<float>(bias[i % bias.size()])));
  return y;
}

std::vector<double> bias_sums(const BaseRequest& r, const TensorSpec& spec) {
  Dense dy = dense_of(r.inputs.at("cotangents/y"));
  if (r.fault == "P-lin-bias-gradient") std::ranges::fill(dy.values, 0.0);
  const Dense ones{.rows = 1,
                   .columns = dy.rows,
                   .values = std::vector<double>(static_cast<std::size_t>(dy.rows), 1.0)};
  std::vector<double> sums =
      times_transposed_f32(ones, linear::transposed(dy), r.variation == 0 ? 0 : r.seed | 1).values;
  for (double& v : sums) v = round_to(spec.dtype, v);
  return sums;
}

}  // namespace

Evaluation base(const BaseRequest& r) {
  const Problem p{.c = r.problem, .tensors = r.inputs, .fault = r.fault, .gradients = r.gradients};
  Plan plan = plan_of(p);
  Evaluation evaluation;
  if (!plan.refused.empty()) return evaluation;
  for (const TensorSpec& spec : outputs(r.problem)) {
    if (spec.role == Role::Gradient && !r.gradients) continue;
    if (spec.name.starts_with("tap/")) {
      for (const ExpectedTensor& tap : plan.taps)
        if (tap.spec.name == spec.name) evaluation.push_back({spec.name, tap.value, tap.bits});
      continue;
    }
    if (spec.name == "grads/params/bias") {
      evaluation.push_back({spec.name, bias_sums(r, spec), {}});
      continue;
    }
    Gemm g = gemm_of(plan, spec.name);
    spoil(p, spec.name, g);
    if (g.stated) {
      ExpectedTensor t = truth_of(p, spec, std::move(g));
      evaluation.push_back({spec.name, std::move(t.value), std::move(t.bits)});
      continue;
    }
    std::vector<double> values = evaluated(r, spec, std::move(g));
    std::vector<std::byte> bits;
    if (has_bits(r.problem)) bits = make_tensor(spec, values).bytes;
    evaluation.push_back({spec.name, std::move(values), std::move(bits)});
  }
  return evaluation;
}

Bound bound(const Case& c, const Contract& contract, const TensorSpec& spec) {
  if (spec.name.starts_with("tap/") || has_bits(c)) return chains::exact_bound(c, contract, spec);
  if (against_source(c))
    return {.kind = BoundKind::Proved,
            .rho = 0,
            .roundings = {{.c = 1, .to = Dtype::F32, .what = "allowance of the element"}},
            .why =
                "a quantised product differs from that of its source by at most the sum over k "
                "of |a_q b_q - a b|, plus the kernel's own rounding (the companion holds both, "
                "in units of 2^-24)"};
  // Roundings to bf16 before the last: of every shard's part (their sizes sum to sum|a b|), of sum
  // and factor where the factor comes last, of the product before a bias.
  const Recipe* recipe = recipe_of(c);
  const bool y = spec.name == "y";
  double narrow = ranks_of(c, spec.name) > 1 ? 1 : 0;
  if (y && recipe != nullptr && recipe->finish == Finish::FactorLast) narrow += 2;
  if (y && c.options.flag("bias")) narrow += 1;
  return {.kind = BoundKind::Proved,
          .rho = 1,
          .growth = {.kind = Growth::Kind::WorstCase,
                     .n = static_cast<double>(depth_of(c, spec.name)) + 8},
          .accumulate = Dtype::F32,
          .roundings = spec.dtype != Dtype::BF16 || narrow == 0
                           ? std::vector<RoundingTerm>{}
                           : std::vector<RoundingTerm>{{.c = narrow,
                                                        .to = spec.dtype,
                                                        .what = "shards, factor and bias"}},
          .why =
              "n products of stored operands summed in f32 in any order: gamma_n sum|a b| "
              "(Higham 3.1), 8 more for products of scales; one rounding to the output, before "
              "it one for each shard's part and its reduction, the factor and the bias"};
}

std::vector<FaultDef> faults() {
  return {
      {"P-lin-bf16-sum", "", "sums in bf16"},
      {"P-lin-depth-tail", "", "the last columns of K never enter the sum"},
      {"P-lin-factor", "", "scale of the tensors left out of the product"},
      {"P-lin-factor-twice", "", "scale of the tensors applied twice"},
      {"P-lin-factor-bf16", "", "product of the tensors' scales rounded to bf16 first"},
      {"P-lin-scales", "", "scales of the block beside it"},
      {"P-lin-fallback", "", "the product of the unquantised operands: nothing was quantised"},
      {"P-lin-scale-order", "", "row scale before column scale: a rounding of bf16"},
      {"P-lin-wgrad-source", "", "dw from x itself in place of its stored form (torchao #3478)"},
      {"P-lin-dgrad-source", "", "dx from w itself in place of its stored form"},
      {"P-lin-local-amax", "", "a shard quantised by its own maximum, not the reduced one"},
      {"P-lin-one-shard", "", "partial sums of the other ranks never reduced"},
      {"P-lin-no-bias", "", "bias left out"},
      {"P-lin-bias-gradient", "", "no gradient for the bias (torchao QAT)"},
      {"P-lin-order", "", "k-blocks summed backwards where the source states their order"},
      {"P-lin-two-signs", "",
       "the transform's two operands take different sign vectors (torchao #4369)"},
      {"P-lin-weight-rows", "", "scales of 1x16 blocks of w used for its transpose"},
      {"P-lin-gradient-nearest", "", "gradients rounded to nearest where they are stochastic"},
      {"P-lin-shared-random", "", "both copies of dy drawn from the same random bits"},
      {"P-lin-gradient-format", "", "gradients in e4m3 where the recipe has e5m2"},
      {"P-lin-result-scale", "", "scale of an eight-bit result ignored (pytorch #190449)"},
      {.id = "P-lin-groups",
       .what = "scales of grouped columns laid out over all tokens, not restarted for each expert",
       .unsupported = "grouped layouts are judged by the chains with groups, byte by byte"},
  };
}

}  // namespace parity::linear
