// How a recipe of low-precision training makes the three products of a linear layer: which operand
// is quantised by which chain, along which axis, and what happens to the product afterwards.
//
//   y[M,N] = x w^T        dgrad  dx[M,K] = dy w        wgrad  dw[N,K] = dy^T x
//
// Operands are the *stored* ones: the exact values of codes and scales, without the scale of the
// tensor, which becomes a factor of the product. An error against them is the kernel's own; that of
// the recipe itself is the distance to the product of the unquantised operands.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"
#include "references/linear/product.hpp"

namespace parity::linear {

struct Extents {
  std::int64_t M = 0, N = 0, K = 0;
};
Extents extents(const Case&);
Dtype out_dtype(const Case&);       // of y: option out, else the case's
Dtype gradient_dtype(const Case&);  // as y, but for outputs of eight bits

// How a product becomes an output.
enum class Finish : std::uint8_t {
  FactorFirst,  // R(fl(sum factor))
  FactorLast    // R(R(sum) R(factor)): torchao's inference and QAT
};

struct Gemm {
  Dense a = {}, b = {};  // factor a b^T
  double factor = 1;
  Finish finish = Finish::FactorFirst;
  bool transposed = false;           // the output is the transpose of a b^T
  std::optional<Dense> stated = {};  // the output bit for bit, by the order that the source states
};

struct Plan {
  Gemm fprop = {}, dgrad = {}, wgrad = {};
  std::vector<ExpectedTensor> taps = {};  // "tap/x_codes", ...
  std::string refused = {};
};

struct Problem {
  const Case& c;
  const Tensors& tensors;
  std::string_view fault = {};
  bool gradients = true;
  bool has(std::string_view name) const { return tensors.find(name) != nullptr; }
  bool faulty(std::string_view id) const { return !fault.empty() && fault == id; }
};

struct Recipe {
  std::string_view name = {};
  std::string_view what = {};
  std::string_view chain = {};  // of its operands
  Plan (*plan)(const Problem&) = nullptr;
  // Spec of a tap by its name without "tap/"; what the recipe has.
  std::vector<TensorSpec> (*taps)(const Case&) = nullptr;
  bool exact = false;  // integers: every product has its stated bits
  Finish finish = Finish::FactorFirst;
};
const std::vector<Recipe>& recipes();
const Recipe* recipe_of(const Case&);  // by the option `recipe`

// The recipes, one file each.
Recipe nvfp4_te();
Recipe nvfp4_qat();
Recipe mx_qat();
Recipe fp8_torchao();
Recipe int8_training();
Recipe int4_weight();
Recipe nvfp4_weight();

// ---- a registered chain, run on one operand

struct Operand {
  Expected parts = {};  // by the chain's own names: codes, scales, dequant, ...
  std::string refused = {};
  const ExpectedTensor& part(std::string_view name) const;
  double number(std::string_view name) const { return part(name).value.front(); }
};
// `x`: a matrix under any name. `more`: further inputs of the chain.
Operand run_chain(const Options&, const Tensor& x, std::vector<Tensor> more = {});
// Specs of what the chain gives for a matrix of that size, renamed to "tap/<prefix>_<name>".
std::vector<TensorSpec> chain_specs(const Options&, Dtype, std::int64_t rows, std::int64_t columns,
                                    std::string_view prefix,
                                    const std::vector<std::string_view>& names);
void add_taps(Plan&, const Operand&, std::string_view prefix,
              const std::vector<std::string_view>& names);

Tensor transposed(const Tensor&);
Dense dense_of(const Tensor&);
Dense dense_of(const ExpectedTensor&);
// codes times the scale of their block of `block` columns.
Dense scaled_blocks(const ExpectedTensor& codes, const ExpectedTensor& scales, std::int64_t block,
                    bool neighbour = false);

}  // namespace parity::linear
