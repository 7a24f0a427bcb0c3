// One block of the pair statistics by vectors, for an instruction set given as a class of wrapped
// intrinsics: internal to harness/numeric, for pair_stats_avx2.cpp and pair_stats_avx512.cpp alone.
//
// A lane gets what it gets in the plain code, in the same order, so the sums agree bit for bit:
// - products of two f32, bf16 or f16 are exact in double: a fused multiply-add rounds no less;
// - a pair of equal bits adds +0 to the sums of differences and one product to the other three;
// - maxima are of exact values; quotients are formed only in blocks that may hold a new maximum;
// - pairs differ where they are not 0 ulp apart, which the histogram counts, or are zeros of two
// signs;
// - the histogram is counted in bit planes (pair_stats_bits.hpp).
// A block is taken to be finite. If it was not, its squares show it, and it is done again by the
// careful variant.
//
// Work goes by chunks of eight vectors of 64 bytes from either side: are they equal? If not, the
// integers (counts, distances) of this one and of up to three more, and then, while all of it is in
// the first-level cache, the doubles, eight lanes at a time. Each loop has its own registers.
//
// Nothing here may be an inline function of a shared header, or the linker could pick the copy
// compiled for a newer machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/numeric/pair_stats_bits.hpp"
#include "harness/numeric/pair_stats_block.hpp"
#include "harness/numeric/pair_stats_elements.hpp"
#include "harness/numeric/pair_stats_gathered.hpp"

namespace parity::pair_detail {
namespace {

constexpr int kVector = 64;   // bytes
constexpr int kChunk = 8;     // vectors
constexpr int kRun = 4;       // chunks
constexpr int kAhead = 2048;  // bytes: the fetching hardware falls behind where much is computed

template <class Isa, class Element, bool kCareful>
class Block {
  using Ints = typename Isa::Ints;
  using Doubles = typename Isa::Doubles;
  using Words = typename Element::Words;
  using Mask = typename Words::Mask;
  static constexpr int kChunkRows = kChunk * kVector / (kLanes * Element::kBytes);
  static constexpr int kChunkBytes = kChunk * kVector;
  static constexpr int kChunks = kBlock * Element::kBytes / kChunkBytes;

 public:
  Block(const std::byte* want, const std::byte* got, const Tally& tally)
      : want_(want), got_(got), relative_limit_(tally.stats.max_rel * (1 - 0x1p-51)) {
    for (int k = 0; k < 3; ++k) planes_[k] = tally.highest_bits.stages[0].planes[k];
  }

  // False if an infinity or NaN was met (only where not careful): then nothing of it may be taken.
  bool run(LaneSums& lanes) {
    bool equal_so_far = true;
    for (int c = 0; c < kChunks;) {
      if (!kCareful && equal(c)) {
        const std::byte* a = want_ + c++ * kChunkBytes;
        equal_so_far ? squares<false>(a) : squares<true>(a);
        continue;
      }
      if (equal_so_far) {  // until here the three sums of squares were one
        for (Half<Isa>& h : halves_) h.sq_b = h.dot = h.sq_a;
        equal_so_far = false;
      }
      c += kCareful ? careful_chunk(c) : chunks(c);
    }
    if (equal_so_far) {
      for (Half<Isa>& h : halves_) h.sq_b = h.dot = h.sq_a;
    }
    for (int half = 0; half < 2; ++half) {
      const Half<Isa>& h = halves_[half];
      spread(h.sq_diff, half, lanes.sq_diff);
      spread(h.sq_a, half, lanes.sq_a);
      spread(h.sq_b, half, lanes.sq_b);
      spread(h.dot, half, lanes.dot);
      spread(h.diff, half, lanes.diff);
      spread(h.abs_diff, half, lanes.abs_diff);
    }
    // Squares of these formats do not overflow, so that the sums are finite if the elements are.
    return kCareful || Isa::all_finite(Isa::add(Isa::add(halves_[0].sq_a, halves_[0].sq_b),
                                                Isa::add(halves_[1].sq_a, halves_[1].sq_b)));
  }

