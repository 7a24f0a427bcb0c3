// Device memory, stream and events by the CUDA runtime.
#include <cuda_runtime_api.h>
#include <new>
#include <string>

#include "harness/cuda/device_memory.hpp"

namespace parity {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // one that is not sticky must not be found again by the next call
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw DeviceError(std::string(what) + ": " + cudaGetErrorName(status) + " (" +
                    cudaGetErrorString(status) + ")");
}

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes == 0 ? 1 : bytes), "device memory");
  data_ = static_cast<std::byte*>(data);
}

// After a fault of a kernel this fails too, and the process ends soon.
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);
}

DeviceStream::DeviceStream() {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  stream_ = stream;
  check(cudaEventCreate(&begin), "an event");
  begin_ = begin;
  check(cudaEventCreate(&end), "an event");
  end_ = end;
}

DeviceStream::~DeviceStream() {
  if (end_ != nullptr) cudaEventDestroy(event_of(end_));
  if (begin_ != nullptr) cudaEventDestroy(event_of(begin_));
  if (stream_ != nullptr) cudaStreamDestroy(stream_of(stream_));
}

void DeviceStream::upload(std::span<const std::byte> from, DeviceMemory& to) {
  check(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyHostToDevice,
                        stream_of(stream_)),
        "copy to the device");
  check(cudaStreamSynchronize(stream_of(stream_)), "copy to the device");
}

void DeviceStream::download(const DeviceMemory& from, std::span<std::byte> to) {
  check(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDeviceToHost,
                        stream_of(stream_)),
        "copy from the device");
  check(cudaStreamSynchronize(stream_of(stream_)), "copy from the device");
}

void DeviceStream::copy(const DeviceMemory& from, DeviceMemory& to) {
  check(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDeviceToDevice,
                        stream_of(stream_)),
        "copy on the device");
}

void DeviceStream::start() {
  check(cudaEventRecord(event_of(begin_), stream_of(stream_)), "start");
}

double DeviceStream::stop() {
  check(cudaEventRecord(event_of(end_), stream_of(stream_)), "the kernel");
  check(cudaEventSynchronize(event_of(end_)), "the kernel");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(begin_), event_of(end_)), "the kernel");
  return static_cast<double>(milliseconds);
}

void DeviceStream::finish() { check(cudaDeviceSynchronize(), "the kernel"); }

}  // namespace parity
