// A quantiser's kernel once for each instruction set: one definition, and what each has of its own.
#pragma once

#include <utility>

#include "harness/kernel.hpp"

namespace parity {

// What all of them promise: the bits of their chain, whatever the threads.
inline Contract exact_chain() {
  return {.name = "exact_chain",
          .dtypes = {Dtype::F32, Dtype::BF16},
          .fidelity = Fidelity::Twin,
          .invariant = {"threads"}};
}

// The same kernel in wider lanes. Faults are switched in the first alone: all share the code that
// they break.
inline KernelDef wider(KernelDef kernel, std::string_view name, std::string_view what,
                       std::string_view needs, void (*forward)(const Launch&)) {
  kernel.name = name;
  kernel.what = what;
  kernel.needs = needs;
  kernel.forward = forward;
  kernel.faults.clear();
  return kernel;
}

}  // namespace parity
