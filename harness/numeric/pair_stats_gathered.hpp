// What pair_stats_rows.hpp gathers over one block, in the vectors of an instruction set.
#pragma once

namespace parity::pair_detail {
namespace {

// Sums and maximum of eight lanes.
template <class Isa>
struct Half {
  using Doubles = typename Isa::Doubles;
  Doubles sq_diff = Isa::zeros(), sq_a = Isa::zeros(), sq_b = Isa::zeros();
  Doubles dot = Isa::zeros(), diff = Isa::zeros(), abs_diff = Isa::zeros();
  Doubles max_abs = Isa::zeros();
  Doubles beyond = Isa::zeros();  // signs where |d| > limit * |a|: a quotient may be a new maximum
};

// Counts of a block, a counter per word; maximum and sums of the distances. `differing` has those
// that the histogram does not see.
template <class Isa>
struct Counts {
  using Ints = typename Isa::Ints;
  Ints differing = Isa::no_ints(), zero_a = Isa::no_ints(), zero_b = Isa::no_ints(),
       zero_lost = Isa::no_ints();
  Ints max_ulp = Isa::no_ints(), sum_ulp = Isa::no_ints(), sum_upper = Isa::no_ints();
};
template <class Isa>
struct CarefulCounts {
  using Ints = typename Isa::Ints;
  Ints nan_a = Isa::no_ints(), nan_b = Isa::no_ints(), inf_a = Isa::no_ints(),
       inf_b = Isa::no_ints();
  Ints mismatched = Isa::no_ints(), outside = Isa::no_ints();
};

}  // namespace
}  // namespace parity::pair_detail
