// Tokens of no sequence, on a device.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/kda/problem.hpp"

namespace parity::kda_kernel {

// Zero in rows of `row` elements; null: no such tensor.
template <class V>
void clear_unused(const Launch& l, V* tensor, const Shape& s, std::int64_t row) {
  const auto unused = static_cast<std::size_t>(s.tokens() - s.used_tokens());
  if (tensor == nullptr || unused == 0) return;
  device::fill_bytes(l, tensor + s.used_tokens() * row, 0,
                     unused * static_cast<std::size_t>(row) * sizeof(V));
}

}  // namespace parity::kda_kernel
