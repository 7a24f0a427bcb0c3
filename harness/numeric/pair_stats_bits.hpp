// Counting by carry-save adders, for pair_stats_rows.hpp alone: how many of the vectors have a one
// in each bit place.
#pragma once

#include "harness/numeric/pair_stats_block.hpp"

namespace parity::pair_detail {
namespace {

// The highest bits of the distances of one vector, all and those of got above want.
template <class Isa>
struct Highest {
  typename Isa::Ints all = Isa::no_ints(), above = Isa::no_ints();

  static Highest load(const Ones& from) { return {Isa::load(&from.all), Isa::load(&from.above)}; }
  void store(Ones& to) const {
    Isa::store(&to.all, all);
    Isa::store(&to.above, above);
  }
};

// ones + a + b = the new ones + 2 * the result, in every bit place.
template <class Isa>
typename Isa::Ints carry_save(typename Isa::Ints& ones, typename Isa::Ints a,
                              typename Isa::Ints b) {
  const typename Isa::Ints carry = Isa::majority(ones, a, b);
  ones = Isa::exclusive_or(ones, a, b);
  return carry;
}

// Eight vectors of ones into the three planes of weights 1, 2 and 4; what carries out has weight 8.
template <class Isa>
typename Isa::Ints count_eight(const Ones (&in)[8], Ones (&planes)[3], BitVector Ones::*side) {
  using Ints = typename Isa::Ints;
  const auto at = [&in, side](int i) { return Isa::load(&(in[i].*side)); };
  Ints ones = Isa::load(&(planes[0].*side));
  Ints twos = Isa::load(&(planes[1].*side));
  Ints fours = Isa::load(&(planes[2].*side));
  const auto four = [&](int i) {
    const Ints a = carry_save<Isa>(ones, at(i), at(i + 1));
    const Ints b = carry_save<Isa>(ones, at(i + 2), at(i + 3));
    return carry_save<Isa>(twos, a, b);
  };
  const Ints a = four(0);
  const Ints eights = carry_save<Isa>(fours, a, four(4));
  Isa::store(&(planes[0].*side), ones);
  Isa::store(&(planes[1].*side), twos);
  Isa::store(&(planes[2].*side), fours);
  return eights;
}

template <class Isa>
Highest<Isa> count_eight(const Ones (&in)[8], Ones (&planes)[3]) {
  return {count_eight<Isa>(in, planes, &Ones::all), count_eight<Isa>(in, planes, &Ones::above)};
}

// Vectors of ones, each worth 8^stage, into the counter; every eighth goes on to the next stage.
template <class Isa>
void push(BitCounter& counter, int stage, Highest<Isa> ones) {
  for (; stage < BitCounter::kStages; ++stage) {
    BitCounter::Stage& s = counter.stages[stage];
    ones.store(s.waiting[s.size++]);
    if (s.size < 8) return;
    s.size = 0;
    ones = count_eight<Isa>(s.waiting, s.planes);
  }
  Ones out;
  ones.store(out);
  counter.overflow(out);
}

}  // namespace
}  // namespace parity::pair_detail
