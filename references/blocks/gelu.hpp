// The two GELUs that Kimi K3 mixes: tanh in the vision tower, erf in the projector (k3.md §5.2).
//   erf   x (1 + erf(x / sqrt 2)) / 2
//   tanh  x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
// They differ by at most 4.73e-4, at |x| = 2.70 (Hendrycks and Gimpel, arXiv 1606.08415).
#pragma once

#include "references/blocks/run.hpp"

namespace parity::net {

enum class Gelu : std::uint8_t { Erf, Tanh };

template <class T>
Array<T> gelu(Run<T>&, const Array<T>& x, Gelu);
template <class T>
Array<T> gelu_backward(Run<T>&, const Array<T>& x, const Array<T>& dy, Gelu);

}  // namespace parity::net
