// Ranks as processes that mpirun started, on one machine or many. MPI lives in a library of its own
// (libparity_mpi.so, beside the executable), loaded on demand: the executable starts without it.
#pragma once

#include "harness/dist/communicator.hpp"

namespace parity::dist {

struct MpiOptions {
  double patience_s = 20;  // how long a rank waits for the others in one collective
};
// All ranks of this launch, opened once. UsageError where there is no library, or no MPI to be had.
Communicator& mpi_world(const MpiOptions& = {});

// Whether this process was started by mpirun or its like (PMIx, PMI, OpenMPI).
bool under_mpirun();

}  // namespace parity::dist
