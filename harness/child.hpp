// Work that may crash, hang or fill the memory, done in a child process: its answer, or how it
// ended.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "harness/process.hpp"

namespace parity {

struct ChildLimits {
  double seconds = 60;
  std::int64_t memory_bytes = 0;  // of address space, beyond what is mapped; 0: none
  bool quiet = false;             // what it writes to stderr is not shown
};

struct ChildAnswer {
  std::string bytes = {};  // what `work` returned
  Trouble trouble = {};    // kind "" where it answered; "thrown" where `work` threw
  bool ok() const { return trouble.kind.empty(); }
};
ChildAnswer in_child(const std::function<std::string()>& work, const ChildLimits& limits = {});

}  // namespace parity
