// What faults do where a switch in the kernel's own line would hide the line: plain loops, off the
// clean path.
#pragma once

#include "kernels/kda/chunk.hpp"

namespace parity::kda_kernel {

float round_bf16(float x);     // to nearest even
float truncate_bf16(float x);  // towards zero
void round_rows_to_bf16(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols);
void truncate_rows_to_bf16(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols);

// ---- forward (forward_faults.cpp)

// Rows of the chunk to multiply with: n, or n padded to 16 with what an unmasked kernel leaves in u
// beyond row n.
std::int64_t spoil_tail_rows(const Chunk&, float* u, std::int64_t ldu);
// Decay of the chunk for the state update, and c.S, as the fault would have them; `row` is scratch
// of K.
const float* spoil_state_decay(Chunk&, float* row);
void solve_by_column_beta(const Chunk&, float* e, float* u, std::int64_t ld);
void round_merge_operands(Chunk&, std::int64_t first, std::int64_t middle, std::int64_t last);
Stored narrow_rows(const Problem&, const void* data, std::int64_t token, std::int64_t hv);

// ---- backward (backward_faults.cpp)

// dq, dk, dg: rows of the chunk before they leave it.
void spoil_gradients(const Chunk&, const float* d_scores_q, const float* through, float* dq,
                     float* dk, float* dg);
void beta_gradient_without_key(const Chunk&, const float* dv, std::int64_t ld, float* d_beta);
void bias_sum_in_bf16(const Chunk&, const float* dx, float* d_bias);
void spoil_results(const Problem&);
const float* state_of_other_chunk_size(const Problem&, Place);

}  // namespace parity::kda_kernel
