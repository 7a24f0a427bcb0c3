// By what a gradient is divided, and when: before the sum, with it, after it (k3.md §7.2).
#pragma once

#include <string_view>

#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

struct Divisors {
  bool average = false;  // the collective divides: by the ranks of its own group
  double before = 1;     // each contribution
  double scatter = 1;    // by the reduce-scatter, where it averages
  double after = 1;      // the shard, at the end
};
// UsageError where the order's own collective has no such operation.
Divisors divisors(const Config&, int ranks, Dtype reduce, std::string_view fault = {});

}  // namespace parity::fsdp
