// The chunked backward of one launch (kda.md §4.1), from the states and errors that the forward
// saved.
#pragma once

#include "kernels/kda/chunk.hpp"

namespace parity::kda_kernel {

void chunked_backward(const Problem&);

// Where partial results lie in the workspace: gradients of q and k by value head (grouped heads
// only), and the sums of the gate's parameters by sequence and head, in f64.
struct PartialSums {
  float *dq = nullptr, *dk = nullptr;  // [B*T,HV,K]
  double* gate = nullptr;              // [N,HV,2,K]: bias, coefficient
  std::size_t bytes = 0;
};
PartialSums partial_sums(const Shape&, std::byte* workspace);

// Gradients of the operands of one chunk, overwritten on their way to the tensors.
struct GradientRows {
  float *dq = nullptr, *dk = nullptr, *dg = nullptr;
  float* minus_de = nullptr;
  float* d_beta = nullptr;     // one value a row, or rows of V (headwise)
  float* scratch = nullptr;    // C x ld of K
  float* gate_sums = nullptr;  // 2 x K padded: sums of the chunk for dt_bias and A_log
};
void store_gradients(const Chunk&, const PartialSums&, const GradientRows&);

// From gradients of the normalised, scaled operands to those of the tensors; rows of `qk_head` from
// `token` on.
struct QueryKeyRows {
  std::int64_t token = 0, qk_head = 0, rows = 0, ld = 0;
  float *dq = nullptr, *dk = nullptr;
  float *raw = nullptr, *rstd = nullptr;  // scratch: rows x ld, rows
};
void finish_query_key(const Problem&, const QueryKeyRows&);
void reduce_groups(const Problem&, const PartialSums&);
void reduce_gate_sums(const Problem&, const PartialSums&);

}  // namespace parity::kda_kernel