  void commit(std::int64_t first, Tally& tally) {
    PairStats& s = tally.stats;
    const std::int64_t zeros = Words::total(zero_equal_);
    s.zero_a += zeros;
    s.zero_b += zeros;
    s.finite_pairs += kBlock;
    tally.careful = false;
    if (eights_size_ == 0) return;  // all equal

    for (int k = 0; k < 3; ++k) tally.highest_bits.stages[0].planes[k] = planes_[k];
    push<Isa>(tally.highest_bits, 1, eights_, eights_size_);
    s.differing += Words::total(counts_.differing);
    s.zero_a += Words::total(counts_.zero_a);
    s.zero_b += Words::total(counts_.zero_b);
    s.want_zero_got_nonzero += Words::total(counts_.zero_lost);
    if constexpr (kCareful) {
      s.nan_a += Words::total(careful_.nan_a);
      s.nan_b += Words::total(careful_.nan_b);
      s.inf_a += Words::total(careful_.inf_a);
      s.inf_b += Words::total(careful_.inf_b);
      s.mismatched_nonfinite += Words::total(careful_.mismatched);
      const std::int64_t outside = Words::total(careful_.outside);
      s.finite_pairs -= outside;
      tally.careful = outside != 0;
    }
    const double largest = Isa::largest(Isa::max(halves_[0].max_abs, halves_[1].max_abs));
    if (largest > s.max_abs) {
      s.max_abs = largest;
      s.worst_index = first + index_of(largest);
    }
    const std::int64_t ulp = Words::largest(counts_.max_ulp);
    if (ulp > s.max_ulp) s.max_ulp = ulp;
    if (Isa::any_negative(halves_[0].beyond) || Isa::any_negative(halves_[1].beyond)) {
      const double relative = largest_relative();
      if (relative > s.max_rel) s.max_rel = relative;
    }
    tally.add_ulp(Words::sum(counts_.sum_ulp, counts_.sum_upper));
  }

 private:
  bool equal(int chunk) const {
    const std::byte* a = want_ + chunk * kChunkBytes;
    const std::byte* b = got_ + chunk * kChunkBytes;
    Ints odd = Isa::or_differences(Isa::no_ints(), Isa::load(a), Isa::load(b));
    if (!Isa::is_zero(odd)) return false;  // the rule where all differ: spares the other seven
    for (int i = 1; i < kChunk; ++i) {
      odd = Isa::or_differences(odd, Isa::load(a + i * kVector), Isa::load(b + i * kVector));
    }
    return Isa::is_zero(odd);
  }

  // A chunk of equal pairs. The sums of squares are one until the first difference in the block
  // (kThree: no longer).
  template <bool kThree>
  void squares(const std::byte* a) {
    for (int i = 0; i < kChunk; ++i) {
      zero_equal_ = Words::count(zero_equal_,
                                 Words::no_bits(Isa::load(a + i * kVector), Element::kMagnitude));
    }
    // Both halves at once: each sum waits for itself, not for the others.
    Squares low = squares_of(0), high = squares_of(1);
    for (int row = 0; row < kChunkRows; ++row) {
      low.template add<kThree>(Element::eight(a, row, 0));
      high.template add<kThree>(Element::eight(a, row, 1));
    }
    low.template store<kThree>(halves_[0]);
    high.template store<kThree>(halves_[1]);
  }

  struct Squares {
    Doubles a, b, dot;
    template <bool kThree>
    void add(Doubles x) {
      a = Isa::fused(x, x, a);
      if constexpr (kThree) {
        b = Isa::fused(x, x, b);
        dot = Isa::fused(x, x, dot);
      }
    }
    template <bool kThree>
    void store(Half<Isa>& h) const {
      h.sq_a = a;
      if constexpr (kThree) {
        h.sq_b = b;
        h.dot = dot;
      }
    }
  };
  Squares squares_of(int half) const {
    const Half<Isa>& h = halves_[half];
    return {h.sq_a, h.sq_b, h.dot};
  }

  // The chunk `first` and those behind it that differ too, up to kRun; how many they were.
  int chunks(int first) {
    int count = 0;
    do {
      const std::int64_t at = (first + count) * kChunkBytes;
      integers(want_ + at, got_ + at);
      ++count;
    } while (count < kRun && first + count < kChunks && !equal(first + count));
    doubles(want_ + first * kChunkBytes, got_ + first * kChunkBytes, count * kChunkRows);
    return count;
  }

  int careful_chunk(int chunk) {
    BitVector a[kChunk];
    BitVector b[kChunk];
    finite_parts(want_ + chunk * kChunkBytes, got_ + chunk * kChunkBytes, a, b);
    doubles(reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b),
            kChunkRows);
    return 1;
  }

