// query_devices_here() of a build without nvcc.
#include "harness/cuda/device_info.hpp"

namespace parity {

DeviceReport query_devices_here() { return {.reason = "built without CUDA (no nvcc was found)"}; }

DeviceReport query_device_in_use() { return query_devices_here(); }

}  // namespace parity
