// decoder and attn_res_stack: references/blocks/decoder.hpp with an embedding, a loss and steps of
// AdamW (references/decoder/problem.hpp).
#include <cmath>
#include <optional>

#include "harness/failure.hpp"
#include "references/blocks/adamw.hpp"
#include "references/blocks/layers.hpp"
#include "references/blocks/mla_parts.hpp"
#include "references/blocks/scatter.hpp"
#include "references/decoder/isolated.hpp"
#include "references/decoder/problem.hpp"
#include "references/decoder/taps.hpp"
#include "references/vision_tower/layout.hpp"

namespace parity::net {
namespace {

AdamW optimizer(const Options& o) {
  const AdamW usual;
  return {o.real("lr", usual.lr), o.real("beta1", usual.beta1), o.real("beta2", usual.beta2),
          o.real("adam_eps", usual.eps), o.real("decay", usual.decay)};
}

constexpr std::int64_t kIgnored = -100;

// What follows each token in its row; nothing follows the last.
std::vector<std::int64_t> shifted_by_one(const Case& c, const std::vector<std::int64_t>& tokens) {
  const std::int64_t T = c.sizes["T"];
  std::vector<std::int64_t> labels(tokens.size(), kIgnored);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (static_cast<std::int64_t>(i) % T + 1 < T) labels[i] = tokens[i + 1];
  return labels;
}

// The next tokens but images, of which nothing is to be said.
std::vector<std::int64_t> next_words(const Case& c, const std::vector<std::int64_t>& tokens) {
  std::vector<std::int64_t> labels = shifted_by_one(c, tokens);
  std::ranges::replace(labels, c.options.integer("image_id", 7), kIgnored);
  return labels;
}

// Puts the mean cross entropy over labels that are not ignored; its gradient.
template <class T>
Array<T> loss_of(Run<T>& run, const Array<T>& logits, const std::vector<std::int64_t>& labels,
                 const std::string& at) {
  CrossEntropy<T> loss = cross_entropy(run, logits, labels);
  if (run.fault("P-loss-padding")) {
    const auto valid = std::ssize(labels) - std::ranges::count(labels, kIgnored);
    const T share = static_cast<T>(valid) / static_cast<T>(labels.size());
    loss.loss *= share;
    for (T& x : loss.d_logits.data) x *= share;
  }
  Array<T> scalar(std::vector<std::int64_t>{});
  scalar[0] = loss.loss;
  run.put(at + "loss", std::move(scalar));
  return std::move(loss.d_logits);
}

// Features of the images, once for all forwards that read them; d collects the gradients of their
// readers.
template <class T>
struct Images {
  vision::Problem problem;
  Array<T> pixels;
  VisionState<T> state;
  Array<T> d;
};

template <class T>
Images<T> images_of(Run<T>& run) {
  Images<T> images{vision::problem_of(vision_case(run.problem())), {}, {}, {}};
  images.pixels = vision::flattened(images.problem, run.in("pixels"), false);
  images.state = vision_tower(run, images.pixels, images.problem.tower);
  images.d = Array<T>(images.state.y.shape);
  return images;
}

template <class T>
void images_backward(Run<T>& run, const Images<T>& images) {
  const VisionGradients<T> d =
      vision_tower_backward(run, images.pixels, images.state, images.d, images.problem.tower);
  run.grad("inputs/pixels", vision::laid_out(images.problem, d.pixels, false));
}

// One pass over some tokens, with the images' features in their places where there are images.
template <class T>
struct Pass {
  Case problem;
  std::vector<std::int64_t> tokens;
  ScatterPlan plan;  // empty without images
  Decoder config;
  Array<T> embeddings;
  DecoderForward<T> f;
};

template <class T>
Pass<T> forward(Run<T>& run, const Case& problem, const std::string& tokens,
                const Images<T>* images) {
  Pass<T> pass{problem, run.ids(tokens), {}, decoder_config(problem), {}, {}};
  if (run.fault("P-router-renorm-top1")) pass.config.moe.rule.renorm = true;
  pass.embeddings = embedding(run, pass.tokens, "model.embed_tokens.weight");
  if (images) {
    pass.plan = scatter_runs({.rows = pass.config.batch,
                              .length = pass.config.tokens,
                              .ids = pass.tokens,
                              .image = problem.options.integer("image_id", 7)},
                             images->problem.tower.merged_by_item());
    if (!pass.plan.refused.empty()) throw UsageError(pass.plan.refused);
    pass.embeddings = scatter(pass.plan, pass.embeddings, images->state.y);
  }
  pass.f = decoder(run, pass.embeddings, pass.config, turns_of(run, pass.config));
  return pass;
}

template <class T>
void backward(Run<T>& run, const Pass<T>& pass, const Array<T>& d_logits, Images<T>* images,
              bool taps, const std::string& at) {
  const DecoderGradients<T> g = decoder_backward(run, pass.f, d_logits, pass.config);
  Array<T> d_text = g.embeddings;
  if (images) {
    ScatterGradients<T> d =
        scatter_backward(pass.plan, g.embeddings, std::ssize(pass.tokens), images->state.y.rows());
    d_text = std::move(d.text);
    add(images->d, d.features);
  }
  embedding_backward(run, pass.tokens, d_text, "model.embed_tokens.weight");
  if (taps) put_tap_gradients(run, pass.f, g, at);
  if (taps && images) {
    run.grad(at + "tap/embeds", g.embeddings);
    run.grad(at + "tap/vision", vision::laid_out(images->problem, images->d, true));
  }
  settle_empty(run, pass.f);
}

// The parity model: vision alone, text alone, and both.
template <class T>
void three_passes(Run<T>& run) {
  const Case& c = run.problem();
  Images<T> images = images_of(run);
  const Pass<T> text = forward<T>(run, with_tokens(c, c.sizes["S"]), "text_tokens", nullptr);
  const Pass<T> both = forward<T>(run, c, "mm_tokens", &images);
  const bool taps = c.options.flag("taps");
  run.put("text", text.f.logits);
  run.put("multimodal", both.f.logits);
  run.put("vision", vision::laid_out(images.problem, images.state.y, true));
  if (taps) {
    put_taps(run, text.f, "text_pass/");
    put_taps(run, both.f, "multimodal_pass/");
    run.put("multimodal_pass/tap/embeds", both.embeddings);
    run.put("multimodal_pass/tap/vision", vision::laid_out(images.problem, images.state.y, true));
  }
  Array<T> d_logits;
  if (c.options.flag("loss"))
    d_logits = loss_of(run, both.f.logits, next_words(c, both.tokens), "");
  if (!run.wants_gradients()) return;
  if (!c.options.flag("loss")) d_logits = run.in("cotangents/multimodal");
  images.d = vision::flattened(images.problem, run.in("cotangents/vision"), true);
  backward<T>(run, text, run.in("cotangents/text").as(text.f.logits.shape), nullptr, taps,
              "text_pass/");
  backward<T>(run, both, d_logits.as(both.f.logits.shape), &images, taps, "multimodal_pass/");
  images_backward(run, images);
}

// Balancing by the sign rule before a step: the bias moves by c sign(mean load - load), less the
// mean of those moves (k3.md §3.6).
template <class T>
void balance(Run<T>& run, const DecoderForward<T>& f, const std::string& at) {
  const T c = static_cast<T>(run.options().real("balance", 0));
  if (c == 0) return;
  for (std::size_t l = 0; l < f.layers.size(); ++l) {
    const std::vector<std::int64_t>& load = f.layers[l].moe.routing.load;
    if (load.empty()) continue;
    const std::string number = std::to_string(l),
                      name = "params/" + Decoder::layer(static_cast<std::int64_t>(l)) +
                             "block_sparse_moe.gate.e_score_correction_bias";
    T total = 0, moved = 0;
    for (const std::int64_t n : load) total += static_cast<T>(n);
    const T mean = total / static_cast<T>(load.size());
    std::vector<T> delta;
    for (const std::int64_t n : load) {
      const T gap = mean - static_cast<T>(n);
      delta.push_back(gap > 0 ? c : gap < 0 ? -c : T{0});
      moved += delta.back();
    }
    Array<T> bias = run.in(name);
    for (std::size_t e = 0; e < load.size(); ++e)
      bias.data[e] += delta[e] - moved / static_cast<T>(load.size());
    run.put(at + "tokens_per_expert/" + number, numbers<T>(load, {std::ssize(load)}));
    run.put(at + "expert_bias_after/" + number, bias);
    run.replace(name, std::move(bias));
  }
}

template <class T>
using States = std::map<std::string, Moments<T>>;

// Steps every parameter that has a gradient, and files the gradients under the step.
template <class T>
void optimize(Run<T>& run, States<T>& states, int step, const std::string& at, bool last) {
  const AdamW adam = optimizer(run.options());
  std::vector<T> squares;
  auto& results = run.results();
  for (const TensorSpec& p : decoder_parameters(run.problem())) {
    const std::string name = p.name.substr(7);
    if (const auto it = results.find("grads/" + p.name); it != results.end()) {
      for (const T g : it->second.data) squares.push_back(g * g);
      Array<T> value = run.in(p.name);
      adamw_step(value, it->second, states[name], step, adam);
      run.replace(p.name, std::move(value));
      Array<T> gradient = std::move(it->second);
      results.erase(it);
      results.insert_or_assign("grads/" + at + p.name, std::move(gradient));
    }
    run.put(at + "params_after/" + name, run.in(p.name));
    if (!last || !states.contains(name)) continue;
    run.put("adam/exp_avg/" + name, states[name].first);
    run.put("adam/exp_avg_sq/" + name, states[name].second);
  }
  Array<T> norm(std::vector<std::int64_t>{});
  norm[0] = std::sqrt(run.sum(squares));
  run.put(at + "grad_norm", std::move(norm));
}

template <class T>
void formulas(Run<T>& run) {
  const Case& c = run.problem();
  if (c.options.flag("three")) return three_passes(run);
  if (c.options.flag("isolated")) return isolated(run);
  const auto steps = static_cast<int>(c.options.integer("steps", 0));
  States<T> states;
  for (int step = 1; step <= std::max(steps, 1); ++step) {
    const std::string at = steps > 0 ? "step" + std::to_string(step) + "/" : "";
    const bool taps = c.options.flag("taps") && step == 1;
    std::optional<Images<T>> images;
    if (has_images(c)) images = images_of(run);
    Images<T>* const seen = images ? &*images : nullptr;
    const Pass<T> pass = forward<T>(run, c, "tokens", seen);
    run.put(at + "logits", pass.f.logits);
    if (taps) put_taps(run, pass.f, at);
    if (taps && seen) {
      run.put(at + "tap/embeds", pass.embeddings);
      run.put(at + "tap/vision", vision::laid_out(seen->problem, seen->state.y, true));
    }
    Array<T> d_logits;
    if (c.options.flag("loss")) {
      const std::vector<std::int64_t> given = run.ids("labels");
      d_logits = loss_of(run, pass.f.logits,
                         c.options.flag("shift") ? shifted_by_one(c, given) : given, at);
    } else if (run.wants_gradients()) {
      d_logits = run.in("cotangents/logits").as(pass.f.logits.shape);
    }
    if (!run.wants_gradients() && steps == 0) return;
    backward<T>(run, pass, d_logits, seen, taps, at);
    if (seen) images_backward(run, *seen);
    if (steps == 0) return;
    balance(run, pass.f, at);
    optimize(run, states, step, at, step == steps);
  }
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(decoder_outputs(c), kFormulas, c, tensors, gradients);
}
Evaluation base(const BaseRequest& r) {
  return evaluation_of(decoder_outputs(r.problem), kFormulas, r);
}

OpDef op(std::string_view name, std::string_view what) {
  return {.name = name,
          .what = what,
          .kind = OpKind::Composite,
          .directions = {Direction::Forward, Direction::Backward},
          .sources = {"Kimi K3 (arXiv 2607.24653)", "torchtitan models.kimi_k3",
                      "transformers models.kimi_linear, deepseek_v3"},
          .inputs = decoder_inputs,
          .outputs = decoder_outputs,
          .derive = decoder_derive,
          .complete = decoder_complete,
          .refuses = decoder_refuses,
          .reference = reference,
          .base = base,
          .contract = composite_contract,
          .import = decoder_import,
          .faults = decoder_faults(name == "decoder")};
}

const Register whole{
    op("decoder", "tokens -> attention and feed-forward layers -> logits, loss, AdamW steps")};
const Register stack{
    op("attn_res_stack", "a decoder of MLA and dense layers on attention residuals")};
const Register whole_bound{BoundDef{.op = "decoder", .bound = composite_bound}};
const Register stack_bound{BoundDef{.op = "attn_res_stack", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
