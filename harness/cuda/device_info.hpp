// The CUDA devices of this machine, for the record of a run and for deciding what a kernel may ask
// for. Needs no CUDA header: it can be asked in a build without nvcc too, and answers why there is
// no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace parity {

struct DeviceInfo {
  std::string name = {};  // "NVIDIA H200"
  int major = 0;          // compute capability: 9.0 is sm_90
  int minor = 0;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;  // at the time of asking

  std::string sm() const;  // "sm_90"
};

struct DeviceReport {
  std::vector<DeviceInfo> devices = {};
  int driver_version = 0;   // newest CUDA that the driver serves, 13000 is 13.0; 0: no driver
  int runtime_version = 0;  // CUDA runtime that this build links; 0: built without CUDA
  std::string reason = {};  // why `devices` is empty; empty when it is not
};

// Asks in a child process, so that the caller has not initialised CUDA and may still fork. Never
// throws for want of a device.
DeviceReport query_devices();

// Asks in this process, which initialises CUDA here: for processes that launch kernels and do not
// fork afterwards.
DeviceReport query_devices_here();

// The device that this process uses, without touching others; free memory is not asked for.
DeviceReport query_device_in_use();

// "13.0" for 13000.
std::string cuda_version_text(int version);

}  // namespace parity
