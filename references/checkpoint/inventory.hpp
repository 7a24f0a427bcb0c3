// What a K3 checkpoint holds: names, shapes and stored formats, from the sizes of the model alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::checkpoint {

struct VisionSizes {
  std::int64_t layers = 0;  // 0: a text-only model, whose names lack the prefix "language_model."
  std::int64_t D = 0, qkv = 0, F = 0, patch = 0, rows = 0, cols = 0;  // position table rows x cols
};

struct ModelSizes {
  std::string name = {};
  std::int64_t layers = 0, D = 0, V = 0, H = 0;
  std::vector<std::int64_t> full_attention = {};  // layers with MLA, counted from 0; others: KDA
  std::int64_t q_lora = 0, kv_lora = 0, nope = 0, rope = 0, v_head = 0;
  std::int64_t kda_head = 0, conv = 0;
  std::int64_t dense_layers = 1, dense_F = 0;  // the first layers have a dense feed-forward
  std::int64_t E = 0, latent = 0, expert_F = 0, shared_F = 0;
  VisionSizes vision = {};
  // How the released checkpoint stores it: experts as MXFP4 (groups of 32), A_log padded with
  // zeros.
  bool packed_experts = false;
  std::int64_t stored_heads = 0;  // extent of a stored A_log; 0: H

  bool is_full_attention(std::int64_t layer) const;
  bool is_dense(std::int64_t layer) const { return layer < dense_layers; }
};

ModelSizes released_k3();  // 93 layers, 2.78 T parameters
ModelSizes debug_model();  // 13 layers, 100 M parameters, two thirds of the layers KDA
ModelSizes model_sizes(std::string_view name);  // "k3", "debug"; UsageError otherwise

struct StoredTensor {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  Dtype dtype = Dtype::BF16;
  // Trainable values in it: packed codes hold two a byte; scales, padding and the correction bias
  // of the router (moved by the balancing rule, not by a gradient) hold none.
  std::int64_t parameters = 0;
};

// In the order of the model; every name once.
std::vector<StoredTensor> inventory(const ModelSizes&);

}  // namespace parity::checkpoint
