// Launching on the stream of a Launch: the name is noted for the record, and what the launch itself
// reports is thrown. What the kernel does wrong later shows when the harness waits for the stream.
#pragma once

#include <cuda_runtime.h>
#include <string>

#include "harness/cuda/device_memory.hpp"
#include "harness/cuda/launched.hpp"
#include "harness/kernel.hpp"

namespace parity::device {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(std::string(what) + ": " + cudaGetErrorName(status) + " (" +
                    cudaGetErrorString(status) + ")");
}

inline cudaStream_t stream_of(const Launch& l) { return static_cast<cudaStream_t>(l.stream); }

struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
};

template <class... Parameters, class... Arguments>
void launch(const Launch& l, const Grid& grid, void (*kernel)(Parameters...),
            Arguments... arguments) {
  const char* name = nullptr;
  check(cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel)), "the kernel's name");
  note_launched(name);
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream_of(l)>>>(arguments...);
  check(cudaGetLastError(), name);
}

inline void fill_bytes(const Launch& l, void* at, int byte, std::size_t bytes) {
  check(cudaMemsetAsync(at, byte, bytes, stream_of(l)), "fill");
}

}  // namespace parity::device
