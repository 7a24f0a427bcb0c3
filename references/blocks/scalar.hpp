// Small formulas that the layers share.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "references/blocks/run.hpp"

namespace parity::net {

template <class T>
T sigmoid(T x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

template <class T>
T dot(const Run<T>& run, std::span<const T> x, std::span<const T> y) {
  std::vector<T> terms(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) terms[i] = x[i] * y[i];
  return run.sum(terms);
}

}  // namespace parity::net
