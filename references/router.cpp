// router: token-choice routing, by tokens T, width D, experts E and choices K (blocks/router.hpp).
//   in   x [T,D], params/gate.weight [E,D]
//        bias=1 (usual)  params/gate.e_score_correction_bias [E], f32: moves the choice only
//        linear_bias=1   params/gate.bias [E], part of the logits
//        replay=1        ids [T,K], ascending: the choice is given
//   out  ids [T,K] ascending, weights [T,K] beside them, weights_by_expert [T,E], tokens_per_expert
//        [E], margin [T]; weights and gradients of logits are f32 beside bf16
//        aux=1           aux_loss = E sum_e f_e P_e, f_e = count_e / T, P = mean_t softmax(z)
//                        (Switch Transformer, arXiv 2101.03961, eq. 4; f sums to K as in
//                        transformers)
//        taps=1          logits, scores; gradient of the logits, and that of the correction bias,
//                        which is zero
//        gate_bf16=1     bf16/{ids,scores,weights}: logits, scores and weights rounded to bf16,
//        bias
//                        added in f32 (what torchtitan's gate does on a CPU)
//        order=1         order [T,K]: a source's order of the choice; source/{ids,weights} in it
// A choice whose margin is within the gate's own noise is left open, and so is what follows from
// it.
#include "references/blocks/router.hpp"

#include <algorithm>
#include <cmath>

#include "references/blocks/open.hpp"
#include "references/router_import.hpp"

