#include "references/blocks/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/failure.hpp"

namespace parity::net {
namespace {

double mscale_of(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

// Share of the original frequency that pair i keeps, 1 to 0 (arXiv 2309.00071, §3.2).
double kept(const Rope& rope, std::int64_t i, std::int64_t R) {
  const auto pair_that_turns = [&](double times) {
    return static_cast<double>(R) * std::log(rope.yarn.original / (times * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  const double low = std::max(std::floor(pair_that_turns(rope.yarn.beta_fast)), 0.0);
  double high =
      std::min(std::ceil(pair_that_turns(rope.yarn.beta_slow)), static_cast<double>(R - 1));
  if (high == low) high += 0.001;
  return 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

double frequency(const Rope& rope, std::int64_t i, std::int64_t R) {
  const double plain = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(R));
  if (rope.yarn.factor <= 1) return plain;
  const double share = kept(rope, i, R);
  return plain / rope.yarn.factor * (1 - share) + plain * share;
}

}  // namespace

double Yarn::softmax_factor() const {
  const double m = mscale_of(factor, mscale_all);
  return m * m;
}
double Yarn::rotary_factor() const {
  return mscale_of(factor, mscale) / mscale_of(factor, mscale_all);
}

template <class T>
Turns<T> turns_at(Run<T>& run, const std::vector<std::int64_t>& positions, std::int64_t R,
                  const Rope& rope) {
  Array<T> angles({std::ssize(positions), R / 2});
  for (std::int64_t i = 0; i < R / 2; ++i) {
    const T turn = static_cast<T>(frequency(rope, i, R));
    for (std::int64_t r = 0; r < angles.rows(); ++r)
      angles[r * (R / 2) + i] = turn * static_cast<T>(positions[static_cast<std::size_t>(r)]);
  }
  Turns<T> turns = turns_by(angles);
  const T factor = static_cast<T>(rope.yarn.rotary_factor());
  for (Array<T>* part : {&turns.cos, &turns.sin}) {
    for (T& x : part->data) x *= factor;
    run.store(*part);
  }
  return turns;
}

template <class T>
Turns<T> turns_by(const Array<T>& angles) {
  Turns<T> turns{angles, angles};
  for (T& x : turns.cos.data) x = std::cos(x);
  for (T& x : turns.sin.data) x = std::sin(x);
  return turns;
}

template <class T>
void rotate(Array<T>& x, std::int64_t from, const Turns<T>& turns, Rope::Pairs pairs, Sense sense) {
  const std::int64_t half = turns.cos.width(), H = x.shape[1];
  if (turns.cos.rows() != x.shape[0] || from + 2 * half > x.width())
    throw Failure("angles do not fit what they turn");
  const bool next = pairs == Rope::Pairs::Interleaved;
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t turn = r / H * half + i, at = r * x.width() + from;
      T &a = x[at + (next ? 2 * i : i)], &b = x[at + (next ? 2 * i + 1 : i + half)];
      const T cos = turns.cos[turn],
              sin = sense == Sense::Forward ? turns.sin[turn] : -turns.sin[turn];
      const T turned = a * cos - b * sin;
      b = a * sin + b * cos;
      a = turned;
    }
}

#define PARITY_INSTANTIATE(T)                                                         \
  template Turns<T> turns_at(Run<T>&, const std::vector<std::int64_t>&, std::int64_t, \
                             const Rope&);                                            \
  template Turns<T> turns_by(const Array<T>&);                                        \
  template void rotate(Array<T>&, std::int64_t, const Turns<T>&, Rope::Pairs, Sense);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
