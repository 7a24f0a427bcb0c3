// vision_tower: the formulas in the case's layout, and the op.
#include <algorithm>
#include <fmt/format.h>

#include "references/vision_tower/import.hpp"
#include "references/vision_tower/layout.hpp"
#include "references/vision_tower/problem.hpp"

namespace parity::net::vision {
namespace {

// [patches,H,patches] -> [H,n,n] of the patches [first, first + n).
template <class T>
Array<T> square(const Array<T>& p_RHS, std::int64_t first, std::int64_t n) {
  const std::int64_t H = p_RHS.shape[1], S = p_RHS.shape[2];
  Array<T> y({H, n, n});
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t h = i / (n * n), r = i / n % n, s = i % n;
    y[i] = p_RHS[((first + r) * H + h) * S + first + s];
  }
  return y;
}

template <class T>
void put_taps(Run<T>& run, const Problem& p, const VisionState<T>& s) {
  const auto put = [&](const std::string& name, const Array<T>& x, bool merged) {
    run.put("tap/" + name, laid_out(p, x, merged));
  };
  put("patch_embed", s.patch_embed, false);
  put("pos", s.positions, false);
  put("embedded", s.blocks.front().in, false);
  put("final_norm", s.final_norm, false);
  put("merged", s.merged, true);
  put("pooled", s.merged, true);
  put("proj1", s.proj0, true);
  put("proj2", s.proj2, true);
  Array<T> angles = laid_out(p, s.cos_sin, false);
  if (p.padded) {  // padding stands at row and column 0
    const std::int64_t each = angles.width();
    for (std::int64_t b = 0; b < p.items; ++b)
      for (std::int64_t n = p.tower.grids[static_cast<std::size_t>(b)].patches();
           n < p.most_patches; ++n)
        for (std::int64_t k = 0; k < each; k += 2) angles[(b * p.most_patches + n) * each + k] = 1;
  }
  run.put("tap/rope_cos_sin", std::move(angles));
  std::size_t softmax = 0;
  for (std::size_t i = 0; i < s.blocks.size(); ++i) {
    const VisionBlockState<T>& b = s.blocks[i];
    const std::string block = fmt::format("block{}.", i);
    put(block + "in", b.in, false);
    put(block + "norm1", b.normed0, false);
    put(block + "attn", b.mixed, false);
    put(block + "out", b.out, false);
    const auto put_square = [&](std::int64_t first, std::int64_t n) {
      run.put("tap/" + probs_name(softmax++), square(b.attended.p, first, n));
    };
    std::int64_t first = 0;
    if (!p.padded) put_square(0, p.patches);
    for (const Grid& g : p.tower.grids) {
      if (p.padded) put_square(first, g.patches());
      first += g.patches();
    }
  }
}

template <class T>
void put_gradients_of_taps(Run<T>& run, const Problem& p, const VisionGradients<T>& d) {
  const auto put = [&](const std::string& name, const Array<T>& x, bool merged) {
    run.grad("tap/" + name, laid_out(p, x, merged));
  };
  put("patch_embed", d.embedded, false);
  put("embedded", d.embedded, false);
  put("final_norm", d.final_norm, false);
  put("merged", d.merged, true);
  put("pooled", d.merged, true);
  put("proj1", d.proj0, true);
  put("proj2", d.proj2, true);
  for (std::size_t i = 0; i < d.block_in.size(); ++i) {
    put(fmt::format("block{}.in", i), d.block_in[i], false);
    put(fmt::format("block{}.attn", i), d.block_mixed[i], false);
    put(fmt::format("block{}.out", i), d.block_out[i], false);
  }
}

// Elements of a patch are [3][P][P]; the fault takes them for [P][P][3].
template <class T>
Array<T> channels_last(const Array<T>& x) {
  const std::int64_t K = x.width(), area = K / 3;
  Array<T> y(x.shape);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t k = i % K;
    y[i] = x[i - k + k % 3 * area + k / 3];
  }
  return y;
}

