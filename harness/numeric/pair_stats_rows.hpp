// One block of the pair statistics by vectors of sixteen lanes, for an instruction set given as a class of wrapped
// intrinsics: internal to harness/numeric, for the files pair_stats_avx2.cpp and pair_stats_avx512.cpp alone.
//
// Rows are 16 elements, a lane each. What a row does to a lane is what the plain code does to it, in the same order, so the
// sums agree bit for bit:
// - products of two f32, bf16 or f16 are exact in double, so that a fused multiply-add rounds like multiply and add;
// - a row of equal bits adds +0 to the sums of differences, which changes nothing, and its three products are one;
// - maxima are taken of exact values, and a quotient is formed only in blocks that may hold a new maximum;
// - the histogram is counted in bit planes: each distance becomes a one in the place of its bucket, and carry-save adders
//   count the ones of a place over the rows, two logic operations a row.
// A block is first assumed to be finite. If it was not, its squares show it, and it is done again by the careful variant.
//
// Nothing here may be an inline function of a shared header, or the linker could pick the copy compiled for a newer machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/numeric/pair_stats_block.hpp"

namespace parity::pair_detail {
namespace {

constexpr int kRows = kBlock / kLanes;

template <class Isa>
struct ElementF32 {
  static constexpr int kBytes = 4;
  static constexpr int kMagnitude = 0x7FFFFFFF;
  static constexpr int kInfinity = 0x7F800000;
  static typename Isa::Ints load(const std::byte* p) { return Isa::load_32(p); }
  static typename Isa::Doubles wide(const std::byte*, typename Isa::Ints bits) { return Isa::wide_f32(bits); }
};

template <class Isa>
struct ElementBf16 {
  static constexpr int kBytes = 2;
  static constexpr int kMagnitude = 0x7FFF;
  static constexpr int kInfinity = 0x7F80;
  static typename Isa::Ints load(const std::byte* p) { return Isa::load_16(p); }
  static typename Isa::Doubles wide(const std::byte*, typename Isa::Ints bits) {
    return Isa::wide_f32(Isa::shift_left_16(bits));
  }
};

template <class Isa>
struct ElementF16 {
  static constexpr int kBytes = 2;
  static constexpr int kMagnitude = 0x7FFF;
  static constexpr int kInfinity = 0x7C00;
  static typename Isa::Ints load(const std::byte* p) { return Isa::load_16(p); }
  static typename Isa::Doubles wide(const std::byte* p, typename Isa::Ints) { return Isa::wide_f16(p); }
};

// ones + a + b = the new ones + 2 * the result, in every bit place.
template <class Isa>
typename Isa::Ints carry_save(typename Isa::Ints& ones, typename Isa::Ints a, typename Isa::Ints b) {
  const typename Isa::Ints carry = Isa::majority(ones, a, b);
  ones = Isa::exclusive_or(ones, a, b);
  return carry;
}

// Eight vectors of ones into the three planes of weights 1, 2 and 4; what carries out has weight 8.
template <class Isa>
typename Isa::Ints count_eight(const BitVector* in, typename Isa::Ints (&planes)[3]) {
  using Ints = typename Isa::Ints;
  const auto at = [in](int i) { return Isa::load_32(&in[i]); };
  const Ints twos_a = carry_save<Isa>(planes[0], at(0), at(1));
  const Ints twos_b = carry_save<Isa>(planes[0], at(2), at(3));
  const Ints fours_a = carry_save<Isa>(planes[1], twos_a, twos_b);
  const Ints twos_c = carry_save<Isa>(planes[0], at(4), at(5));
  const Ints twos_d = carry_save<Isa>(planes[0], at(6), at(7));
  const Ints fours_b = carry_save<Isa>(planes[1], twos_c, twos_d);
  return carry_save<Isa>(planes[2], fours_a, fours_b);
}

// A vector of ones, each worth `8^stage`, into the counter; every eighth goes on to the next stage.
template <class Isa>
void push(BitCounter& counter, int stage, typename Isa::Ints ones) {
  for (;; ++stage) {
    if (stage == BitCounter::kStages) {
      BitVector out;
      Isa::store(&out, ones);
      counter.overflow(out);
      return;
    }
    BitCounter::Stage& s = counter.stages[stage];
    Isa::store(&s.waiting[s.size++], ones);
    if (s.size < 8) return;
    s.size = 0;
    typename Isa::Ints planes[3];
    for (int k = 0; k < 3; ++k) planes[k] = Isa::load_32(&s.planes[k]);
    ones = count_eight<Isa>(s.waiting, planes);
    for (int k = 0; k < 3; ++k) Isa::store(&s.planes[k], planes[k]);
  }
}

template <class Isa, class Element, bool kCareful>
class Block {
  using Ints = typename Isa::Ints;
  using Mask = typename Isa::Mask;
  using Doubles = typename Isa::Doubles;

