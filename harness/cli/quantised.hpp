// What the page shows of a quantiser: taken from the candidate's own results, as it runs once more
// in a child process.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "harness/source.hpp"
#include "reports/quantised.hpp"

namespace parity::cli {

// Which records are shown: of each chain, with its options, the first that is judged on noise, and
// the first that fails.
class QuantisedChoice {
 public:
  bool takes(const CaseRecord&);

 private:
  std::set<std::string> seen_ = {};
};

// Nothing where the results hold no codes, or the candidate did not survive.
std::optional<reports::Quantised> quantised_of(const Subject&, const Candidate&, const CaseRecord&);

// Of results that are there already.
std::optional<reports::Quantised> quantised(const Case&, const Tensors& inputs,
                                            const Tensors& results);

}  // namespace parity::cli
