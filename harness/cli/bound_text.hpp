// A bound term by term, as people read it and as scripts do.
#pragma once

#include <string>
#include <vector>

#include "harness/bound.hpp"

namespace parity::cli {

struct BoundTermText {
  double factor = 0;      // of `of`; +inf where the form is void
  std::string of = {};    // "|x*|", "m", "sigma", "" for a constant
  std::string what = {};  // where it comes from
};

std::vector<BoundTermText> terms_of(const Bound&, Dtype output);
std::string limit_of(const Bound&);  // "r <= 1", ...

}  // namespace parity::cli
