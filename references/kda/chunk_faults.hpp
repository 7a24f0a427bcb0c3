// The faults of the base that are more than a condition in place (faults.hpp): called from the
// chunk's steps where one is switched on, and nowhere else.
#pragma once

#include "references/kda/base_chain.hpp"

namespace parity::kda {

// Indices and layouts, as a chunk is read.
void damage_loaded(Run&, std::int64_t hv, std::int64_t n, Chunk&);
// Scores before, and the inverse after, the triangular solve.
void damage_scores(Engine&, Chunk&);
void damage_inverse(Engine&, Chunk&);
// The state pass: true if the fault has taken its place.
bool damaged_state(Engine&, const Chunk&, Floats32& S);
// Rows of dG_last that padded rows add.
void add_padded_rows(const Run&, std::int64_t hv, std::int64_t end, const Chunk&,
                     const Floats32& dh, Floats32& dG_last);
// What stays in dG, dq and dk of the diagonal of dAqk; what future pairs do to them.
void damage_products(Engine&, const Chunk&, const Floats32& dAqk, ChainGradients&);
// Reverse sums and sinks.
void damage_gate_sum(Engine&, Floats32& dG);
// Whole tensors, at the end of an evaluation.
void damage_results(Run&);

}  // namespace parity::kda
