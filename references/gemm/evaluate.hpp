// A gemm case worked out: in fp64 with its magnitude companion, in plain f32, and by a matrix unit.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "references/gemm/problem.hpp"

namespace parity::gemm {

struct Truth {
  std::vector<double> value = {}, scale = {};
};
// Companion: the sum of |x||w| with its scales, where what is below the least normal number of its
// type counts as that number (a matrix unit aligns subnormals as if they were), and |c|.
[[nodiscard]] Truth truth(const Problem&, const Tensors&);

// Codes of y.
using Codes = std::vector<std::uint64_t>;
// f32 products, sums and scalings; variations in order and by roundoffs as BaseRequest asks.
[[nodiscard]] Codes in_f32(const Problem&, const BaseRequest&);
// By the software tensor core, one output after another.
[[nodiscard]] Codes by_units(const Problem&, const Tensors&, const tensorcore::Schedule&,
                             std::string_view fault);
// One part as the matrix unit sees it.
[[nodiscard]] tensorcore::Product product_of(const Problem&, const Tensors&, const Part&,
                                             const tensorcore::Schedule&);
// The same bits, many outputs at a time. Not for f64.
[[nodiscard]] Codes by_lanes(const Problem&, const Tensors&, const tensorcore::Schedule&,
                             int threads);

// What follows the sum: times scale_x[m] and scale_w[n], alpha, scale_result, each one f32
// multiplication; then one rounding to nearest even, which saturates where y has 8 bits.
class Epilogue {
 public:
  Epilogue(const Problem&, const Tensors&, std::string_view fault);
  [[nodiscard]] std::uint64_t operator()(float sum, std::int64_t m, std::int64_t n) const;
  [[nodiscard]] double factor(std::int64_t m, std::int64_t n) const;  // in fp64
  [[nodiscard]] bool idle() const;  // a sum of y's own format is stored as it is

 private:
  const Problem& p_;
  std::vector<float> x_ = {}, w_ = {};
  float alpha_ = 1, result_ = 1;
  std::string_view fault_ = {};
};

}  // namespace parity::gemm
