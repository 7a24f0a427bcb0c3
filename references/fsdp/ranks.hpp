// A kernel whose launch is R ranks: the same body on threads of this process, or on the processes
// that mpirun started.
#pragma once

#include <functional>

#include "harness/dist/communicator.hpp"
#include "harness/registry.hpp"

namespace parity::fsdp {

// What one rank computes: every rank has all results.
using RankBody = Tensors (*)(const Case&, const Tensors& inputs, dist::Communicator&,
                             std::string_view fault);

void launch_on_threads(const Launch&, RankBody);
// Ranks beyond R look on, and get the results from rank 0: every process judges the same.
void launch_on_mpi(const Launch&, RankBody);

// Registers fsdp.mpi and collective.mpi, once this process has joined its launch (--comm mpi).
void register_mpi_kernels();

// The op's kernels, by their ranks' body.
Tensors sums_of_rank(const Case&, const Tensors&, dist::Communicator&, std::string_view fault);

}  // namespace parity::fsdp
