// MoonViT3d, its projector and the scatter of features in eager LibTorch, any dtype and device:
// parameters by their released names below `prefix` (k3.md §5, §6.2). Written apart from
// references/blocks: the table is read by LibTorch's interpolation, angles turn complex numbers,
// items attend one after another, frames are merged by views; everything is differentiated by
// autograd.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace parity::model {

using Named = std::map<std::string, at::Tensor>;

struct VisionConfig {
  std::string prefix = {};  // before "vision_tower." and "mm_projector."
  std::vector<std::array<std::int64_t, 3>> grids = {};  // frames, rows, columns
  std::int64_t layers = 1, heads = 1;
  std::array<std::int64_t, 2> merge = {2, 2};
  double eps = 0x1p-23, projector_eps = 1e-5, theta = 1e4;
  bool halves = false, bicubic = false, tanh = true, projector_tanh = false;
};

// Patches [N, 3 p p] of all items -> features of each item [h/mh w/mw, width of the text].
std::vector<at::Tensor> vision_tower(const at::Tensor& pixels, const Named& params,
                                     const VisionConfig&);

// Embeddings [B,T,D] with the rows of features in the slots of the id: runs of torchtitan.
at::Tensor scatter_into_runs(const at::Tensor& embedded, const at::Tensor& tokens,
                             const std::vector<at::Tensor>& features, std::int64_t image_id);

// The merge of the released code, with rows padded on the right placed where they belong: every id
// is replaced by the features of its image, rows are padded with zeros on the left, or on the right
// where some row ends in the padding id.
struct Merged {
  at::Tensor embedded, mask, labels, positions;  // [B,S,D], [B,S]
};
struct MergeConfig {
  std::int64_t image_id = 0, pad_id = 0;
};
Merged merge_features(const at::Tensor& embedded, const at::Tensor& tokens, const at::Tensor& mask,
                      const at::Tensor& labels, const std::vector<at::Tensor>& features,
                      const MergeConfig&);

}  // namespace parity::model
