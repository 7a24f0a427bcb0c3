// Memory and a stream of device 0, for a process that launches kernels and forks no more: the first
// of either initialises CUDA here. Needs no CUDA header; a build without nvcc has them too, and
// they refuse.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

namespace parity {

// What the device or its driver reported: a failed launch, a fault of a kernel (after which the
// process can do no more on the device), no device.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws DeviceError, or std::bad_alloc where the device's memory is used up. Aligned to 256 bytes.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A stream that does not wait for the default one, so that a kernel launched on the wrong stream is
// not hidden.
class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  void* handle() const { return stream_; }  // cudaStream_t
  // Both return when the bytes have arrived.
  void upload(std::span<const std::byte> from, DeviceMemory& to);
  void download(const DeviceMemory& from, std::span<std::byte> to);
  void copy(const DeviceMemory& from, DeviceMemory& to);  // enqueues it
  void start();
  // Milliseconds on the device since start(), by events. Waits for the stream; throws DeviceError
  // where a kernel failed.
  double stop();
  // Waits for all work of this process on the device, whatever its stream.
  static void finish();

 private:
  void* stream_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
};

}  // namespace parity
