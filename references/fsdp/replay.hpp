// Recorded runs of FSDP2 (golden/independent/fsdp2.h5) done again: from the stored local gradients
// of every rank and microbatch the engine must make every reduced gradient, shard, norm, updated
// parameter, the layout and the trace of collectives.
//   case     sizes R ranks; options: the attributes of the recorded configuration, by their names
//   inputs   params_before, param_names, param_shape, rank_K/local_stepS_microM, ... as stored
//   outputs  by their paths in the file; their shapes follow from the inputs, so that only the
//            gradients are declared beforehand
#pragma once

#include "harness/registry.hpp"

namespace parity::fsdp {

bool is_replay(const Case&);
ImportedCase import_replay(const StoredCase&);
Expected replay(const Case&, const Tensors& inputs);
std::vector<TensorSpec> replay_outputs(const Case&);

}  // namespace parity::fsdp
