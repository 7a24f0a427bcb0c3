// Work split over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace parity {

// Calls work(begin, end) on parts of [0, n), each a multiple of `grain` but for the last.
template <class Work>
void in_ranges(int threads, std::int64_t n, std::int64_t grain, const Work& work) {
  const std::int64_t grains = (n + grain - 1) / grain;
  const std::int64_t parts =
      std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(grains, 1));
  std::vector<std::jthread> others;
  const auto edge = [&](std::int64_t p) { return std::min(n, grains * p / parts * grain); };
  for (std::int64_t p = 1; p < parts; ++p)
    others.emplace_back([&, p] { work(edge(p), edge(p + 1)); });
  work(edge(0), edge(1));
}

// Threads that are worth their start for so many elements.
inline int useful_threads(int threads, std::int64_t elements) {
  constexpr std::int64_t kSmall = 1 << 15;
  return elements < kSmall ? 1 : threads;
}

}  // namespace parity
