// The MX kernel around its inner loops: rows over threads, 128x4 scales, dequantisation.
#pragma once

#include <string>

#include "harness/kernel.hpp"
#include "kernels/mx/steps.hpp"

namespace parity::mx_kernel {

std::string refuses(const Case&, const Options&);
void forward(const Launch&, const Steps&);
std::vector<FaultDef> kernel_faults();
Plan plan_of(const Case&);

// A dense matrix whose rows are multiples of 32: blocks, one after the other.
struct Job {
  Dtype dtype = Dtype::F32;
  std::int64_t blocks = 0;
  int threads = 1;
};
void quantise_blocks(const Job&, const Steps&, const Plan&, const std::byte* x, std::uint8_t* codes,
                     std::uint8_t* scales);
void dequantise_blocks(const Job&, const Steps&, const Plan&, const std::uint8_t* codes,
                       const std::uint8_t* scales, std::byte* values);

}  // namespace parity::mx_kernel
