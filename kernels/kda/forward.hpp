// The chunked forward of one launch (kda.md §4), and the part of it that the backward repeats.
#pragma once

#include "kernels/kda/chunk.hpp"

namespace parity::kda_kernel {

void chunked_forward(const Problem&);

// Writes zeros to what lies beyond the last sequence.
void clear_unused(const Problem&, void* tensor, bool narrow, std::int64_t row_elements);

}  // namespace parity::kda_kernel
