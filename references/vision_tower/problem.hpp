// vision_tower: MoonViT3d and its projector, from patches to features in the width of the text
// (references/blocks/vision.hpp). Sizes: L layers, D width, H heads, Q width of the queries (H
// heads), F width of the MLP, P side of a patch, M x N table of positions, J width inside the
// projector (usually that of the merged tokens), O width of the text.
//   in   grid_thw [items,3], pixels [patches,3PP], the parameters by released names
//   out  y [merged tokens,O]
//   option grids       frames x rows x columns of each item, "1x4x2+3x4x2"
//          layout      flat, or padded: [items, most patches, 3PP] and [items, most tokens, O],
//                      where rows past an item's own are not read, and come back as zeros
//          qkv         fused (wqkv) or split (wq, wk, wv)
//          form        k3 (RMSNorm, no bias, norm after the projector), or k25 (LayerNorm and
//                      biases, norm before the projector, whose weight is of width D)
//          eps         of the tower's norms: finfo (spacing at one of the case's dtype: what
//                      torch.nn.RMSNorm takes where none is given), or a number
//          projector_eps (1e-5), merge (2x2), theta (1e4), rope=pairs|halves,
//          interpolation=bilinear|bicubic, gelu=tanh|erf, projector_gelu=erf|tanh
//          taps=1      tap/... and grads/tap/...
#pragma once

#include <string>
#include <vector>

#include "harness/registry.hpp"
#include "references/blocks/vision.hpp"

namespace parity::net::vision {

struct Problem {
  VisionTower tower;
  bool padded = false, split = false, biased = false, taps = false;
  std::int64_t D = 0, Q = 0, F = 0, O = 0, J = 0, K = 0, M = 0, N = 0;  // K: elements of a patch
  std::int64_t items = 0, patches = 0, tokens = 0, most_patches = 0, most_tokens = 0;
};

Problem problem_of(const Case&);

std::vector<TensorSpec> inputs(const Case&);
std::vector<TensorSpec> outputs(const Case&);
bool derive(const Case&, Tensor&);  // grid_thw
std::string refuses(const Case&);
std::string probs_name(std::size_t n);  // of the n-th recorded softmax: "probs", "probs.1", ...

}  // namespace parity::net::vision