template <class T>
void formulas(Run<T>& run) {
  const Problem p = problem_of(run.problem());
  Array<T> pixels = flattened(p, run.in("pixels"), false);
  if (run.fault("P-vit-channels-last")) pixels = channels_last(pixels);
  const VisionState<T> s = vision_tower(run, pixels, p.tower);
  run.put("y", laid_out(p, s.y, true));
  if (p.taps) put_taps(run, p, s);
  if (!run.wants_gradients()) return;
  const Array<T> dy = flattened(p, run.in("cotangents/y"), true);
  const VisionGradients<T> d = vision_tower_backward(run, pixels, s, dy, p.tower);
  run.grad("inputs/pixels", laid_out(p, d.pixels, false));
  if (p.taps) put_gradients_of_taps(run, p, d);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), kFormulas, c, tensors, gradients);
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

const Register op{OpDef{
    .name = "vision_tower",
    .what = "y = projector(merge(blocks(pixels W^T + positions)))",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi K3 (arXiv 2607.24653), MoonViT3d", "torchtitan models.kimi_k3 vision encoder",
                "transformers kimi_k25"},
    .inputs = inputs,
    .outputs = outputs,
    .derive = derive,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = composite_contract,
    .import = import_case,
    .faults = {{"P-vit-channels-last", "", "pixels of a patch taken as (p, p, C), not (C, p, p)"},
               {"P-vit-bicubic", "",
                "the table is read bicubic where the configuration says bilinear"},
               {"P-vit-align-corners", "", "the table is read with aligned corners"},
               {"P-vit-frame-zero", "", "a single frame gets the embedding of frame 0"},
               {"P-vit-no-temporal", "", "frames get no embedding"},
               {"P-vit-temporal-cos-first", "", "frames embedded as [cos | sin]"},
               {"P-vit-frozen-table", "", "no gradient reaches the table of positions"},
               {"P-vit-rope-rows-first", "", "even pairs turn by the row, odd ones by the column"},
               {"P-vit-rope-concat", "",
                "columns turn the first half of the pairs, rows the second"},
               {"P-vit-no-rope", "", "queries and keys are not rotated"},
               {"P-vit-rope-grad", "", "gradients of queries and keys are turned forward again"},
               {"A-NR05", "", "cosines and sines kept in bf16"},
               {"P-vit-causal", "", "patches attend to earlier ones only"},
               {"P-vit-across-items", "", "patches attend to those of other items"},
               {"P-vit-spatial-only", "", "patches attend inside their own frame"},
               {"P-vit-no-attention", "", "attention left out"},
               {"P-vit-no-mlp", "", "MLP left out"},
               {"P-vit-scale", "", "scores scaled by the width of all heads"},
               {"P-vit-qkv-by-head", "", "rows of wqkv taken as [heads][3][head]"},
               {"P-vit-gelu-erf", "", "exact GELU in the tower"},
               {"P-vit-projector-tanh", "", "tanh GELU in the projector"},
               {"P-vit-eps-torchtitan", "", "eps of the tower's norms 1e-5"},
               {"P-vit-eps-bf16", "", "eps of the tower's norms 2^-7, whatever the dtype"},
               {"P-vit-post-eps", "", "eps of the projector's norm too small by ten"},
               {"P-vit-no-norm", "", "norms of the blocks left out"},
               {"P-vit-no-final-norm", "", "final norm left out"},
               {"P-vit-no-post-norm", "", "norm behind the projector left out"},
               {"P-vit-merge-columns", "", "neighbours merged column-major"},
               {"P-vit-first-frame", "", "the first frame in place of the mean over frames"},
               {"P-vit-temporal-sum", "", "frames summed, not averaged"},
               {"P-vit-temporal-grad", "",
                "gradient of the mean over frames not divided by their number"},
               {"P-vit-features-twice", "", "features go backward twice"},
               {.id = "P-vit-conditional",
                .what = "ranks without an image skip the tower's collectives",
                .unsupported = "needs ranks"},
               {.id = "P-vit-dummy-overflow",
                .what = "0 times the features of a dummy image is added to the text",
                .unsupported = "text and tower meet in the decoder"},
               {.id = "P-vit-text-only",
                .what = "features never reach the text",
                .unsupported = "text and tower meet in vision_scatter and in the decoder"}},
}};

const Register bound{BoundDef{.op = "vision_tower", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net::vision
