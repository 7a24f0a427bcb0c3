// Gated units (references/blocks/layers.hpp) over rows of registers.
#pragma once

#include <cstdint>

namespace parity::moe_kernel {

struct GatedUnit {
  float beta = 0, linear_beta = 0;  // 0: SwiGLU; up as it is
};

// n a multiple of 16. The slopes, where wanted, are d value / d gate and d value / d up.
void unit_row(const float* gate, const float* up, std::int64_t n, const GatedUnit&, float* value,
              float* by_gate = nullptr, float* by_up = nullptr);

}  // namespace parity::moe_kernel
