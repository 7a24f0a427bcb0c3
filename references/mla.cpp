// mla: gated multi-head latent attention (references/blocks/mla.hpp), with a cache or without, in
// the plain and in the absorbed form. Sizes and options: mla_case.hpp.
#include "harness/failure.hpp"
#include "references/blocks/mla_parts.hpp"
#include "references/mla_case.hpp"

namespace parity::net {
namespace {

std::vector<Keys> keys_of(const Case& c, const MlaExtents& e,
                          const std::vector<std::int64_t>& allowed) {
  const std::int64_t S = e.P + e.T;
  const std::string mask = c.options.get("mask", "");
  const bool leak = c.options.get("masked", "") == "leak";
  std::vector<Keys> keys;
  for (std::int64_t b = 0; b < e.B; ++b) {
    std::vector<Keys> sequence = causal_keys(e.documents, e.P);
    for (std::int64_t t = 0; t < e.T && !mask.empty(); ++t) {
      Keys row{.first = 0, .last = S};
      if (mask == "given") {
        const auto first = allowed.begin() + (b * e.T + t) * S;
        row.allowed.assign(first, first + S);
        if (std::ranges::count(row.allowed, 0) == S && leak)
          row = {.first = 0, .last = S, .flat = true};
      }
      sequence[static_cast<std::size_t>(t)] = std::move(row);
    }
    keys.insert(keys.end(), sequence.begin(), sequence.end());
  }
  return keys;
}

template <class T>
Turns<T> turns_of_case(Run<T>& run, const MlaExtents& e, const Rope& rope) {
  const std::string kind = run.options().get("rope", "");
  if (kind == "angles") {
    const Array<T>& angles = run.in("rope_angle");  // the same for every sequence
    Array<T> all({e.B * e.T, e.R / 2});
    for (std::int64_t b = 0; b < e.B; ++b) put_rows(all, b * e.T, angles);
    return turns_by(all);
  }
  if (rope.pairs == Rope::Pairs::None) return {};
  std::vector<std::int64_t> positions = run.ids("position_ids");
  if (run.fault("P-mla-positions"))  // counted through the documents
    for (std::size_t i = 0; i < positions.size(); ++i)
      positions[i] = static_cast<std::int64_t>(i) % e.T;
  return turns_at(run, positions, e.R, rope);
}

template <class T>
void put_probabilities(Run<T>& run, const MlaExtents& e, const MlaForward<T>& f) {
  const std::int64_t S = e.P + e.T;
  Array<T> probs({e.B, e.H, e.T, S}), lse({e.B, e.H, e.T});
  for (std::int64_t b = 0; b < e.B; ++b)
    for (std::int64_t h = 0; h < e.H; ++h)
      for (std::int64_t t = 0; t < e.T; ++t) {
        const Attended<T>& a = f.attended[static_cast<std::size_t>(b)];
        const std::int64_t row = (b * e.H + h) * e.T + t;
        std::ranges::copy(a.p.row(t * e.H + h), probs.row(row).begin());
        lse[row] = a.lse[t * e.H + h];
      }
  run.put("tap/probs", std::move(probs));
  run.put("tap/lse", std::move(lse));
}

// cos and sin as transformers lays them out: the pairs' values twice.
template <class T>
void put_turns(Run<T>& run, const MlaExtents& e, const Turns<T>& turns) {
  for (const auto& [name, half] : {std::pair{"tap/cos", &turns.cos}, {"tap/sin", &turns.sin}}) {
    Array<T> twice({e.B * e.T, e.R});
    add_columns(twice, 0, *half);
    add_columns(twice, e.R / 2, *half);
    run.put(name, std::move(twice));
  }
}

template <class T>
using Part = std::pair<const char*, Array<T> MlaForward<T>::*>;
template <class T>
constexpr Part<T> kTaps[] = {{"tap/q_a", &MlaForward<T>::q_a},
                             {"tap/q_latent", &MlaForward<T>::q_latent},
                             {"tap/q", &MlaForward<T>::q},
                             {"tap/kv_a", &MlaForward<T>::kv_a},
                             {"tap/kv_latent", &MlaForward<T>::kv_latent},
                             {"tap/kv", &MlaForward<T>::kv},
                             {"tap/attn_out", &MlaForward<T>::attn_out},
                             {"tap/gate_logit", &MlaForward<T>::gate_logit},
                             {"tap/gated_out", &MlaForward<T>::gated_out}};

template <class T>
void formulas(Run<T>& run) {
  const Case& c = run.problem();
  const MlaExtents e = mla_extents(c);
  const Mla m = mla_config(c);
  const bool given = c.options.get("mask", "") == "given", taps = c.options.flag("taps");
  MlaRows<T> rows{.batch = e.B, .past = e.P};
  rows.keys = keys_of(c, e, given ? run.ids("mask_allowed") : std::vector<std::int64_t>{});
  if (run.fault("P-mla-past"))  // the first new token sees one key
    for (Keys& keys : rows.keys) keys.last = std::max<std::int64_t>(1, keys.last - e.P);
  rows.turns = turns_of_case(run, e, m.rope);
  if (e.P > 0) {
    rows.cached_latent = run.in("cache/kv_latent").as({e.B * e.P, e.C});
    rows.cached_k_r = run.in("cache/k_r").as({e.B * e.P, e.R});
  }
  const Array<T> x = run.in("x").as({e.B * e.T, e.D});
  const MlaForward<T> f = mla(run, x, m, rows);
  run.put("y", f.y);
  if (taps) {
    for (const auto& [name, part] : kTaps<T>)
      if (!(f.*part).shape.empty()) run.put(name, f.*part);
    put_probabilities(run, e, f);
    if (!rows.turns.cos.shape.empty()) put_turns(run, e, rows.turns);
  }
  if (!run.wants_gradients()) return;
  const MlaGradients<T> d =
      mla_backward(run, x, run.in("cotangents/y").as({e.B * e.T, e.D}), f, m, rows);
  run.grad("inputs/x", d.x);
  if (e.P > 0) {
    run.grad("inputs/cache/kv_latent", d.cached_latent);
    run.grad("inputs/cache/k_r", d.cached_k_r);
  }
  if (taps)
    for (const auto& [name, part] : kTaps<T>)
      if (!(d.of.*part).shape.empty()) run.grad(name, d.of.*part);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(mla_outputs(c), kFormulas, c, tensors, gradients);
}
Evaluation base(const BaseRequest& r) {
  return evaluation_of(mla_outputs(r.problem), kFormulas, r);
}

const Register op{OpDef{
    .name = "mla",
    .what =
        "y = (softmax(scale [q_n|q_r].[k_n|k_r]) v sigmoid(x Wg^T)) Wo^T, k_n and v from a latent",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi K3 (arXiv 2607.24653)", "DeepSeek-V2 (arXiv 2405.04434)",
                "torchtitan models.kimi_k3 KimiMLAAttention"},
    .inputs = mla_inputs,
    .outputs = mla_outputs,
    .derive = mla_derive,
    .refuses = mla_refuses,
    .reference = reference,
    .base = base,
    .contract = composite_contract,
    .import = mla_import,
    .faults =
        {{"P-mla-scale", "", "logits scaled by N^-1/2, without the shared channels"},
         {"P-mla-no-kr", "", "the shared key k_r is dropped"},
         {"P-mla-no-gate", "", "the output is not gated"},
         {"P-mla-gate-twice", "", "the gate is 2 sigmoid"},
         {"P-mla-gate-late", "", "the gate multiplies behind o_proj"},
         {"P-mla-gate-input", "", "the gate reads an input that was normed once more"},
         {"P-mla-eps", "", "latent norms with the other eps (1e-5 for 1e-6)"},
         {"P-mla-no-q-norm", "", "the query latent is not normed"},
         {"P-mla-no-kv-norm", "", "the key and value latent is not normed"},
         {"P-mla-kr-normed", "", "k_r is normed too"},
         {"P-mla-kv-order", "", "kv_b_proj read as [v | k_n]"},
         {"P-mla-delta-gated-o", "", "delta pairs do with the gated output"},
         {"P-mla-delta-ungated", "", "delta pairs the cotangent before the gate with o"},
         {"P-mla-dkr-head", "", "gradient of k_r from one head alone"},
         {"P-mla-dkr-mean", "", "gradient of k_r averaged over heads"},
         {"P-mla-no-rope", "", "queries are not turned"},
         {"P-mla-rope-pairs", "", "queries are turned in the other pairs"},
         {"P-mla-positions", "", "positions do not restart with a document, nor count the cache"},
         {"P-mla-past", "", "with a cache the mask is aligned to the first key"},
         {"P-at-mask", "", "the mask is off by one"},
         {"P-at-documents", "", "documents see their predecessors"},
         {"P-at-o-rounded", "", "o rounded to bf16 before delta"},
         {"A-AT03", "", "log sum exp of the first block of queries in all blocks"},
         {"A-AT05", "", "softmax scale from the other YaRN factor"},
         {"A-AT08", "", "a tile of keys that straddles the boundary is not masked"},
         {.id = "A-AT07", .what = "output gate not sliced by rank", .unsupported = "needs ranks"}},
}};

const Register bound{BoundDef{.op = "mla", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
