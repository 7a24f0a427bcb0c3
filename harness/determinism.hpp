// View 6: what a kernel's contract claims of its bits. Repeats on the same inputs, thread counts,
// and the op's own invariants ("split", "batch", "chunk", "causal") where the contract names them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/record.hpp"
#include "harness/source.hpp"

namespace parity {

struct BitClaim {
  std::string name = {};     // "repeat", "threads", "split"
  bool claimed = true;       // false: looked at all the same, and only reported
  std::string skipped = {};  // why it does not apply to this case; "" = it was tried
  std::vector<BitDifference> differences = {};
};

// Elements whose bits differ, per tensor; a tensor on one side only differs wholly.
std::vector<BitDifference> bit_differences(const Tensors& want, const Tensors& got);

struct BitCheck {
  Observed first = {};  // the launch that the others are compared with; complaints of all of them
  std::vector<BitClaim> claims = {};
  // Per float tensor whose repeats differ: RMS of the difference from the first launch over
  // sqrt 2, the noise of one launch.
  std::map<std::string, double> spread = {};
};
BitCheck check_bits(const Candidate&, const RunRequest&, int repeats);

// As a view of one tensor: value is the number of differing elements of all claims together, the
// limit 0.
ViewResult determinism_view(const std::vector<BitClaim>&, const std::string& tensor);

}  // namespace parity
