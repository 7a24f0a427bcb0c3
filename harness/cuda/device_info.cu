// query_devices_here() with the CUDA runtime.
#include <cuda_runtime_api.h>

#include "harness/cuda/device_info.hpp"

namespace parity {

DeviceReport query_devices_here() {
  DeviceReport report;
  cudaRuntimeGetVersion(&report.runtime_version);
  cudaDriverGetVersion(&report.driver_version);  // 0 where no driver is installed

  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    report.reason = report.driver_version == 0 ? "no CUDA driver is installed"
                    : counted != cudaSuccess   ? cudaGetErrorString(counted)
                                               : "the CUDA driver sees no device";
    cudaGetLastError();  // a failed count leaves an error behind, which the next launch would
                         // report as its own
    return report;
  }

  for (int d = 0; d < count; ++d) {
    cudaDeviceProp properties{};
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    cudaError_t status = cudaGetDeviceProperties(&properties, d);
    if (status == cudaSuccess) status = cudaSetDevice(d);
    if (status == cudaSuccess) status = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (status != cudaSuccess) {
      report.devices.clear();
      report.reason = "device " + std::to_string(d) + ": " + cudaGetErrorString(status);
      cudaGetLastError();
      return report;
    }
    report.devices.push_back({.name = properties.name,
                              .major = properties.major,
                              .minor = properties.minor,
                              .multiprocessors = properties.multiProcessorCount,
                              .memory_bytes = static_cast<std::int64_t>(total_bytes),
                              .free_bytes = static_cast<std::int64_t>(free_bytes)});
  }
  cudaSetDevice(0);
  return report;
}

DeviceReport query_device_in_use() {
  DeviceReport report;
  int device = 0;
  cudaDeviceProp properties{};
  cudaError_t status = cudaDriverGetVersion(&report.driver_version);
  if (status == cudaSuccess) status = cudaRuntimeGetVersion(&report.runtime_version);
  if (status == cudaSuccess) status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaGetDeviceProperties(&properties, device);
  if (status != cudaSuccess) {
    report.reason = cudaGetErrorString(status);
    cudaGetLastError();
    return report;
  }
  report.devices.push_back({.name = properties.name,
                            .major = properties.major,
                            .minor = properties.minor,
                            .multiprocessors = properties.multiProcessorCount,
                            .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)});
  return report;
}

}  // namespace parity
