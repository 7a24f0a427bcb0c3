// Ranks as threads of this process: any number of them on one machine, nothing to install. The
// embedded default.
#pragma once

#include <functional>

#include "harness/dist/communicator.hpp"

namespace parity::dist {

struct ThreadOptions {
  double patience_s = 20;  // how long a rank waits for the others in one collective
};

// Runs `body` once for each rank, at the same time, and returns when all are done. Where a rank
// throws, the others are told at their next collective; what is thrown here is the cause, not what
// followed from it: the rank's own exception, with its number, or a CollectiveError.
void run_threads(int ranks, const std::function<void(Communicator&)>& body,
                 const ThreadOptions& options = {});

}  // namespace parity::dist