 public:
  Block(const std::byte* want, const std::byte* got, double max_rel)
      : want_(want), got_(got), relative_limit_(max_rel * (1 - 0x1p-51)) {}

  // The sums; false if an infinity or NaN was met (only where not careful), and then nothing else may be taken.
  bool run(LaneSums& lanes) {
    Doubles sq_diff = Isa::zeros(), sq_a = Isa::zeros(), sq_b = Isa::zeros();
    Doubles dot = Isa::zeros(), diff = Isa::zeros(), abs_diff = Isa::zeros();
    for (int r = 0; r < kRows; ++r) {
      const Row row = load(r);
      const Mask differs = Isa::differs(row.bits_a, row.bits_b);
      if (!kCareful && !Isa::any(differs)) {
        zero_equal_ = Isa::count(zero_equal_, Isa::no_bits(row.bits_a, Element::kMagnitude));
        sq_a = Isa::fused(row.a, row.a, sq_a);
        sq_b = Isa::fused(row.a, row.a, sq_b);
        dot = Isa::fused(row.a, row.a, dot);
        continue;
      }
      integers(row, differs);
      const Doubles d = Isa::sub(row.b, row.a);
      const Doubles distance = Isa::abs(d);
      max_abs_ = Isa::max(max_abs_, distance);
      new_relative_ = Isa::note_greater(new_relative_, distance, Isa::times(Isa::abs(row.a), relative_limit_), row.a);
      sq_diff = Isa::add(sq_diff, Isa::mul(d, d));
      sq_a = Isa::fused(row.a, row.a, sq_a);
      sq_b = Isa::fused(row.b, row.b, sq_b);
      dot = Isa::fused(row.a, row.b, dot);
      diff = Isa::add(diff, d);
      abs_diff = Isa::add(abs_diff, distance);
    }
    Isa::store(lanes.sq_diff, sq_diff);
    Isa::store(lanes.sq_a, sq_a);
    Isa::store(lanes.sq_b, sq_b);
    Isa::store(lanes.dot, dot);
    Isa::store(lanes.diff, diff);
    Isa::store(lanes.abs_diff, abs_diff);
    return kCareful || Isa::all_finite(Isa::add(sq_a, sq_b));  // no sum of squares of these formats overflows
  }

  void commit(std::int64_t first, Tally& tally) {
    flush_hot(tally);
    PairStats& s = tally.stats;
    const std::int64_t zeros = Isa::total(zero_equal_);
    s.differing += Isa::total(differing_);
    s.zero_a += zeros + Isa::total(zero_a_);
    s.zero_b += zeros + Isa::total(zero_b_);
    s.want_zero_got_nonzero += Isa::total(zero_lost_);
    std::int64_t outside = 0;
    if constexpr (kCareful) {
      s.nan_a += Isa::total(nan_a_);
      s.nan_b += Isa::total(nan_b_);
      s.inf_a += Isa::total(inf_a_);
      s.inf_b += Isa::total(inf_b_);
      s.mismatched_nonfinite += Isa::total(mismatched_);
      outside = Isa::total(outside_);
    }
    s.finite_pairs += kBlock - outside;
    tally.careful = outside != 0;
    const double largest = Isa::largest(max_abs_);
    if (largest > s.max_abs) {
      s.max_abs = largest;
      s.worst_index = first + index_of(largest);
    }
    if (Isa::any(new_relative_)) {
      const double relative = largest_relative();
      if (relative > s.max_rel) s.max_rel = relative;
    }
    const std::int64_t ulp = Isa::largest_unsigned(max_ulp_);
    if (ulp > s.max_ulp) s.max_ulp = ulp;
    tally.add_ulp(Isa::sum(sum_ulp_));
  }

