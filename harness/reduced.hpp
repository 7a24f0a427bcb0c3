// A fill whose values were made simpler, as `parity shrink` leaves it: "normal~x=int,k=zero". What
// stands before '~' draws the values; after it each tensor that is named ('/' in its name is '.',
// '*' is all others) is changed, one value at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace parity {

enum class Simpler : std::uint8_t {
  No,
  Zero,
  One,
  Sign,   // -1, 0 or 1
  Int,    // to the nearest integer, at most 3 in size
  Power,  // to the power of two below, with its sign
  First   // only the first value of a row; the others are zero
};
std::string_view name(Simpler);

struct ReducedFill {
  std::string fill = {};                        // that draws
  std::map<std::string, Simpler> tensors = {};  // by name as in the text
  static ReducedFill parse(std::string_view);   // UsageError naming what it cannot read
  std::string str() const;
  Simpler of(std::string_view tensor) const;  // '/' in the name or '.'
};
void simplify(Simpler, std::span<double> row);

}  // namespace parity
