// HDF5 behind RAII handles; the one header that includes hdf5.h. Every failure is a UsageError that
// names file and object. Files are not trusted: only hard links below the opened file, only
// deflate, shuffle and fletcher32 filters, no external storage, no virtual datasets, and no more
// memory than what is really stored can inflate to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <hdf5.h>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/tensor.hpp"

namespace parity::h5 {

template <herr_t (*close)(hid_t)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(hid_t id) : id_(id) {}
  Owned(Owned&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (id_ >= 0) close(id_);
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using FileId = Owned<H5Fclose>;
using Group = Owned<H5Gclose>;
using Dataset = Owned<H5Dclose>;
using Attribute = Owned<H5Aclose>;
using Space = Owned<H5Sclose>;
using Type = Owned<H5Tclose>;
using Plist = Owned<H5Pclose>;

using Attributes = std::map<std::string, std::string>;

// A dataset's header, before anything is read.
struct DatasetInfo {
  std::string path = {};
  Dtype dtype =
      Dtype::F64;  // logical: the attribute `dtype` of an integer dataset, else the storage type
  std::vector<std::int64_t> shape = {};
  std::int64_t bytes = 0;         // of the logical data
  std::int64_t stored_bytes = 0;  // in the file
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces =
      {};  // (offset, bytes) in the file: one, or the chunks
  bool chunked = false;
  Attributes attributes = {};
};

class File {
 public:
  explicit File(const std::filesystem::path& path);  // read only
  const std::filesystem::path& path() const { return path_; }

  Attributes attributes(const std::string& group) const;  // numbers and arrays as text
  std::vector<std::string> groups(
      const std::string& group) const;  // names of direct children, sorted
  std::vector<std::string> datasets(
      const std::string& group) const;  // paths relative to `group`, all levels, sorted
  bool has_group(const std::string& path) const;
  DatasetInfo info(const std::string& path) const;
  // Dims are named d0, d1, ...; the op's import renames them. Packed formats keep their logical
  // extent. Text of a fixed length has its characters, as U8, on a last axis.
  Tensor read(const std::string& path) const;
  // Bytes [first, first + out.size()) of the same, whole stored elements.
  void read_range(const std::string& path, std::int64_t first, std::span<std::byte> out) const;
  std::string where(const std::string& object) const;  // "file.h5: /case/inputs/q"

 private:
  std::filesystem::path path_;
  FileId file_;
};

// Writing (freeze): groups are made on the way.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& path);  // truncates
  void attribute(const std::string& object, const std::string& name, const std::string& value);
  void dataset(const std::string& path, const Tensor&, bool contiguous);
  void close();  // throws Failure where the library could not flush

 private:
  std::filesystem::path path_;
  FileId file_;
};

std::string library_version();

}  // namespace parity::h5
