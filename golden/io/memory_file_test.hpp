// A file of tensors in memory: no disk is needed to compare.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "golden/io/tensor_file.hpp"

namespace parity::io::test {

inline TensorFile file_of(std::vector<Tensor> list) {
  std::vector<TensorInfo> infos;
  for (const Tensor& t : list) {
    TensorInfo info{.name = t.spec.name, .dtype = t.spec.dtype};
    for (const Dim& dim : t.spec.dims) info.shape.push_back(dim.extent);
    measure(info, t.spec.name);
    infos.push_back(std::move(info));
  }
  return {"memory",
          std::move(infos),
          {},
          [list = std::move(list)](std::size_t i, std::int64_t first, std::span<std::byte> out) {
            std::copy_n(list[i].bytes.begin() + first, out.size(), out.begin());
          }};
}

}  // namespace parity::io::test
