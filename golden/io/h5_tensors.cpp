// .h5 as a file of tensors: every dataset under its path.
#include <memory>

#include "golden/h5.hpp"
#include "golden/io/tensor_file.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::int64_t kWhole = 1LL
                                << 30;  // bytes of a packed dataset that is kept while it is read

}  // namespace

TensorFile open_h5(const fs::path& path) {
  auto file = std::make_shared<const h5::File>(path);
  std::vector<TensorInfo> tensors;
  std::vector<bool> chunked;
  for (const std::string& name : file->datasets("/")) {
    const h5::DatasetInfo info = file->info(name);
    TensorInfo tensor{.name = name,
                      .dtype = info.dtype,
                      .stored = std::string(parity::name(info.dtype)),
                      .shape = info.shape};
    measure(tensor, file->where(name));
    if (tensor.bytes != info.bytes)
      throw UsageError(file->where(name) + ": holds " + std::to_string(info.bytes) +
                       " bytes, its dtype needs " + std::to_string(tensor.bytes));
    tensors.push_back(std::move(tensor));
    chunked.push_back(info.chunked);
  }
  struct Kept {
    std::size_t tensor = SIZE_MAX;
    Tensor whole = {};
  };
  auto kept = std::make_shared<Kept>();
  auto shared = std::make_shared<const std::vector<TensorInfo>>(tensors);
  return {path, std::move(tensors), file->attributes("/"),
          [file, shared, chunked = std::move(chunked), kept](std::size_t tensor, std::int64_t first,
                                                             std::span<std::byte> out) {
            const TensorInfo& info = (*shared)[tensor];
            // A chunk is inflated as a whole, and may be the whole dataset.
            if (chunked[tensor] && info.bytes <= kWhole) {
              if (kept->tensor != tensor) *kept = {tensor, file->read(info.name)};
              const auto begin = kept->whole.bytes.begin() + first;
              std::copy(begin, begin + static_cast<std::ptrdiff_t>(out.size()), out.begin());
            } else {
              file->read_range(info.name, first, out);
            }
          }};
}

void write_h5(const fs::path& path, const Tensors& tensors, const Metadata& metadata) {
  h5::Writer out(path);
  for (const auto& [key, value] : metadata) out.attribute("/", key, value);
  for (const Tensor& tensor : tensors.list())
    out.dataset(tensor.spec.name, tensor, /*contiguous=*/true);
  out.close();
}

}  // namespace parity::io
