// vision_scatter: plan, copy, and the gradients of what was copied.
#include <algorithm>
#include <fmt/format.h>

#include "references/blocks/grids.hpp"
#include "references/blocks/scatter.hpp"
#include "references/vision_scatter/problem.hpp"

namespace parity::net::vision {
namespace {

template <class T>
ScatterPlan plan_of(Run<T>& run, const ScatterProblem& p) {
  const TokenRows tokens{.rows = p.B, .length = p.T, .ids = run.ids("tokens"), .image = p.image};
  if (!p.merge) return scatter_runs(tokens, p.counts);
  return scatter_merged(
      tokens, p.counts,
      {.mask = run.ids("attention_mask"),
       .labels = run.ids("labels"),
       .padding = p.padding,
       .released_right_padding = p.rightpad_bug || run.fault("P-scatter-right-padding")});
}

// Mistakes in the plan.
template <class T>
void damage(const Run<T>& run, const ScatterProblem& p, ScatterPlan& plan) {
  std::vector<Slot>& slots = plan.slots;
  const auto feature = [&](std::size_t i) { return slots[i].of == Slot::Of::Feature; };
  const std::vector<Slot> kept = slots;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool first = feature(i) && (i == 0 || kept[i - 1].of != Slot::Of::Feature);
    const bool last = feature(i) && (i + 1 == slots.size() || kept[i + 1].of != Slot::Of::Feature);
    if (!feature(i)) continue;
    if (run.fault("P-scatter-duplicates") && !first) slots[i] = slots[i - 1];
    if (run.fault("P-scatter-off-by-one"))
      slots[i].index = std::max<std::int64_t>(kept[i].index - 1, 0);
    if (run.fault("P-scatter-other-item")) slots[i].index = p.features() - 1 - kept[i].index;
    const Slot untouched = p.merge ? Slot{} : Slot{Slot::Of::Text, static_cast<std::int64_t>(i)};
    if (run.fault("P-scatter-truncated") && last) slots[i] = untouched;
    if (run.fault("P-scatter-text-only")) slots[i] = untouched;
  }
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < plan.mask.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i) % plan.length;
    if (run.fault("P-scatter-mask") && feature(i)) plan.mask[i] = 0;
    if (run.fault("P-scatter-labels") && feature(i)) plan.labels[i] = p.image;
    if (run.fault("P-scatter-positions")) plan.positions[i] = at;
    if (run.fault("P-scatter-positions-run-on")) plan.positions[i] = plan.mask[i] ? seen++ : 1;
  }
  if (run.fault("P-scatter-run-start"))
    for (ImageRun& image : plan.runs) image.start += image.sample * plan.length;
}

std::string feature_name(std::size_t i) { return fmt::format("feature{}", i); }

// Features of all images, one after another.
template <class T>
Array<T> features_of(Run<T>& run, const ScatterProblem& p) {
  if (!p.merge && !p.counts.empty()) return unpad_items(run.in("features"), p.counts);
  Array<T> all({0, p.D});
  for (std::size_t i = 0; i < p.counts.size(); ++i) {
    const Array<T>& own = run.in(feature_name(i));
    all.data.insert(all.data.end(), own.data.begin(), own.data.end());
  }
  all.shape[0] = p.features();
  return all;
}

template <class T>
void put_feature_gradients(Run<T>& run, const ScatterProblem& p, const Array<T>& d) {
  if (p.counts.empty()) return;
  if (!p.merge) return run.grad("inputs/features", pad_items(d, p.counts, T{0}));
  auto from = d.data.begin();
  for (std::size_t i = 0; i < p.counts.size(); ++i) {
    Array<T> own({p.counts[i], p.D});
    std::copy_n(from, own.count(), own.data.begin());
    from += own.count();
    run.grad("inputs/" + feature_name(i), own);
  }
}

// Rows of the table take the sum over the tokens that show them.
template <class T>
void put_table_gradient(Run<T>& run, const ScatterProblem& p, const std::vector<std::int64_t>& ids,
                        const Array<T>& d_text) {
  Array<T> d({p.V, p.D});
  std::vector<T> terms;
  for (std::int64_t id = 0; id < p.V; ++id)
    for (std::int64_t i = 0; i < p.D; ++i) {
      terms.clear();
      for (std::size_t t = 0; t < ids.size(); ++t)
        if (ids[t] == id) terms.push_back(d_text[static_cast<std::int64_t>(t) * p.D + i]);
      d[id * p.D + i] = run.sum(terms);
    }
  run.store(d);
  run.grad("inputs/embedding", d);
}

template <class T>
Array<T> integers(const std::vector<std::int64_t>& values) {
  Array<T> x({static_cast<std::int64_t>(values.size())});
  std::ranges::transform(values, x.data.begin(), [](auto v) { return static_cast<T>(v); });
  return x;
}

