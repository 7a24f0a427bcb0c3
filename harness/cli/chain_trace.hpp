// Quantiser chains side by side on the same data: each traced step by step (option trace=1), then
// compared at the first step that differs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"

namespace parity::cli {

// A chain with options, as "nvfp4_te_4over6[err=mse]".
struct ChainName {
  std::string chain = {};
  Options options = {};
  std::string text() const;
};
ChainName parse_chain(const std::string& text);  // UsageError: unknown, or not to be traced
std::vector<ChainName> traced_chains();          // every chain that can be, with its own defaults

// The steps that all NVFP4 chains go through, in order.
inline constexpr std::array<std::string_view, 5> kSteps = {"tensor_amax", "scales", "encode_scale",
                                                           "codes", "dequant_f32"};

struct ChainTrace {
  ChainName name = {};
  std::string refused = {};  // why the chain does not take the data; then nothing else is here
  Expected steps = {};
};
ChainTrace trace_of(const ChainName&, const Tensor& x);

struct StepDifference {
  std::int64_t elements = 0;
  std::int64_t differing = 0;
  std::int64_t first = -1;   // flat index
  std::int64_t largest = 0;  // steps of the format, codes and scales
  bool comparable = true;    // factors: one chain multiplies by what the other divides by
  double rate() const {
    return elements == 0 ? 0 : static_cast<double>(differing) / static_cast<double>(elements);
  }
};

struct ChainDifference {
  std::array<StepDifference, kSteps.size()> steps = {};
  int first() const;  // index of the first step that differs, -1: none does
};
// Two NaN are equal; codes of an element that either chain leaves open are not compared.
ChainDifference difference(const ChainTrace& a, const ChainTrace& b);

// 20 log10(|x| / |x - y|) over what is finite; +inf where they are equal.
double sqnr(std::span<const double> x, std::span<const double> y);
// y = x w^T of the dequantised against the exact operands. w: as many columns as x.
double gemm_sqnr(const ChainTrace& x, const Tensor& exact_x, const ChainTrace& w,
                 const Tensor& exact_w);

// Standard normal values, rows x columns.
Tensor normal_matrix(Dtype, std::int64_t rows, std::int64_t columns, std::uint64_t seed);

}  // namespace parity::cli
