// Depthwise causal convolution over the tokens of each sequence, then SiLU (kda.md §5.1).
//   z[t,c] = sum_w weight[c,w] x[t-W+1+w, c] (+ bias[c]);  y = silu(z);  before a sequence stands
//   its state, or zero dz = dy silu'(z);  dx_t = sum_w weight[c,w] dz[t+W-1-w];  dweight[c,w] =
//   sum_t dz_t x[t-W+1+w];  dbias = sum_t dz_t
#pragma once

#include <string>

#include "references/blocks/run.hpp"

namespace parity::net {

// x [R,C]; parameter <name>.weight [C,1,W], <name>.bias [C] where there is one; starts: N + 1 rows.
// state: the last W inputs before each sequence, [N,C,W], or null.
template <class T>
Array<T> short_conv(Run<T>&, const Array<T>& x, const std::string& name,
                    const std::vector<std::int64_t>& starts, const Array<T>* state = nullptr);
template <class T>
Array<T> short_conv_backward(Run<T>&, const Array<T>& x, const Array<T>& dy,
                             const std::string& name, const std::vector<std::int64_t>& starts);
// The last W inputs of each sequence (older state, or zeros, in front of a short one): [N,C,W].
template <class T>
Array<T> conv_state(const Array<T>& x, std::int64_t W, const std::vector<std::int64_t>& starts,
                    const Array<T>* state = nullptr);

}  // namespace parity::net
