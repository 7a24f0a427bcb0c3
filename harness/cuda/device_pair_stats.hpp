// The statistics of a pair of tensors (numeric/pair_stats.hpp) that lie on the device, in one pass
// over them there; 2 KB come back. Counts, maxima, the worst element and the histogram are those of
// the CPU bit for bit, and so are sums that are exact in double. Other sums are made in another
// order, with fused products: each differs by at most elements 2^-52 times the sum of its terms'
// sizes, and is the same for the same tensors on any device.
#pragma once

#include "harness/cuda/device_memory.hpp"
#include "harness/numeric/pair_stats.hpp"

namespace parity {

// Both start at a multiple of 16 bytes. Waits for what was put into the stream before.
[[nodiscard]] PairStats pair_stats_on_device(Dtype dtype, const std::byte* want,
                                             const std::byte* got, std::int64_t elements,
                                             DeviceStream& stream);

// The same in two halves, for who times it: enqueue() starts the pass, result() waits for it.
class DevicePairStats {
 public:
  explicit DevicePairStats(Dtype dtype);
  void enqueue(const std::byte* want, const std::byte* got, std::int64_t elements,
               DeviceStream& stream);
  [[nodiscard]] PairStats result(DeviceStream& stream);

 private:
  Dtype dtype_;
  std::int64_t elements_ = 0;
  DeviceMemory table_, parts_;
};

}  // namespace parity
