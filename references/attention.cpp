// attention: the core of softmax attention, o = softmax(scale q k^T) v, with its log sum exp.
//   in   q [B,T,H,D], k [B,S,G,D], v [B,S,G,V], cotangents/o        (S = T, G = H, V = D if absent)
//   out  o [B,T,H,V], lse [B,H,T] (option lse=0: none)
// Query heads h share key head floor(h G/H). T3+1+7 packs documents, S then too where it is given.
//   option causal=0   every key of the document; else a query sees the keys up to its own, counted
//                     from the end (flash-attention 2.1), or with align=top from the beginning
//   option scale      D^-1/2
// A query without a key gives 0 and lse -inf.
#include "references/blocks/attention.hpp"

#include <map>

#include "harness/failure.hpp"
#include "references/attention_case.hpp"
#include "references/attention_import.hpp"
#include "references/attention_scale.hpp"
#include "references/blocks/parts.hpp"

namespace parity::net {
namespace {

std::vector<TensorSpec> inputs(const Case& c) {
  const AttentionExtents e = attention_extents(c);
  const auto spec = [&](const char* name, std::int64_t tokens, const char* axis, Dim heads,
                        Dim width, Role role = Role::Input) {
    return TensorSpec{.name = name,
                      .role = role,
                      .dtype = c.dtype,
                      .dims = {{"B", e.B}, {axis, tokens}, std::move(heads), std::move(width)}};
  };
  return {spec("q", e.T, "T", {"H", e.H}, {"D", e.D}), spec("k", e.S, "S", {"G", e.G}, {"D", e.D}),
          spec("v", e.S, "S", {"G", e.G}, {"V", e.V}),
          spec("cotangents/o", e.T, "T", {"H", e.H}, {"V", e.V}, Role::Cotangent)};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const AttentionExtents e = attention_extents(c);
  const std::vector<TensorSpec> in = inputs(c);
  std::vector<TensorSpec> specs = {
      {.name = "o", .role = Role::Output, .dtype = c.dtype, .dims = in.back().dims}};
  if (c.options.integer("lse", 1) != 0)
    specs.push_back({.name = "lse",
                     .role = Role::Output,
                     .dtype = c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32,
                     .dims = {{"B", e.B}, {"H", e.H}, {"T", e.T}}});
  for (std::size_t i = 0; i < 3; ++i)
    specs.push_back({.name = "grads/inputs/" + in[i].name,
                     .role = Role::Gradient,
                     .dtype = c.dtype,
                     .dims = in[i].dims});
  return specs;
}

// Keys of every query of one row of the batch.
std::vector<Keys> keys_of(const Case& c, const AttentionExtents& e, bool other_alignment) {
  const bool causal = c.options.integer("causal", 1) != 0;
  const bool top = (c.options.get("align", "") == "top") != other_alignment;
  std::vector<Keys> keys;
  for (const AttentionDocument& d : e.documents)
    for (std::int64_t t = 0; t < d.queries; ++t) {
      const std::int64_t seen = causal ? t + 1 + (top ? 0 : d.keys - d.queries) : d.keys;
      keys.push_back({d.first_key, d.first_key + std::clamp<std::int64_t>(seen, 0, d.keys)});
    }
  return keys;
}

// One row of the batch.
template <class T>
struct Row {
  Array<T> q, k, v, d_o;
  Attended<T> a;
};

template <class T>
double scale_of(const Run<T>& run, const AttentionExtents& e) {
  const double scale = attention_scale(run.problem());
  if (!run.fault("P-at-scale")) return scale;
  return scale * std::sqrt(static_cast<double>(e.D) / static_cast<double>(e.V));
}

template <class T>
Row<T> attend(Run<T>& run, const AttentionExtents& e, std::int64_t b) {
  const auto part = [&](const char* name, std::int64_t tokens, std::int64_t heads,
                        std::int64_t width) {
    return rows_of(run.in(name), b, 1).as({tokens, heads, width});
  };
  Row<T> row{part("q", e.T, e.H, e.D),
             part("k", e.S, e.G, e.D),
             part("v", e.S, e.G, e.V),
             part("cotangents/o", e.T, e.H, e.V),
             {}};
  row.a = attention(run, row.q, row.k, row.v, scale_of(run, e),
                    keys_of(run.problem(), e, run.fault("P-at-align")));
  return row;
}

// [T,H] of one row of the batch to [B,H,T].
template <class T>
void put_lse(Array<T>& lse, std::int64_t b, const Array<T>& row) {
  const std::int64_t H = row.shape[1];
  for (std::int64_t i = 0; i < row.count(); ++i)
    lse[(b * H + i % H) * row.shape[0] + i / H] = row[i];
}

template <class T>
void formulas(Run<T>& run) {
  const Case& c = run.problem();
  const AttentionExtents e = attention_extents(c);
  Array<T> o({e.B, e.T, e.H, e.V}), lse({e.B, e.H, e.T});
  Array<T> dq(run.in("q").shape), dk(run.in("k").shape), dv(run.in("v").shape);
  for (std::int64_t b = 0; b < e.B; ++b) {
    const Row<T> row = attend(run, e, b);
    put_rows(o, b, row.a.o);
    put_lse(lse, b, row.a.lse);
    if (!run.wants_gradients()) continue;
    const AttentionGradients<T> d =
        attention_backward(run, row.q, row.k, row.v, row.a, row.d_o, scale_of(run, e),
                           keys_of(c, e, run.fault("P-at-align")));
    put_rows(dq, b, d.q);
    put_rows(dk, b, d.k);
    put_rows(dv, b, d.v);
  }
  run.put("o", std::move(o));
  run.put("lse", std::move(lse));
  if (!run.wants_gradients()) return;
  run.grad("inputs/q", dq);
  run.grad("inputs/k", dk);
  run.grad("inputs/v", dv);
}

// The companions, in the shapes of the results.
std::map<std::string, Array<double>> scales(const Case& c, const Tensors& tensors) {
  Run<double> run(c, tensors, true);
  const AttentionExtents e = attention_extents(c);
  Array<double> o({e.B, e.T, e.H, e.V}), lse({e.B, e.H, e.T});
  Array<double> dq(run.in("q").shape), dk(run.in("k").shape), dv(run.in("v").shape);
  for (std::int64_t b = 0; b < e.B; ++b) {
    const Row<double> row = attend(run, e, b);
    const AttentionScales m =
        attention_scales(run, {row.q, row.k, row.v, row.d_o, row.a, scale_of(run, e)});
    put_rows(o, b, m.o);
    put_lse(lse, b, m.lse);
    put_rows(dq, b, m.q);
    put_rows(dk, b, m.k);
    put_rows(dv, b, m.v);
  }
  return {{"o", o},
          {"lse", lse},
          {"grads/inputs/q", dq},
          {"grads/inputs/k", dk},
          {"grads/inputs/v", dv}};
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Expected expected = expected_of(outputs(c), kFormulas, c, tensors, gradients);
  const auto companions = scales(c, tensors);
  for (ExpectedTensor& tensor : expected.tensors)
    tensor.scale = companions.at(tensor.spec.name).data;
  return expected;
}
Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

const Register op{OpDef{
    .name = "attention",
    .what = "o = softmax(scale q k^T) v, causal or full, packed, grouped heads; lse",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Vaswani et al. 2017 (arXiv 1706.03762)", "FlashAttention-2 (arXiv 2307.08691)"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = attention_refuses,
    .reference = reference,
    .base = base,
    .contract = composite_contract,
    .import = import_attention,
    .faults = {{"A-AT01", "", "backward lets keys past a ragged end into the weights"},
               {"A-AT02", "", "delta subtracted once for every slice of the value dim"},
               {"A-AT03", "", "log sum exp of the first block of queries in all blocks"},
               {"A-AT08", "", "a tile of keys that straddles the boundary is not masked"},
               {"P-at-scale", "", "logits scaled by the value dim"},
               {"P-at-mask", "", "the mask is off by one"},
               {"P-at-align", "", "the causal mask is aligned to the other corner"},
               {"P-at-documents", "", "documents see their predecessors"},
               {"P-at-max", "", "softmax without its maximum"},
               {"P-at-kv-head", "", "grouped heads read key head h mod G"},
               {"P-at-group-sum", "", "gradients of keys and values from one head of the group"},
               {"P-at-o-rounded", "", "o rounded to bf16 before delta"},
               {"P-at-lse-base", "", "log sum exp in bits"},
               {.id = "A-AT04",
                .what = "sink not exponentiated",
                .unsupported = "the op has no sink"},
               {.id = "A-AT06",
                .what = "fp8 probabilities saturate",
                .unsupported = "no kernel stores probabilities in fp8"}},
}};

}  // namespace
}  // namespace parity::net