  void doubles(const std::byte* a, const std::byte* b, int rows) {
    for (int half = 0; half < 2; ++half) {
      Half<Isa> h = halves_[half];
      for (int row = 0; row < rows; ++row) {
        const Doubles x = Element::eight(a, row, half);
        const Doubles y = Element::eight(b, row, half);
        const Doubles d = Isa::sub(y, x);
        const Doubles distance = Isa::abs(d);
        h.max_abs = Isa::max(h.max_abs, distance);
        h.beyond = Isa::or_differences(h.beyond, Isa::fused_minus(x, relative_limit_, d),
                                       Isa::fused(x, relative_limit_, d));
        h.sq_diff = Isa::add(h.sq_diff, Isa::mul(d, d));
        h.sq_a = Isa::fused(x, x, h.sq_a);
        h.sq_b = Isa::fused(y, y, h.sq_b);
        h.dot = Isa::fused(x, y, h.dot);
        h.diff = Isa::add(h.diff, d);
        h.abs_diff = Isa::add(h.abs_diff, distance);
      }
      halves_[half] = h;
    }
  }

  // Counts, distances in ulp and their histogram.
  void integers(const std::byte* a, const std::byte* b) {
    Counts<Isa> n = counts_;
    count([&](int i, Ones& ones) {
      const Ints x = Isa::load(a + i * kVector);
      const Ints y = Isa::load(b + i * kVector);
      __builtin_prefetch(a + i * kVector + kAhead);
      __builtin_prefetch(b + i * kVector + kAhead);
      const Mask zero_x = Words::no_bits(x, Element::kMagnitude);
      const Mask zero_y = Words::no_bits(y, Element::kMagnitude);
      if (Words::any(zero_x, zero_y)) {
        n.differing = Words::count(n.differing,
                                   Words::both(Words::both(zero_x, zero_y), Words::differs(x, y)));
        n.zero_a = Words::count(n.zero_a, zero_x);
        n.zero_b = Words::count(n.zero_b, zero_y);
        n.zero_lost = Words::count(n.zero_lost, Words::first_only(zero_x, zero_y));
      }
      highest_bits(x, y, n, ones);
    });
    counts_ = n;
  }

  // The same where infinities and NaNs are looked for; leaves zeros in the place of pairs that have
  // any.
  void finite_parts(const std::byte* a, const std::byte* b, BitVector* finite_a,
                    BitVector* finite_b) {
    Counts<Isa>& n = counts_;
    CarefulCounts<Isa>& c = careful_;
    const Ints infinity = Words::all(Element::kInfinity);
    count([&](int i, Ones& ones) {
      const Ints x = Isa::load(a + i * kVector);
      const Ints y = Isa::load(b + i * kVector);
      const Ints magnitude_x = Words::with(x, Element::kMagnitude);
      const Ints magnitude_y = Words::with(y, Element::kMagnitude);
      const Mask nan_x = Words::greater(magnitude_x, infinity);
      const Mask nan_y = Words::greater(magnitude_y, infinity);
      const Mask finite =
          Words::both(Words::greater(infinity, magnitude_x), Words::greater(infinity, magnitude_y));
      const Mask outside = Words::negate(finite);
      const Mask differs = Words::differs(x, y);
      c.nan_a = Words::count(c.nan_a, nan_x);
      c.nan_b = Words::count(c.nan_b, nan_y);
      c.inf_a = Words::count(c.inf_a, Words::equal(magnitude_x, infinity));
      c.inf_b = Words::count(c.inf_b, Words::equal(magnitude_y, infinity));
      c.outside = Words::count(c.outside, outside);
      // Infinities are alike if their bits are.
      const Mask mismatch =
          Words::first_only(Words::both(outside, differs), Words::both(nan_x, nan_y));
      c.mismatched = Words::count(c.mismatched, mismatch);
      const Mask zero_x = Words::no_bits(x, Element::kMagnitude);
      const Mask zero_y = Words::no_bits(y, Element::kMagnitude);
      n.differing = Words::count(n.differing, Words::both(outside, differs));
      n.differing = Words::count(n.differing, Words::both(Words::both(zero_x, zero_y), differs));
      n.zero_a = Words::count(n.zero_a, zero_x);
      n.zero_b = Words::count(n.zero_b, zero_y);
      n.zero_lost =
          Words::count(n.zero_lost, Words::both(finite, Words::first_only(zero_x, zero_y)));
      const Ints kept_x = Words::keep(finite, x);
      const Ints kept_y = Words::keep(finite, y);
      Isa::store(&finite_a[i], kept_x);
      Isa::store(&finite_b[i], kept_y);
      highest_bits(kept_x, kept_y, n, ones);
    });
  }