 private:
  struct Row {
    Ints bits_a, bits_b;
    Doubles a, b;  // zero where either is not finite, if careful
    Mask finite;   // if careful
  };

  Row load(int r) const {
    const std::byte* pa = want_ + r * kLanes * Element::kBytes;
    const std::byte* pb = got_ + r * kLanes * Element::kBytes;
    Row row;
    row.bits_a = Element::load(pa);
    row.bits_b = Element::load(pb);
    row.a = Element::wide(pa, row.bits_a);
    row.b = Element::wide(pb, row.bits_b);
    if constexpr (kCareful) {
      row.finite = Isa::both(Isa::magnitude_below(row.bits_a, Element::kMagnitude, Element::kInfinity),
                             Isa::magnitude_below(row.bits_b, Element::kMagnitude, Element::kInfinity));
      row.a = Isa::keep(row.finite, row.a);
      row.b = Isa::keep(row.finite, row.b);
    }
    return row;
  }

  static Ints rank(Ints bits) {  // sign and magnitude -> signed number
    const Ints sign = Isa::sign(bits);
    return Isa::sub(Isa::flip(bits, sign, Element::kMagnitude), sign);
  }

  // Counts, distances in ulp and their histogram.
  void integers(const Row& row, Mask differs) {
    const Mask zero_a = Isa::no_bits(row.bits_a, Element::kMagnitude);
    const Mask zero_b = Isa::no_bits(row.bits_b, Element::kMagnitude);
    differing_ = Isa::count(differing_, differs);
    zero_a_ = Isa::count(zero_a_, zero_a);
    zero_b_ = Isa::count(zero_b_, zero_b);
    const Ints rank_a = rank(row.bits_a);
    const Ints rank_b = rank(row.bits_b);
    Mask above = Isa::greater(rank_b, rank_a);
    Ints distance = Isa::distance(rank_a, rank_b, above);
    Mask lost = Isa::first_only(zero_a, zero_b);
    if constexpr (kCareful) {
      non_finite(row, differs);
      distance = Isa::keep(row.finite, distance);
      lost = Isa::both(lost, row.finite);
    }
    zero_lost_ = Isa::count(zero_lost_, lost);
    max_ulp_ = Isa::max_unsigned(max_ulp_, distance);
    sum_ulp_ = Isa::add_wide(sum_ulp_, distance);
    const Ints highest = Isa::highest_bit(distance);
    const Ints highest_above = Isa::keep(above, highest);
    Isa::store(&hot_[0][hot_size_], highest_above);
    Isa::store(&hot_[1][hot_size_], Isa::sub(highest, highest_above));
    if (++hot_size_ == 8) reduce_hot();
  }

  void non_finite(const Row& row, Mask differs) {
    const auto kind = [](Ints bits, Ints& nans, Ints& infinities) {
      const Mask nan = Isa::magnitude_above(bits, Element::kMagnitude, Element::kInfinity);
      nans = Isa::count(nans, nan);
      infinities = Isa::count(infinities, Isa::magnitude_is(bits, Element::kMagnitude, Element::kInfinity));
      return nan;
    };
    const Mask nan_a = kind(row.bits_a, nan_a_, inf_a_);
    const Mask nan_b = kind(row.bits_b, nan_b_, inf_b_);
    const Mask outside = Isa::negate(row.finite);
    outside_ = Isa::count(outside_, outside);
    // Two infinities are alike if their bits are.
    mismatched_ = Isa::count(mismatched_, Isa::first_only(Isa::both(outside, differs), Isa::both(nan_a, nan_b)));
  }

