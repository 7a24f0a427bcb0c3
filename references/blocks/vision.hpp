// MoonViT3d with its projector, the vision side of Kimi K3 (k3.md §5; arXiv 2607.24653), and its
// K2.5 form. Items of grids (t, h, w), patches flat [N, 3 p p].
//   x = pixels W_patch^T + positions
//   each block: x += wo(attention(norm0(x)));  x += fc1(gelu(fc0(norm1(x))))
//   attention over all patches of the same item, 2-D rotated queries and keys, scale head^-1/2
//   final norm; merge: mean over frames, then mh x mw neighbours concatenated row-major
//   projector: [pre_norm] proj.0, gelu, proj.2 [post_norm]
// Parameters by their released names: <tower>patch_embed.proj, <tower>patch_embed.pos_emb.weight,
// <tower>encoder.blocks.<i>.{norm0,norm1,wqkv,wo,mlp.fc0,mlp.fc1}, <tower>encoder.final_layernorm,
// <projector>{proj.0,proj.2,pre_norm,post_norm}. Where there are wq, wk and wv in place of wqkv
// (rows [3][heads][head]) those are used; a bias is used where there is one.
#pragma once

#include <string>

#include "references/blocks/gelu.hpp"
#include "references/blocks/grids.hpp"
#include "references/blocks/layers.hpp"

namespace parity::net {

struct VisionTower {
  std::string tower = "vision_tower.", projector = "mm_projector.";
  std::vector<Grid> grids = {};
  std::int64_t layers = 1, heads = 1;
  std::int64_t merge_h = 2, merge_w = 2;
  bool layer_norm = false;  // K2.5: LayerNorm, and it stands before the projector
  double eps = 0x1p-23;     // of the tower's norms
  double projector_eps = 1e-5;
  Interpolation interpolation = Interpolation::Bilinear;
  GridRope rope = {};
  Gelu gelu = Gelu::Tanh, projector_gelu = Gelu::Erf;

  std::int64_t merged() const;  // tokens that the projector returns
  std::vector<std::int64_t> merged_by_item() const;
};

// What torch.nn.RMSNorm takes where no eps is given: the spacing at one of the compute dtype.
double spacing_at_one(Dtype);

// What the backward reads.
template <class T>
struct VisionBlockState {
  Array<T> in, normed0, q, k, v;
  Attended<T> attended;
  Array<T> mixed;  // after wo
  Array<T> middle, normed1, fc0, activated, out;
};
template <class T>
struct VisionState {
  Array<T> patch_embed, positions, cos_sin;
  std::vector<VisionBlockState<T>> blocks;
  Array<T> final_norm, merged, pre_normed, proj0, activated, proj2, y;
};
// Gradients by what they belong to; those of parameters are added to the run.
template <class T>
struct VisionGradients {
  Array<T> pixels, embedded;
  std::vector<Array<T>> block_out, block_mixed, block_in;
  Array<T> final_norm, merged, proj0, proj2;
};

template <class T>
VisionState<T> vision_tower(Run<T>&, const Array<T>& pixels, const VisionTower&);
template <class T>
VisionGradients<T> vision_tower_backward(Run<T>&, const Array<T>& pixels, const VisionState<T>&,
                                         const Array<T>& dy, const VisionTower&);

// Names that other sources give a parameter, from the released one: torchtitan's (below its vision
// encoder) and those of transformers' K2.5.
std::string torchtitan_vision_name(std::string released);
std::string transformers_vision_name(std::string released);

}  // namespace parity::net
