#include "golden/io/bytes.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/failure.hpp"

namespace parity::io {

Bytes::Bytes(const std::filesystem::path& file)
    : path_(file), fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (fd_.get() < 0 || ::fstat(fd_.get(), &status) != 0)
    throw UsageError(name() +
                     (std::filesystem::exists(file) ? ": cannot be read" : ": no such file"));
  if (!S_ISREG(status.st_mode))
    throw UsageError(name() + (S_ISDIR(status.st_mode) ? ": is a folder" : ": is no regular file"));
  size_ = status.st_size;
}

void Bytes::read(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), offset);
    if (got <= 0)
      throw UsageError(name() + ": ends at byte " + std::to_string(offset) + ", " +
                       std::to_string(out.size()) + " bytes too early");
    offset += got;
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::string Bytes::text(std::int64_t offset, std::int64_t bytes) const {
  std::string all(static_cast<std::size_t>(bytes), '\0');
  read(offset, std::as_writable_bytes(std::span(all)));
  return all;
}

std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < std::min(width, sizeof value); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

void put_little_endian(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i)
    out +=
        static_cast<char>(i < sizeof value ? value >> (8 * i) & 0xFF : 0);  // wider: zeros follow
}

}  // namespace parity::io
