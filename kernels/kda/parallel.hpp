// Items handed out to threads one by one. Items write disjoint memory and sums over items are made
// afterwards in their order, so the number of threads never shows in the bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace parity::kda_kernel {

// `make()` builds the worker of one thread (its scratch); the worker is then called with item
// numbers.
template <class Make>
void for_each_item(int threads, std::int64_t items, const Make& make) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    auto worker = make();
    for (std::int64_t i = next.fetch_add(1); i < items; i = next.fetch_add(1)) worker(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && t < items; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace parity::kda_kernel
