// Option isolated=1 of a decoder: every layer by itself. What enters it is the truth's residual
// stream, rounded once to the storage format; what comes back to it is the truth's gradient. The
// error of a result is then its own layer's, and its bound is made of its own layer's noise, where
// a whole run has what all layers before it bring along (tolerance.md §19: inherited against own).
//   inputs     beside the usual ones "at/layer<i>.{bank,prefix}" (i >= 1; layer 0 has the
//              embeddings) and "at/output.{bank,prefix}" of the head;
//              "cotangents/tap/layer<i>.{bank,prefix}"
//   gradients  of these: "grads/inputs/at/...", in place of those of the taps bank, prefix, hidden
#pragma once

#include <vector>

#include "references/blocks/decoder.hpp"

namespace parity::net {

std::string isolated_refuses(const Case&);
std::vector<TensorSpec> isolated_inputs(const Case&);
std::vector<TensorSpec> isolated_gradients(const Case&);
// OpDef::complete: the truth's streams for isolated=1, its choices of experts for replay=1.
void decoder_complete(const Case&, Tensors&);
template <class T>
void isolated(Run<T>&);

}  // namespace parity::net
