#include "golden/digest.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL  // the header alone: no library to find at run time
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <thread>
#include <xxhash.h>

#include "harness/failure.hpp"

namespace parity::golden {
namespace {

std::string hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string xxh3_hex(std::span<const std::byte> bytes) {
  XXH64_canonical_t canonical;
  XXH64_canonicalFromHash(&canonical, XXH3_64bits(bytes.data(), bytes.size()));
  return hex(canonical.digest);
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1)
    throw Failure("SHA-256 failed");
  return hex(std::span(digest).first(length));
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw UsageError(path.string() + ": cannot be opened");
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    throw UsageError(path.string() + ": not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) throw UsageError(path.string() + ": cannot be mapped");
    data_ = static_cast<const std::byte*>(mapped);
  } else {
    close(fd);
  }
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::fetch(std::span<const std::byte> part) {
  if (part.empty()) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = std::bit_cast<std::uintptr_t>(part.data()) / page * page;
  const std::uintptr_t end = std::bit_cast<std::uintptr_t>(part.data()) + part.size();
#ifdef MADV_POPULATE_READ  // an older kernel refuses, and reading brings the pages one by one
  static_cast<void>(madvise(std::bit_cast<void*>(begin), end - begin, MADV_POPULATE_READ));
#endif
}

std::vector<std::string> block_digests(std::span<const std::byte> bytes, std::size_t block_bytes) {
  constexpr std::size_t kGroup = 1 << 20;  // bytes fetched at once
  const std::size_t count = (bytes.size() + block_bytes - 1) / block_bytes;
  const std::size_t group = std::max<std::size_t>(1, kGroup / block_bytes);  // blocks
  std::vector<std::string> digests(count);
  std::atomic<std::size_t> next = 0;
  const auto part = [&](std::size_t first, std::size_t last) {
    return bytes.subspan(first * block_bytes,
                         std::min(last * block_bytes, bytes.size()) - first * block_bytes);
  };
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(group); i < count; i = next.fetch_add(group)) {
      const std::size_t end = std::min(i + group, count);
      MappedFile::fetch(part(i, end));
      for (std::size_t k = i; k < end; ++k) digests[k] = xxh3_hex(part(k, k + 1));
    }
  };
  const std::size_t threads =
      std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), count / group + 1);
  std::vector<std::jthread> pool;
  for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  return digests;
}

}  // namespace parity::golden
