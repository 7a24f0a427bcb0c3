// Files of tensors: the first byte chooses the format, the rest is the file. Every tensor is read,
// and the file is compared with itself.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unistd.h>

#include "golden/io/diff.hpp"
#include "golden/io/mxfp4.hpp"
#include "golden/io/tensor_file.hpp"

#include "ci/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parity;
  if (size == 0) return 0;
  constexpr std::array formats = {".safetensors", ".npz", ".npy", ".pt", ".safetensors.index.json"};
  const std::string file = fuzz::file_of(data + 1, size - 1, formats[data[0] % formats.size()]);
  fuzz::expect_refusals([&] {
    const io::TensorFile tensors = io::open(file);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < tensors.tensors().size(); ++i) {
      bytes += tensors.tensors()[i].bytes;
      if (bytes > 1 << 24) break;  // a zip may hold more than fits in a run
      static_cast<void>(tensors.read(i));
    }
    if (bytes <= 1 << 24) static_cast<void>(io::diff({.a = tensors, .b = tensors}));
  });
  return 0;
}