namespace parity::net {
namespace {

struct Extents {
  std::int64_t T = 0, D = 0, E = 0, K = 0;
};
Extents extents(const Case& c) { return {c.sizes["T"], c.sizes["D"], c.sizes["E"], c.sizes["K"]}; }

bool has_margin(const Case& c) {
  const RouterRule rule = router_rule(c);
  return !c.options.flag("replay") && (rule.limited() || rule.k < c.sizes["E"]);
}

std::vector<TensorSpec> inputs(const Case& c) {
  const auto [T, D, E, K] = extents(c);
  const Dtype wide = wide_of(c.dtype);
  std::vector<TensorSpec> specs = {
      {.name = "x", .dtype = c.dtype, .dims = {{"T", T}, {"D", D}}},
      {.name = "params/gate.weight", .dtype = c.dtype, .dims = {{"E", E}, {"D", D}}}};
  if (c.options.flag("linear_bias"))
    specs.push_back({.name = "params/gate.bias", .dtype = c.dtype, .dims = {{"E", E}}});
  if (c.options.integer("bias", 1) != 0)
    specs.push_back(
        {.name = "params/gate.e_score_correction_bias", .dtype = wide, .dims = {{"E", E}}});
  for (const char* given : {"replay", "order"})
    if (c.options.flag(given))
      specs.push_back({.name = given == std::string_view("replay") ? "ids" : "order",
                       .role = Role::Ids,
                       .dtype = Dtype::I64,
                       .dims = {{"T", T}, {"K", K}}});
  specs.push_back({.name = "cotangents/weights_by_expert",
                   .role = Role::Cotangent,
                   .dtype = wide,
                   .dims = {{"T", T}, {"E", E}}});
  if (c.options.flag("aux"))
    specs.push_back({.name = "cotangents/aux_loss", .role = Role::Cotangent, .dtype = wide});
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const auto [T, D, E, K] = extents(c);
  const Dtype wide = wide_of(c.dtype);
  const std::vector<Dim> by_slot = {{"T", T}, {"K", K}}, by_expert = {{"T", T}, {"E", E}};
  std::vector<TensorSpec> specs;
  const auto ids = [&](const char* name, std::vector<Dim> dims) {
    specs.push_back(
        {.name = name, .role = Role::Ids, .dtype = Dtype::I64, .dims = std::move(dims)});
  };
  const auto values = [&](const char* name, std::vector<Dim> dims) {
    specs.push_back({.name = name, .role = Role::Output, .dtype = wide, .dims = std::move(dims)});
  };
  const auto gradient = [&](const std::string& of, Dtype dtype, std::vector<Dim> dims) {
    specs.push_back({.name = "grads/" + of,
                     .role = Role::Gradient,
                     .dtype = dtype,
                     .dims = std::move(dims),
                     .parameter = of.starts_with("params/") ? of.substr(7) : ""});
  };
  ids("ids", by_slot);
  values("weights", by_slot);
  values("weights_by_expert", by_expert);
  ids("tokens_per_expert", {{"E", E}});
  if (has_margin(c)) values("margin", {{"T", T}});
  if (c.options.flag("aux")) values("aux_loss", {});
  if (c.options.flag("taps")) {
    values("tap/logits", by_expert);
    values("tap/scores", by_expert);
  }
  if (c.options.flag("gate_bf16")) {
    ids("bf16/ids", by_slot);
    values("bf16/scores", by_expert);
    values("bf16/weights", by_slot);
  }
  if (c.options.flag("order")) {
    ids("source/ids", by_slot);
    values("source/weights", by_slot);
  }
  gradient("inputs/x", c.dtype, {{"T", T}, {"D", D}});
  gradient("params/gate.weight", c.dtype, {{"E", E}, {"D", D}});
  if (c.options.flag("linear_bias")) gradient("params/gate.bias", c.dtype, {{"E", E}});
  if (c.options.flag("taps")) {
    gradient("tap/logits", wide, by_expert);
    if (c.options.integer("bias", 1) != 0)
      gradient("params/gate.e_score_correction_bias", wide, {{"E", E}});
  }
  return specs;
}

template <class T>
Array<T> as_array(const std::vector<std::int64_t>& list, std::vector<std::int64_t> shape) {
  Array<T> array(std::move(shape));
  std::ranges::transform(list, array.data.begin(),
                         [](std::int64_t x) { return static_cast<T>(x); });
  return array;
}

// E sum_e f_e P_e and, times `cotangent`, its gradient by the logits.
template <class T>
struct Auxiliary {
  T loss = 0;
  Array<T> d_logits;
};
template <class T>
Auxiliary<T> auxiliary(const Run<T>& run, const Routing<T>& r, T cotangent) {
  Auxiliary<T> aux{.d_logits = r.logits};
  const std::int64_t rows = r.logits.rows(), E = r.logits.width();
  std::vector<T> by_token;
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::span<T> p = aux.d_logits.row(t);
    const T top = *std::ranges::max_element(p);
    for (T& z : p) z = std::exp(z - top);
    const T total = run.sum(p);
    const auto load = [&](std::size_t e) {
      return static_cast<T>(r.load[e]) / static_cast<T>(rows);
    };
    std::vector<T> terms(p.size());
    for (std::size_t e = 0; e < p.size(); ++e) terms[e] = load(e) * (p[e] /= total);
    const T mean = run.sum(terms);
    by_token.push_back(mean);
    const T slope = cotangent * static_cast<T>(E) / static_cast<T>(rows);
    for (std::size_t e = 0; e < p.size(); ++e) p[e] *= slope * (load(e) - mean);
  }
  const T scale = run.fault("P-aux-no-experts") ? T{1} : static_cast<T>(E);
  aux.loss = scale * run.sum(by_token) / static_cast<T>(rows);
  return aux;
}

// The same choice by a gate that is bf16 throughout.
template <class T>
void bf16_answer(Run<T>& run, const Routing<T>& wide, const RouterRule& rule) {
  const auto bf16 = [](T x) { return static_cast<T>(round_to(Dtype::BF16, x)); };
  const std::int64_t rows = wide.logits.rows(), E = wide.logits.width();
  Array<T> ids({rows, rule.k}), weights({rows, rule.k}), scores({rows, E});
  const std::string name = "params/gate.e_score_correction_bias";
  for (std::int64_t t = 0; t < rows; ++t) {
    std::vector<float> biased;
    for (std::int64_t e = 0; e < E; ++e) {
      const T z = bf16(wide.logits[t * E + e]);
      scores[t * E + e] = bf16(1 / (1 + std::exp(-z)));
      biased.push_back(static_cast<float>(scores[t * E + e]));
      if (run.has(name)) biased.back() += static_cast<float>(run.in(name)[e]);
    }
    const Choice choice = largest<float>(biased, rule.k, rule.torch_ties);
    T total = 0;
    for (std::int64_t j = 0; j < rule.k; ++j) {
      const std::int64_t e = choice.ids[static_cast<std::size_t>(j)];
      ids[t * rule.k + j] = static_cast<T>(e);
      total += weights[t * rule.k + j] = scores[t * E + e];
    }
    if (rule.renorm)
      for (T& w : weights.row(t)) w = bf16(w / bf16(total + static_cast<T>(rule.eps)));
    for (T& w : weights.row(t)) w = bf16(w * static_cast<T>(rule.scale));
  }
  run.put("bf16/ids", std::move(ids));
  run.put("bf16/scores", std::move(scores));
  run.put("bf16/weights", std::move(weights));
}

template <class T>
void in_source_order(Run<T>& run, const Routing<T>& r) {
  const std::vector<std::int64_t> slots = slots_in_order(r, run.ids("order"));
  Array<T> ids = r.weights, weights = r.weights;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto slot = static_cast<std::size_t>(slots[i]);
    ids.data[i] = slots[i] < 0 ? T{-1} : static_cast<T>(r.ids[slot]);
    weights.data[i] = slots[i] < 0 ? T{0} : r.weights.data[slot];
  }
  run.put("source/ids", std::move(ids));
  run.put("source/weights", std::move(weights));
}

