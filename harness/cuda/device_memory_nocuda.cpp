// Device memory of a build without nvcc: there is none.
#include "harness/cuda/device_memory.hpp"

namespace parity {
namespace {

[[noreturn]] void refuse() { throw DeviceError("built without CUDA (no nvcc was found)"); }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) { refuse(); }
DeviceMemory::~DeviceMemory() = default;

DeviceStream::DeviceStream() { refuse(); }
DeviceStream::~DeviceStream() = default;
void DeviceStream::upload(std::span<const std::byte>, DeviceMemory&) { refuse(); }
void DeviceStream::download(const DeviceMemory&, std::span<std::byte>) { refuse(); }
void DeviceStream::copy(const DeviceMemory&, DeviceMemory&) { refuse(); }
void DeviceStream::start() { refuse(); }
double DeviceStream::stop() { refuse(); }
void DeviceStream::finish() { refuse(); }

}  // namespace parity
