// A file that is read in pieces. Files are not trusted: what a header claims is checked against
// size() before anything is allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "harness/process.hpp"

namespace parity::io {

class Bytes {
 public:
  explicit Bytes(const std::filesystem::path& file);  // UsageError: absent, a folder, unreadable
  std::int64_t size() const { return size_; }
  std::string name() const { return path_.string(); }
  void read(std::int64_t offset, std::span<std::byte> out) const;  // UsageError where it ends early
  std::string text(std::int64_t offset, std::int64_t bytes) const;

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::int64_t size_ = 0;
};

// Little-endian number of `width` bytes.
std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t width);
void put_little_endian(std::string& out, std::uint64_t value, std::size_t width);

}  // namespace parity::io