  void reduce_hot() {
    Isa::store(&eights_[0][eights_size_], count_eight<Isa>(hot_[0], planes_[0]));
    Isa::store(&eights_[1][eights_size_], count_eight<Isa>(hot_[1], planes_[1]));
    ++eights_size_;
    hot_size_ = 0;
  }

  void flush_hot(Tally& tally) {
    if (hot_size_ > 0) {
      for (; hot_size_ < 8; ++hot_size_) {
        for (auto& side : hot_) side[hot_size_] = BitVector{};
      }
      reduce_hot();
    }
    for (int side = 0; side < 2; ++side) {
      BitCounter& counter = side == 0 ? tally.above : tally.below;
      for (int k = 0; k < 3; ++k) {  // a counter's first stage takes ones, its second eights
        for (int copy = 0; copy < (1 << k); ++copy) push<Isa>(counter, 0, planes_[side][k]);
      }
      for (int i = 0; i < eights_size_; ++i) push<Isa>(counter, 1, Isa::load_32(&eights_[side][i]));
    }
  }

  std::int64_t index_of(double distance) const {
    for (int r = 0; r < kRows; ++r) {
      const Row row = load(r);
      const unsigned hits = Isa::equals(Isa::abs(Isa::sub(row.b, row.a)), distance);
      if (hits != 0) return r * kLanes + __builtin_ctz(hits);
    }
    return -1;  // not reached: the maximum came from these rows
  }

  double largest_relative() const {
    Doubles largest = Isa::zeros();
    for (int r = 0; r < kRows; ++r) {
      const Row row = load(r);
      largest = Isa::max(largest, Isa::quotient(Isa::abs(Isa::sub(row.b, row.a)), Isa::abs(row.a)));
    }
    return Isa::largest(largest);
  }

  const std::byte* want_;
  const std::byte* got_;
  // |d| <= limit * |a| is cheap and sure: 2^-51 is more than the roundings of the product and of the quotient together.
  double relative_limit_;
  Doubles max_abs_ = Isa::zeros();
  typename Isa::Flags new_relative_ = {};
  Ints differing_ = Isa::no_ints(), zero_equal_ = Isa::no_ints(), zero_a_ = Isa::no_ints(), zero_b_ = Isa::no_ints();
  Ints zero_lost_ = Isa::no_ints(), max_ulp_ = Isa::no_ints(), sum_ulp_ = Isa::no_ints();
  Ints nan_a_ = Isa::no_ints(), nan_b_ = Isa::no_ints(), inf_a_ = Isa::no_ints(), inf_b_ = Isa::no_ints();
  Ints mismatched_ = Isa::no_ints(), outside_ = Isa::no_ints();
  Ints planes_[2][3] = {{Isa::no_ints(), Isa::no_ints(), Isa::no_ints()}, {Isa::no_ints(), Isa::no_ints(), Isa::no_ints()}};
  BitVector hot_[2][8];
  BitVector eights_[2][kRows / 8 + 1];
  int hot_size_ = 0;
  int eights_size_ = 0;
};

template <class Isa, class Element>
BlockSums whole_block(const std::byte* want, const std::byte* got, std::int64_t first, int, Tally& tally) {
  const std::byte* a = want + first * Element::kBytes;
  const std::byte* b = got + first * Element::kBytes;
  LaneSums lanes;
  if (!tally.careful) {
    Block<Isa, Element, false> block(a, b, tally.stats.max_rel);
    if (block.run(lanes)) {
      block.commit(first, tally);
      return fold(lanes);
    }
  }
  Block<Isa, Element, true> block(a, b, tally.stats.max_rel);
  block.run(lanes);
  block.commit(first, tally);
  return fold(lanes);
}

template <class Isa>
BlockFunction block_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32: return whole_block<Isa, ElementF32<Isa>>;
    case Dtype::BF16: return whole_block<Isa, ElementBf16<Isa>>;
    case Dtype::F16: return whole_block<Isa, ElementF16<Isa>>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace parity::pair_detail