  [[gnu::always_inline]] static void highest_bits(Ints x, Ints y, Counts<Isa>& n, Ones& ones) {
    const Ints rank_x = Words::rank(x, Element::kMagnitude);
    const Ints rank_y = Words::rank(y, Element::kMagnitude);
    const Mask above = Words::greater(rank_y, rank_x);
    const Ints distance = Words::distance(rank_x, rank_y, above);
    n.max_ulp = Words::max_unsigned(n.max_ulp, distance);
    n.sum_ulp = Words::add_double_words(n.sum_ulp, distance);
    n.sum_upper = Words::add_upper(n.sum_upper, distance);
    const Ints highest = Words::highest_bit(distance);
    Isa::store(&ones.all, highest);
    Isa::store(&ones.above, Words::keep(above, highest));
  }

  // The eight vectors of a chunk, vector(0) … vector(7), into the histogram.
  template <class Vector>
  [[gnu::always_inline]] void count(const Vector& vector) {
    Ones ones[kChunk];
    for (int i = 0; i < kChunk; ++i) vector(i, ones[i]);
    count_eight<Isa>(ones, planes_, eights_[eights_size_++]);
  }

  static void spread(Doubles x, int half, double (&lanes)[kLanes]) {
    alignas(64) double part[8];
    Isa::store(part, x);
    for (int i = 0; i < 8; ++i) lanes[Element::lane(half, i)] = part[i];
  }

  // The difference in absolute value, zero where not finite.
  static Doubles distance_of(Doubles x, Doubles y) {
    return Isa::finite_or_zero(Isa::abs(Isa::sub(y, x)));
  }

  std::int64_t index_of(double distance) const {
    for (int row = 0; row < kBlock / kLanes; ++row) {
      alignas(64) double part[2][8];
      for (int half = 0; half < 2; ++half) {
        Isa::store(part[half],
                   distance_of(Element::eight(want_, row, half), Element::eight(got_, row, half)));
      }
      int first = kLanes;
      for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 8; ++i) {
          const int lane = Element::lane(half, i);
          if (part[half][i] == distance && lane < first) first = lane;
        }
      }
      if (first < kLanes) return row * kLanes + first;
    }
    return -1;  // not reached: the maximum came from these rows
  }

  double largest_relative() const {
    Doubles largest = Isa::zeros();
    for (int row = 0; row < kBlock / kLanes; ++row) {
      for (int half = 0; half < 2; ++half) {
        const Doubles x = Isa::abs(Element::eight(want_, row, half));
        const Doubles distance =
            distance_of(Element::eight(want_, row, half), Element::eight(got_, row, half));
        if (Isa::any_greater(distance, Isa::times(x, relative_limit_)))
          largest = Isa::max(largest, Isa::quotient(distance, x));
      }
    }
    return Isa::largest(largest);
  }

  const std::byte* want_;
  const std::byte* got_;
  double relative_limit_;  // 2^-51 is more than the product and the quotient round away
  Half<Isa> halves_[2];
  Ints zero_equal_ = Isa::no_ints();
  Counts<Isa> counts_;
  CarefulCounts<Isa> careful_;
  Ones planes_[3];
  Ones eights_[std::size_t{kChunks}];
  int eights_size_ = 0;
};

template <class Isa, class Element>
BlockSums whole_block(const std::byte* want, const std::byte* got, std::int64_t first, int,
                      Tally& tally) {
  const std::byte* a = want + first * Element::kBytes;
  const std::byte* b = got + first * Element::kBytes;
  LaneSums lanes;
  if (!tally.careful) {
    Block<Isa, Element, false> block(a, b, tally);
    if (block.run(lanes)) {
      block.commit(first, tally);
      return fold(lanes);
    }
  }
  Block<Isa, Element, true> block(a, b, tally);
  block.run(lanes);
  block.commit(first, tally);
  return fold(lanes);
}

template <class Isa>
BlockFunction block_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32:
      return whole_block<Isa, ElementF32<Isa>>;
    case Dtype::BF16:
      return whole_block<Isa, ElementBf16<Isa>>;
    case Dtype::F16:
      return whole_block<Isa, ElementF16<Isa>>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace parity::pair_detail
