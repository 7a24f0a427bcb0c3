// The table of one instruction set. Only the instruction-set files include it.
#pragma once

#include "kernels/kda/micro_leaf.hpp"
#include "kernels/kda/micro_math.hpp"
#include "kernels/kda/micro_product.hpp"
#include "kernels/kda/micro_rows.hpp"

namespace parity::kda_kernel {

template <class V>
constexpr Micro table(std::string_view name) {
  return {.name = name,
          .product = product<V>,
          .transpose = transpose<V>,
          .load = load_rows<V>,
          .store = store_rows<V>,
          .decay = decay_rows<V>,
          .gate_grad = gate_grad_rows<V>,
          .sigmoid = sigmoid_rows<V>,
          .exp = exp_rows<V>,
          .normalise = normalise_rows<V>,
          .normalise_grad = normalise_grad_rows<V>,
          .decay_products = decay_product_rows<V>,
          .multiply = multiply_rows<V>,
          .scale = scale_rows<V>,
          .add = add_to<V>,
          .leaf_scores = leaf_scores<V>,
          .leaf_solve = leaf_solve<V>,
          .leaf_solve_back = leaf_solve_back<V>,
          .leaf_grad = leaf_grad<V>,
          .tile_grad = tile_grad_rows<V>,
          .chunk_grad = chunk_grad_rows<V>,
          .column_dots = column_dot_rows<V>,
          .token = token_rows<V>};
}

}  // namespace parity::kda_kernel
