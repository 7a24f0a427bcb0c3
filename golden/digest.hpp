// Digests: XXH3-64 for change detection, SHA-256 for the identity of a file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace parity::golden {

std::string xxh3_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::byte> bytes);

// A file's bytes, mapped read-only. Throws UsageError naming the file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Brings a part of it into this process at once, which is faster than page by page as it is read;
  // threads may each fetch what they will read.
  static void fetch(std::span<const std::byte> part);

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// XXH3-64 of consecutive blocks, on all cores.
std::vector<std::string> block_digests(std::span<const std::byte> bytes, std::size_t block_bytes);

}  // namespace parity::golden