template <class T>
void formulas(Run<T>& run) {
  const ScatterProblem p = scatter_problem_of(run.problem());
  ScatterPlan plan = plan_of(run, p);
  damage(run, p, plan);
  const std::vector<std::int64_t> tokens = run.ids("tokens");
  Array<T> text({p.B * p.T, p.D});
  for (std::size_t t = 0; t < tokens.size(); ++t)
    std::ranges::copy(run.in("embedding").row(tokens[t]),
                      text.row(static_cast<std::int64_t>(t)).begin());
  const Array<T> features = features_of(run, p);
  Array<T> y = scatter(plan, text, features);
  if (run.fault("P-scatter-into-table"))  // all show what was written last
    for (std::int64_t i = 0; i < y.rows(); ++i)
      if (plan.slots[static_cast<std::size_t>(i)].of == Slot::Of::Feature)
        std::ranges::copy(features.row(p.features() - 1), y.row(i).begin());
  run.put("y", std::move(y));
  run.put("attention_mask", integers<T>(plan.mask));
  run.put("position_ids", integers<T>(plan.positions));
  run.put("labels", integers<T>(plan.labels));
  std::vector<std::int64_t> positions;
  for (const ImageRun& image : plan.runs)
    for (const std::int64_t x : {image.item, image.sample, image.start, image.count})
      positions.push_back(x);
  run.put("positions", integers<T>(positions));
  if (!run.wants_gradients()) return;
  const Array<T>& dy = run.in("cotangents/y");
  ScatterGradients<T> d =
      scatter_backward(plan, dy.as({plan.rows * plan.length, p.D}), p.B * p.T, p.features());
  if (run.fault("P-scatter-detached")) std::ranges::fill(d.features.data, T{0});
  if (run.fault("P-scatter-placeholder-gradient") && !p.merge)
    for (std::int64_t i = 0; i < dy.rows(); ++i)
      if (plan.slots[static_cast<std::size_t>(i)].of == Slot::Of::Feature)
        std::ranges::copy(dy.row(i), d.text.row(i).begin());
  put_feature_gradients(run, p, d.features);
  put_table_gradient(run, p, tokens, d.text);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Run<double> run(c, tensors, false);
  if (std::string why = plan_of(run, scatter_problem_of(c)).refused; !why.empty())
    return {.refused = std::move(why)};
  return expected_of(scatter_outputs(c), kFormulas, c, tensors, gradients);
}

Evaluation base(const BaseRequest& r) {
  return evaluation_of(scatter_outputs(r.problem), kFormulas, r);
}

Bound bound(const Case& c, const Contract& contract, const TensorSpec& spec) {
  if (spec.name == "grads/inputs/embedding") return composite_bound(c, contract, spec);
  return {.kind = BoundKind::Exact,
          .why = "every element is a copy of one that is stored, or zero"};
}

const Register op{OpDef{
    .name = "vision_scatter",
    .what = "features of images at the places of their placeholders",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"torchtitan models.common.multimodal", "Kimi K3, released modelling code"},
    .inputs = scatter_inputs,
    .outputs = scatter_outputs,
    .derive = scatter_derive,
    .refuses = scatter_refuses,
    .reference = reference,
    .base = base,
    .contract = composite_contract,
    .import = scatter_import,
    .faults = {{"P-scatter-duplicates", "", "every slot of an image shows its first feature"},
               {"P-scatter-off-by-one", "", "features one row early"},
               {"P-scatter-other-item", "", "features of another image"},
               {"P-scatter-truncated", "", "the last slot of a run is left out"},
               {"P-scatter-text-only", "", "features never reach the text"},
               {"P-scatter-into-table", "", "written in place through the placeholder's own row"},
               {"P-scatter-detached", "", "an in-place copy cuts features off the backward"},
               {"P-scatter-placeholder-gradient", "",
                "the placeholder's row takes the slots' gradient"},
               {"P-scatter-right-padding", "", "rows padded on the right as if on the left"},
               {"P-scatter-mask", "", "slots of images left out of the attention mask"},
               {"P-scatter-labels", "", "slots of images keep the placeholder as a label"},
               {"P-scatter-positions", "", "position ids count padding"},
               {"P-scatter-positions-run-on", "", "position ids do not start again in a row"},
               {"P-scatter-run-start", "", "starts of runs counted over all rows"},
               {.id = "P-scatter-collision",
                .what = "a token of text has the placeholder's id",
                .unsupported = "the op refuses what does not fit, and takes what does"},
               {.id = "P-scatter-shard",
                .what = "a run cut by the boundary of a context-parallel shard",
                .unsupported = "needs ranks"}},
}};

const Register bounds{BoundDef{.op = "vision_scatter", .bound = bound}};

}  // namespace
}  // namespace parity::net::vision
