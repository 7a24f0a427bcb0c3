// What the small row kernels share: elements of f32 or bf16, a sum in eight lanes, and slots of
// work that do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "harness/kernel.hpp"
#include "harness/numeric/formats.hpp"

namespace parity::unit_kernel {

inline float widen(float x) { return x; }
inline float widen(std::uint16_t x) { return float_from_bf16(x); }
inline void narrow(float x, float& to) { to = x; }
inline void narrow(float x, std::uint16_t& to) { to = bf16_from_float(x); }

// Calls f with a value of the element's storage type.
template <class F>
void with_storage(Dtype dtype, const F& f) {
  if (dtype == Dtype::BF16)
    f(std::uint16_t{});
  else
    f(float{});
}

// n terms in eight running sums, which are added in pairs: the order of a vector register, whatever
// the machine.
template <class Term>
float lane_sum(std::int64_t n, const Term& term) {
  float lane[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) lane[j] += term(i + j);
  for (int j = 0; i < n; ++i, ++j) lane[j] += term(i);
  for (int width = 4; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  return lane[0];
}

// Slot s of `slots` has rows [first(s), first(s + 1)).
inline std::int64_t slot_edge(std::int64_t slot, std::int64_t slots, std::int64_t rows) {
  return rows * slot / slots;
}

template <class Work>
void for_slots(int threads, std::int64_t slots, const Work& work) {
  const std::int64_t workers =
      std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(slots, 1));
  std::vector<std::jthread> others;
  const auto run = [&](std::int64_t worker) {
    for (std::int64_t s = worker; s < slots; s += workers) work(s);
  };
  for (std::int64_t w = 1; w < workers; ++w) others.emplace_back([&, w] { run(w); });
  run(0);
}

inline constexpr std::int64_t kSlots = 16;

// Without overflow: exp of what is not positive.
inline float sigmoid(float x) {
  const float e = std::exp(-std::fabs(x));
  const float d = 1 / (1 + e);
  return x >= 0 ? d : e * d;
}

inline const Contract kF32Contract{.name = "f32",
                                   .dtypes = {Dtype::F32, Dtype::BF16},
                                   .accumulate = Dtype::F32,
                                   .invariant = {"threads"}};

}  // namespace parity::unit_kernel
