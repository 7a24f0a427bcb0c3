// query_devices_here() of a build without nvcc.
#include "harness/cuda/device_info.hpp"

namespace parity {

DeviceReport query_devices_here() { return {.reason = "built without CUDA (no nvcc was found)"}; }

}  // namespace parity
