// Rotary position embedding (arXiv 2104.09864): pair i of a head turns by position theta^(-2i/R).
//   Interleaved   pairs (x_2i, x_2i+1), as DeepSeek-V3's complex product
//   Half          pairs (x_i, x_{i+R/2}), "rotate half"
// The two differ by one permutation of channels of q and k alike, so q.k is the same.
// YaRN (arXiv 2309.00071): frequencies that turn less than beta_slow times over the original
// context are divided by `factor`, those that turn more than beta_fast times stay, linear between;
// cosines and sines are multiplied by m(mscale)/m(mscale_all) and the softmax scale by
// m(mscale_all)^2, with m(s) = 0.1 s ln(factor) + 1.
#pragma once

#include <cstdint>
#include <vector>

#include "references/blocks/run.hpp"

namespace parity::net {

struct Yarn {
  double factor = 1;  // 1: none
  double original = 4096;
  double beta_fast = 32, beta_slow = 1;
  double mscale = 1, mscale_all = 1;

  double softmax_factor() const;  // of the logits
  double rotary_factor() const;   // of cosines and sines
};

struct Rope {
  enum class Pairs : std::uint8_t { None, Interleaved, Half };
  Pairs pairs = Pairs::None;
  double theta = 10000;
  Yarn yarn = {};
};

// Cosines and sines by row and pair, [rows, R/2].
template <class T>
struct Turns {
  Array<T> cos, sin;
};
template <class T>
Turns<T> turns_at(Run<T>&, const std::vector<std::int64_t>& positions, std::int64_t R, const Rope&);
template <class T>
Turns<T> turns_by(const Array<T>& angles);  // given, [rows, R/2]

// Channels [from, from + R) of every head of x [rows, H, D] are turned, or turned back (the
// backward: the transpose).
enum class Sense : std::uint8_t { Forward, Back };
template <class T>
void rotate(Array<T>& x, std::int64_t from, const Turns<T>&, Rope::Pairs, Sense);

}  // namespace parity::net
