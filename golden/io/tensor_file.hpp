// Tensors from elsewhere (interface: README, "Is my kernel right?"): one view of .safetensors (also
// sharded, by its index), .npz, .npy, .h5, .pt and folders of them. Headers are read at once,
// values in ranges, so that memory does not grow with the file. Nothing in a file is ever executed;
// whatever is wrong with one is a UsageError in a line that names file and tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/tensor.hpp"

namespace parity::io {

namespace fs = std::filesystem;

using Metadata = std::map<std::string, std::string>;

struct TensorInfo {
  std::string name = {};
  // Unsigned integers of 16 bits and more have no Dtype: they are read as the signed ones of their
  // width, so that equal bits are equal values; distances wrap.
  Dtype dtype = Dtype::F32;
  std::string stored = {};  // the dtype as the file spells it: "U16", "<f4"
  std::vector<std::int64_t> shape = {};
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};

// Fills elements and bytes. UsageError where the extents are negative or overflow.
void measure(TensorInfo&, const std::string& where);

class TensorFile {
 public:
  // Bytes [first, first + out.size()) of one tensor, dense and row-major. Reading on from where the
  // last read ended is fast in every format.
  using Read =
      std::function<void(std::size_t tensor, std::int64_t first, std::span<std::byte> out)>;

  TensorFile(fs::path path, std::vector<TensorInfo> tensors, Metadata metadata, Read read);
  const fs::path& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // as they lie in the file
  const Metadata& metadata() const { return metadata_; }
  const std::size_t* find(const std::string& name) const;  // null where there is none
  void read(std::size_t tensor, std::int64_t first, std::span<std::byte> out) const;
  Tensor read(std::size_t tensor) const;  // whole; dims are named d0, d1, ...

 private:
  fs::path path_;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  Read read_;
  std::unordered_map<std::string, std::size_t> index_ = {};
};

// By the suffix. A folder that holds a *.safetensors.index.json is that checkpoint; in any other
// one, names are the path below it without the suffix, "/", and the name in the file (an .npy has
// none).
TensorFile open(const fs::path&);
bool is_tensor_file(const fs::path&);

// By the suffix: .safetensors, .npz or .h5. Metadata: that of safetensors, a member "metadata.json"
// of an .npz, attributes of the root of an .h5.
void write(const fs::path&, const Tensors&, const Metadata&);

// One format each.
TensorFile open_safetensors(const fs::path&);
TensorFile open_sharded(const fs::path& index_json);
TensorFile open_npz(const fs::path&);
TensorFile open_npy(const fs::path&);
TensorFile open_h5(const fs::path&);
TensorFile open_torch(const fs::path&);
void write_safetensors(const fs::path&, const Tensors&, const Metadata&);
void write_npz(const fs::path&, const Tensors&, const Metadata&);
void write_h5(const fs::path&, const Tensors&, const Metadata&);

// Files as views of one: names are prefix[i] + name. UsageError where two come out alike.
TensorFile joined(const fs::path& path, std::vector<TensorFile> files,
                  const std::vector<std::string>& prefixes);

bool is_utf8(std::string_view text);

}  // namespace parity::io
