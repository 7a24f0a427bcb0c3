// HDF5 from elsewhere: as a file of tensors, as a golden, as a recording.
#include <cstdint>

#include "golden/golden.hpp"
#include "golden/io/tensor_file.hpp"

#include "ci/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parity;
  const std::string file = fuzz::file_of(data, size, ".h5");
  fuzz::expect_refusals([&] {
    const io::TensorFile tensors = io::open(file);
    for (std::size_t i = 0; i < tensors.tensors().size(); ++i)
      if (tensors.tensors()[i].bytes < 1 << 24) static_cast<void>(tensors.read(i));
  });
  fuzz::expect_refusals([&] { static_cast<void>(golden::recording_subjects(file)); });
  return 0;
}
