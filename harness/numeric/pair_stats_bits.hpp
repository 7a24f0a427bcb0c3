// Counting by carry-save adders, for pair_stats_rows.hpp alone: how many of the vectors have a one
// in each bit place.
#pragma once

#include "harness/numeric/pair_stats_block.hpp"

namespace parity::pair_detail {
namespace {

// ones + a + b = the new ones + 2 * the result, in every bit place.
template <class Isa>
typename Isa::Ints carry_save(typename Isa::Ints& ones, typename Isa::Ints a,
                              typename Isa::Ints b) {
  const typename Isa::Ints carry = Isa::majority(ones, a, b);
  ones = Isa::exclusive_or(ones, a, b);
  return carry;
}

// Eight vectors of ones into the three planes of weights 1, 2 and 4; what carries out has weight 8.
// One side, for which the registers suffice.
template <class Isa>
void count_eight(const Ones* in, Ones (&planes)[3], Ones& eights, BitVector Ones::*side) {
  using Ints = typename Isa::Ints;
  const auto at = [in, side](int i) { return Isa::load(&(in[i].*side)); };
  Ints ones = Isa::load(&(planes[0].*side));
  Ints twos = Isa::load(&(planes[1].*side));
  Ints fours = Isa::load(&(planes[2].*side));
  const auto four = [&](int i) {
    const Ints a = carry_save<Isa>(ones, at(i), at(i + 1));
    const Ints b = carry_save<Isa>(ones, at(i + 2), at(i + 3));
    return carry_save<Isa>(twos, a, b);
  };
  const Ints a = four(0);
  Isa::store(&(eights.*side), carry_save<Isa>(fours, a, four(4)));
  Isa::store(&(planes[0].*side), ones);
  Isa::store(&(planes[1].*side), twos);
  Isa::store(&(planes[2].*side), fours);
}

template <class Isa>
void count_eight(const Ones* in, Ones (&planes)[3], Ones& eights) {
  count_eight<Isa>(in, planes, eights, &Ones::all);
  count_eight<Isa>(in, planes, eights, &Ones::above);
}

// Vectors that are worth 8^stage each into the counter; every eighth goes on to the next stage.
template <class Isa>
void push(BitCounter& counter, int stage, const Ones* ones, int size) {
  if (stage == BitCounter::kStages) {
    for (int i = 0; i < size; ++i) counter.overflow(ones[i]);
    return;
  }
  BitCounter::Stage& s = counter.stages[stage];
  const auto carry = [&](const Ones* eight) {
    Ones out;
    count_eight<Isa>(eight, s.planes, out);
    push<Isa>(counter, stage + 1, &out, 1);
  };
  for (int i = 0; i < size;) {
    if (s.size == 0 && i + 8 <= size) {
      carry(ones + i);
      i += 8;
      continue;
    }
    s.waiting[s.size++] = ones[i++];
    if (s.size == 8) {
      s.size = 0;
      carry(s.waiting);
    }
  }
}

}  // namespace
}  // namespace parity::pair_detail
