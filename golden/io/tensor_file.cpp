#include "golden/io/tensor_file.hpp"

#include <algorithm>
#include <memory>

#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::size_t kMostFiles = 100'000;  // below one folder
constexpr const char* kSuffixes[] = {".safetensors", ".npz", ".npy", ".h5", ".hdf5", ".pt"};
constexpr const char* kIndex = ".safetensors.index.json";

bool is_index(const fs::path& path) { return path.filename().string().ends_with(kIndex); }

TensorFile open_folder(const fs::path& folder) {
  std::vector<fs::path> files, indices;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (is_index(entry.path())) indices.push_back(entry.path());
  if (indices.size() > 1)
    throw UsageError(folder.string() + ": holds two checkpoints; name the *" + kIndex);
  if (indices.size() == 1) return open_sharded(indices.front());
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_tensor_file(entry.path())) files.push_back(entry.path());
    if (files.size() > kMostFiles)
      throw UsageError(folder.string() + ": holds more than " + std::to_string(kMostFiles) +
                       " files of tensors");
  }
  if (files.empty())
    throw UsageError(folder.string() + ": holds no .safetensors, .npz, .npy, .h5 or .pt file");
  std::ranges::sort(files);
  std::vector<TensorFile> opened;
  std::vector<std::string> prefixes;
  for (const fs::path& file : files) {
    opened.push_back(open(file));
    const std::string below = fs::relative(file, folder).replace_extension().generic_string();
    prefixes.push_back(file.extension() == ".npy" ? below : below + "/");
  }
  return joined(folder, std::move(opened), prefixes);
}

}  // namespace

void measure(TensorInfo& tensor, const std::string& where) {
  tensor.elements = 1;
  for (const std::int64_t extent : tensor.shape)
    if (extent < 0 || __builtin_mul_overflow(tensor.elements, extent, &tensor.elements))
      throw UsageError(where + ": an extent is negative, or their product overflows");
  if (tensor.elements > (std::int64_t{1} << 59))  // bytes fit, whatever the dtype
    throw UsageError(where + ": its extents overflow");
  if (tensor.dtype == Dtype::E2M1 && tensor.elements % 2 != 0)
    throw UsageError(where + ": an odd number of packed codes");
  tensor.bytes = static_cast<std::int64_t>(bytes_for(tensor.dtype, tensor.elements));
}

TensorFile::TensorFile(fs::path path, std::vector<TensorInfo> tensors, Metadata metadata, Read read)
    : path_(std::move(path)),
      tensors_(std::move(tensors)),
      metadata_(std::move(metadata)),
      read_(std::move(read)) {
  index_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!index_.emplace(tensors_[i].name, i).second)
      throw UsageError(path_.string() + ": '" + tensors_[i].name + "' is there twice");
}

const std::size_t* TensorFile::find(const std::string& name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &it->second;
}

void TensorFile::read(std::size_t tensor, std::int64_t first, std::span<std::byte> out) const {
  const std::int64_t bytes = tensors_.at(tensor).bytes;
  if (first < 0 || first > bytes || static_cast<std::int64_t>(out.size()) > bytes - first)
    throw Failure("a read beyond " + tensors_[tensor].name);
  if (!out.empty()) read_(tensor, first, out);
}

Tensor TensorFile::read(std::size_t tensor) const {
  const TensorInfo& info = tensors_.at(tensor);
  TensorSpec spec{.name = info.name, .dtype = info.dtype};
  for (std::size_t i = 0; i < info.shape.size(); ++i)
    spec.dims.push_back({"d" + std::to_string(i), info.shape[i]});
  Tensor whole = make_tensor(std::move(spec));
  read(tensor, 0, whole.bytes);
  return whole;
}

bool is_tensor_file(const fs::path& path) {
  return std::ranges::find(kSuffixes, path.extension().string()) != std::end(kSuffixes);
}

TensorFile open(const fs::path& path) {
  if (fs::is_directory(path)) return open_folder(path);
  if (!fs::exists(path)) throw UsageError(path.string() + ": no such file");
  if (is_index(path)) return open_sharded(path);
  const std::string suffix = path.extension();
  if (suffix == ".safetensors") return open_safetensors(path);
  if (suffix == ".npz") return open_npz(path);
  if (suffix == ".npy") return open_npy(path);
  if (suffix == ".pt") return open_torch(path);
  if (suffix == ".h5" || suffix == ".hdf5") return open_h5(path);
  throw UsageError(path.string() + ": its suffix is none of .safetensors, " + kIndex +
                   ", .npz, .npy, .h5, .pt");
}

void write(const fs::path& path, const Tensors& tensors, const Metadata& metadata) {
  const std::string suffix = path.extension();
  if (suffix == ".safetensors") return write_safetensors(path, tensors, metadata);
  if (suffix == ".npz") return write_npz(path, tensors, metadata);
  if (suffix == ".h5") return write_h5(path, tensors, metadata);
  throw UsageError(path.string() + ": written are .safetensors, .npz and .h5");
}

TensorFile joined(const fs::path& path, std::vector<TensorFile> files,
                  const std::vector<std::string>& prefixes) {
  std::vector<TensorInfo> tensors;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // file, tensor in it
  Metadata metadata;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < files[i].tensors().size(); ++j) {
      tensors.push_back(files[i].tensors()[j]);
      TensorInfo& tensor = tensors.back();
      const bool nameless = files[i].path().extension() == ".npy";
      tensor.name = nameless ? prefixes[i] : prefixes[i] + tensor.name;
      places.emplace_back(i, j);
    }
    for (const auto& [key, value] : files[i].metadata()) metadata.emplace(key, value);
  }
  auto shared = std::make_shared<const std::vector<TensorFile>>(std::move(files));
  return {path, std::move(tensors), std::move(metadata),
          [shared, places = std::move(places)](std::size_t tensor, std::int64_t first,
                                               std::span<std::byte> out) {
            const auto [file, at] = places[tensor];
            (*shared)[file].read(at, first, out);
          }};
}

// RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t more = lead < 0x80   ? 0
                             : lead < 0xC2 ? 9
                             : lead < 0xE0 ? 1
                             : lead < 0xF0 ? 2
                             : lead < 0xF5 ? 3
                                           : 9;
    if (more >= text.size() - i) return false;
    for (std::size_t k = 1; k <= more; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    const auto second = more ? static_cast<unsigned char>(text[i + 1]) : 0u;
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
      return false;
    i += more + 1;
  }
  return true;
}

}  // namespace parity::io
