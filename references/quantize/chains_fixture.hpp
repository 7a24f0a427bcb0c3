// Chains run on values of a test.
#pragma once

#include <bit>
#include <string_view>
#include <vector>

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize::test {

inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

inline Case problem(std::string_view chain, std::int64_t rows, std::int64_t columns,
                    const Options& options = {}) {
  Case c;
  c.op = "quantize";
  c.sizes = Sizes{{"M", rows, {}}, {"K", columns, {}}};
  c.fill = "test";
  c.options = options;
  c.options.set("chain", chain);
  return c;
}

// x holds the values; what else the chain takes is derived, or 1/2.
inline Tensors tensors(const Case& c, const std::vector<float>& values) {
  const OpDef& op = registry().op_or_throw("quantize");
  Tensors inputs;
  for (const TensorSpec& spec : op.inputs(c)) {
    Tensor tensor = make_tensor(spec);
    if (!op.derive(c, tensor)) {
      std::vector<double> wide(static_cast<std::size_t>(tensor.elements()), 0.5);
      if (spec.name == "x") wide.assign(values.begin(), values.end());
      tensor = make_tensor(spec, wide);
    }
    inputs.add(std::move(tensor));
  }
  return inputs;
}

inline Expected run(std::string_view chain, std::int64_t rows, const std::vector<float>& values,
                    const Options& options = {}, std::string_view fault = {}) {
  const Case c = problem(chain, rows, static_cast<std::int64_t>(values.size()) / rows, options);
  return registry().chain(chain)->quantize(c, tensors(c, values), fault);
}

inline std::vector<int> bytes_of(const Expected& expected, std::string_view name) {
  std::vector<int> bytes;
  for (const std::byte b : expected.find(name)->bits) bytes.push_back(std::to_integer<int>(b));
  return bytes;
}

inline float f(int i) { return static_cast<float>((37 * i + 11) % 64 - 32) / 8; }

// 1.5 decades of scales, a zero block and a tiny one.
inline std::vector<float> known_tensor() {
  std::vector<float> x(96, 0);
  for (int i = 0; i < 32; ++i) {
    x[static_cast<std::size_t>(i)] = f(i);
    x[static_cast<std::size_t>(32 + i)] = f(i) * 0x1p-7F;
  }
  for (int i = 0; i < 16; ++i) x[static_cast<std::size_t>(80 + i)] = f(i) * 0x1p-20F;
  x[5] = 5.25F;
  return x;
}

}  // namespace parity::quantize::test
