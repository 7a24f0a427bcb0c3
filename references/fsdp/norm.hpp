// Norms of shards, of all of them, and the clip coefficient, as PyTorch 2.11 rounds them on a CPU
// (fsdp2.md, facts 9 and 10). Values lie on the grid of `dtype`.
#pragma once

#include <span>
#include <vector>

#include "harness/dist/order.hpp"

namespace parity::fsdp {

// p = 1, 2 or infinity. Accumulated in f32, rounded to `dtype` at the end.
float local_norm(std::span<const float> x, double p, Dtype dtype);

// What travels of a shard's norm (its p-th power), and back.
float to_partial(float norm, double p, Dtype dtype);
float from_partial(float sum, double p, Dtype dtype);

// c = min(1, fl(fl(1 / fl(total + 1e-6)) * max_norm)).
float clip_coefficient(float total, double max_norm, Dtype dtype);

}  // namespace parity::fsdp
