// LayerNorm with a bias over the last axis (Ba et al., arXiv 1607.06450):
//   y = w xhat + b, xhat = (x - mean x) r, r = 1/sqrt(mean (x - mean x)^2 + eps)
//   n = w dy;  dx = r (n - mean n - xhat mean(n xhat));  dw = sum_rows dy xhat;  db = sum_rows dy
// Parameters <name>.weight and <name>.bias.
#pragma once

#include <string>

#include "references/blocks/run.hpp"

namespace parity::net {

template <class T>
Array<T> layer_norm(Run<T>&, const Array<T>& x, const std::string& name, double eps);
template <class T>
Array<T> layer_norm_backward(Run<T>&, const Array<T>& x, const Array<T>& dy,
                             const std::string& name, double eps);

}  // namespace parity::net