template <class T>
void formulas(Run<T>& run) {
  const auto [rows, D, E, K] = extents(run.problem());
  const RouterRule rule = router_rule(run.problem());
  const Array<T>& x = run.in("x");
  const Routing<T> r = route(run, x, "gate", rule);
  Array<T> dense({rows, E});
  for (std::int64_t i = 0; i < r.weights.count(); ++i)
    dense[i / K * E + r.ids[static_cast<std::size_t>(i)]] = r.weights[i];
  run.put("ids", as_array<T>(r.ids, {rows, K}));
  run.put("weights", r.weights);
  run.put("weights_by_expert", std::move(dense));
  Array<T> load = as_array<T>(r.load, {E});
  if (run.fault("A-MR06"))
    for (T& count : load.data) count *= 2;
  run.put("tokens_per_expert", std::move(load));
  run.put("margin", r.margin);
  run.put("tap/logits", r.logits);
  run.put("tap/scores", r.scores);
  if (run.options().flag("gate_bf16")) bf16_answer(run, r, rule);
  if (run.options().flag("order")) in_source_order(run, r);
  Auxiliary<T> aux;
  if (run.options().flag("aux")) {
    aux = auxiliary(run, r, run.in("cotangents/aux_loss")[0]);
    Array<T> loss(std::vector<std::int64_t>{});
    loss[0] = aux.loss;
    run.put("aux_loss", std::move(loss));
  }
  if (!run.wants_gradients()) return;
  const Array<T>& g = run.in("cotangents/weights_by_expert");
  Array<T> d_weights = r.weights;
  for (std::int64_t i = 0; i < d_weights.count(); ++i)
    d_weights[i] = g[i / K * E + r.ids[static_cast<std::size_t>(i)]];
  const RouterGradients<T> d = route_backward(run, x, r, d_weights, "gate", rule, aux.d_logits);
  run.grad("inputs/x", d.x);
  run.grad("tap/logits", d.logits);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

// Where the f32 noise of a logit or of its score reaches across a rounding to bf16, either
// neighbour is right, and what the token chooses by it.
void leave_bf16_open(Expected& expected, const Case& c, const Tensors& tensors) {
  constexpr double u = 0x1p-24;
  Run<double> run(c, tensors, false);
  const Array<double>&x = run.in("x"), &w = run.param("gate.weight");
  const std::int64_t E = w.rows();
  const Routing<double> r = route(run, x, "gate", router_rule(c));
  const auto parted = [](double value, double reach) {
    return round_to(Dtype::BF16, value - reach) != round_to(Dtype::BF16, value + reach);
  };
  std::vector<std::uint8_t> scores(static_cast<std::size_t>(x.rows() * E)),
      tokens(static_cast<std::size_t>(x.rows()));
  for (std::int64_t i = 0; i < x.rows() * E; ++i) {
    const double z = r.logits[i];
    const double s = 1 / (1 + std::exp(-round_to(Dtype::BF16, z)));
    if (!parted(z, logit_noise(x.row(i / E), w.row(i % E), z, u)) && !parted(s, 4 * u * s))
      continue;
    scores[static_cast<std::size_t>(i)] = 1;
    tokens[static_cast<std::size_t>(i / E)] = 1;
  }
  for (ExpectedTensor& tensor : expected.tensors) {
    if (tensor.spec.name == "bf16/scores") tensor.ignore = scores;
    if (tensor.spec.name != "bf16/ids" && tensor.spec.name != "bf16/weights") continue;
    tensor.ignore.resize(tensor.value.size());
    for (std::size_t i = 0; i < tensor.value.size(); ++i)
      tensor.ignore[i] = tokens[i / static_cast<std::size_t>(c.sizes["K"])];
  }
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Expected expected = expected_of(outputs(c), kFormulas, c, tensors, gradients);
  leave_open(expected, open_tokens(c, tensors, "gate", router_rule(c)),
             {"tap/logits", "tap/scores", "margin", "bf16/ids", "bf16/scores", "bf16/weights"});
  if (c.options.flag("gate_bf16")) leave_bf16_open(expected, c, tensors);
  return expected;
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

ImportedCase import_case(const StoredCase& stored) { return import_router(stored); }

const Register op{OpDef{
    .name = "router",
    .what = "the k best experts of each token by score + bias, and weights by score alone",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi K3 (arXiv 2607.24653)", "DeepSeek-V3 (arXiv 2412.19437)",
                "torchtitan models.common.moe TokenChoiceTopKRouter"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = router_refusal,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"A-MR08", "", "weights are gathered from the scores with the bias"},
               {"A-MR06", "", "loads of a warm-up pass stay in the counters"},
               {"P-router-no-bias", "", "the correction bias is ignored"},
               {"P-router-bias-bf16", "", "the correction bias is kept in bf16"},
               {"P-router-gate-bf16", "", "logits are rounded to bf16"},
               {"P-router-no-renorm", "", "weights are not renormalised"},
               {"P-router-k1", "", "at k = 1 weights are not renormalised where they should be"},
               {"P-router-eps", "", "renormalised with 1e-2 in place of 1e-20"},
               {"P-router-no-scale", "", "the routed scale is left out"},
               {"P-router-scale-twice", "", "the routed scale is applied twice"},
               {"P-router-no-groups", "", "all groups stay"},
               {"P-router-groups-zero", "", "groups that go are filled with 0, not -inf"},
               {"P-router-group-max", "",
                "a group's score is its best, not the sum of its two best"},
               {"P-router-max-zero", "", "maxima start at 0, which negative scores never pass"},
               {"P-router-next", "", "the best expert is skipped: choices 2 to k + 1"},
               {"P-router-renorm-path", "", "gradient of the renormalising sum is dropped"},
               {"P-router-slope", "", "slope of the sigmoid without 1 - s"},
               {"P-router-chosen-only", "", "softmax backward without its sum over experts"},
               {"P-aux-no-experts", "", "auxiliary loss without its factor E"},
               {.id = "A-CM01",
                .what = "gate gradient not summed over tensor-parallel ranks",
                .unsupported = "needs ranks"},
               {.id = "A-RC06",
                .what = "recompute picks other experts than the first forward",
                .unsupported = "needs activation checkpointing, which an op alone has not"}},
}};

const Register bound{BoundDef{.op = "router", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
