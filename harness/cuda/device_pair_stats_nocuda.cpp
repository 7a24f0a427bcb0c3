// device_pair_stats of a build without nvcc.
#include "harness/cuda/device_pair_stats.hpp"

namespace parity {

DevicePairStats::DevicePairStats(Dtype dtype) : dtype_(dtype), table_(0), parts_(0) {}
void DevicePairStats::enqueue(const std::byte*, const std::byte*, std::int64_t, DeviceStream&) {}
PairStats DevicePairStats::result(DeviceStream&) { return {}; }

PairStats pair_stats_on_device(Dtype dtype, const std::byte*, const std::byte*, std::int64_t,
                               DeviceStream&) {
  DevicePairStats{dtype};  // throws: there is no device memory
  return {};
}

}  // namespace parity
