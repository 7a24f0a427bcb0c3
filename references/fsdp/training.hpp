// A case of fsdp: a small decoder trained for a few steps on R ranks.
//   sizes    R ranks, B sequences of T tokens a rank and microbatch, D width, V vocabulary, L
//   layers dtype    of parameters in use (param_dtype); the masters are f32 options  those of the
//   decoder (references/decoder/problem.hpp) and of fsdp2.h5's configurations:
//            wrap, raf, reduce_dtype, accum, sync, hsdp, divide_factor, force_sum, clip_norm,
//            clip_type, opt, steps; order=gloo|rank|ring|halving|doubling|tree; of the image branch
//            (decoder_model.hpp)
//   in       tokens, labels [steps,accum,R,B,T], image [R,B,C], params/<name>
//   out      loss [steps,accum,R], logits [R,B*T,V] of the first microbatch, norm [steps],
//            after/<name> the parameters at the end; grads/params/<name> of the last step, reduced
#pragma once

#include <string_view>

#include "harness/dist/communicator.hpp"
#include "harness/registry.hpp"
#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

std::vector<TensorSpec> training_inputs(const Case&);
std::vector<TensorSpec> training_outputs(const Case&);
std::string training_refuses(const Case&);
Config training_config(const Case&);
std::vector<std::vector<float>> initial_parameters(const Case&, const Tensors&);

// In one process, in the order that the case states: the truth.
Expected train_in_one(const Case&, const Tensors&);
// As this rank of `world`: all results, on every rank.
Tensors train_sharded(const Case&, const Tensors&, dist::Communicator& world,
                      std::string_view fault);
std::vector<FaultDef> training_faults();

}  // namespace parity::fsdp
