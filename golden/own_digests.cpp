// The digests that our own goldens carry: each dataset the XXH3 of its bytes. Contiguous data are
// taken from the mapped file, on all cores; chunks have to be inflated and go through HDF5.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "golden/digest.hpp"
#include "golden/golden.hpp"
#include "golden/h5.hpp"
#include "golden/own.hpp"
#include "harness/failure.hpp"

namespace parity::golden {
namespace {

struct Stored {
  std::string path = {}, digest = {};
  std::span<const std::byte> bytes = {};  // in the mapped file
};

[[noreturn]] void changed(const fs::path& file, const std::string& dataset,
                          const std::string& detail) {
  throw GoldenError(file.string() + ": " + dataset + " is not what was frozen" + detail);
}

std::string digest_of(const h5::DatasetInfo& info, const fs::path& file) {
  const auto it = info.attributes.find("xxh3");
  if (it == info.attributes.end())
    throw GoldenError(file.string() + ": " + info.path + " carries no digest");
  return it->second;
}

bool contiguous(const h5::DatasetInfo& info) {
  return info.pieces.size() == 1 && info.stored_bytes == info.bytes && !info.chunked;
}

void check_mapped(const fs::path& file, const std::vector<Stored>& list) {
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::string worst;  // by name, so that threads never show
  const auto work = [&] {
    for (std::size_t i = next++; i < list.size(); i = next++) {
      MappedFile::fetch(list[i].bytes);
      if (xxh3_hex(list[i].bytes) == list[i].digest) continue;
      const std::lock_guard lock(guard);
      if (worst.empty() || list[i].path < worst) worst = list[i].path;
    }
  };
  {
    const std::size_t threads =
        std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), list.size());
    std::vector<std::jthread> pool;
    for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work);
    work();
  }
  if (worst.empty()) return;
  const auto bad = std::ranges::find(list, worst, &Stored::path);
  changed(file, worst, ": " + std::to_string(bad->bytes.size()) + " bytes with another digest");
}

}  // namespace

Integrity check_dataset_digests(const fs::path& path) {
  const h5::File file(path);
  const MappedFile mapped(path);
  Integrity integrity{.by = "digests of its datasets"};
  std::vector<Stored> list;
  for (const std::string& name : file.datasets("/")) {
    const h5::DatasetInfo info = file.info("/" + name);
    const std::string digest = digest_of(info, path);
    integrity.bytes += info.bytes;
    ++integrity.digests;
    if (info.bytes > 0 && contiguous(info)) {
      const auto [offset, bytes] = info.pieces.front();
      const std::uint64_t size = mapped.bytes().size();
      if (offset > size || bytes > size - offset)
        changed(path, info.path, ": the file ends before it does");
      list.push_back({info.path, digest, mapped.bytes().subspan(offset, bytes)});
    } else if (xxh3_hex(file.read(info.path).bytes) != digest) {
      changed(path, info.path, "");
    }
  }
  check_mapped(path, list);
  return integrity;
}

}  // namespace parity::golden
