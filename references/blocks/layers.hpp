// Layers that composites are made of, forward and hand-derived backward. The backward takes what
// the forward took, and recomputes the rest. Parameters go by full names; each layer stores its
// result (Run::store).
#pragma once

#include <string>

#include "references/blocks/attention.hpp"
#include "references/blocks/run.hpp"

namespace parity::net {

// y = x W^T (+ bias), W = params/<name>.weight [out, in]; dx = dy W, dW = dy^T x, dbias = sum_rows
// dy.
template <class T>
Array<T> linear(Run<T>&, const Array<T>& x, const std::string& name);
template <class T>
Array<T> linear_backward(Run<T>&, const Array<T>& x, const Array<T>& dy, const std::string& name);

// y = w x r, r = 1/sqrt(mean x^2 + eps), over the last axis;
// dx = r (w dy - xhat mean(w dy xhat)), dw = sum_rows dy xhat.
// cast_first: xhat is stored before w multiplies it (transformers), else w multiplies in wide
// arithmetic.
struct Norm {
  double eps = 1e-5;
  bool cast_first = false;
};
template <class T>
Array<T> rms_norm(Run<T>&, const Array<T>& x, const std::string& weight, const Norm&);
template <class T>
Array<T> rms_norm_backward(Run<T>&, const Array<T>& x, const Array<T>& dy,
                           const std::string& weight, const Norm&);

// Gated units: a(gate) up.
//   SwiGLU  a = gate sigmoid(gate)
//   SiTU    beta tanh(gate/beta) sigmoid(gate) * linear_beta tanh(up/linear_beta); linear_beta 0:
//   up as it is
// (arXiv 2607.24653; derivatives in k3.md §3.1).
struct Unit {
  double beta = 0;  // 0: SwiGLU
  double linear_beta = 0;
};
template <class T>
Array<T> gated_unit(Run<T>&, const Array<T>& gate, const Array<T>& up, const Unit&);
template <class T>
struct GatedUnitGradients {
  Array<T> gate, up;
};
template <class T>
GatedUnitGradients<T> gated_unit_backward(Run<T>&, const Array<T>& gate, const Array<T>& up,
                                          const Array<T>& dy, const Unit&);

// down(unit(gate(x), up(x))) by three linear maps <gate>, <up>, <down> (full names).
struct Mlp {
  std::string gate, up, down;
  Unit unit = {};
};
template <class T>
Array<T> mlp(Run<T>&, const Array<T>& x, const Mlp&);
template <class T>
Array<T> mlp_backward(Run<T>&, const Array<T>& x, const Array<T>& dy, const Mlp&);

// y[r] = table[ids[r]]; the backward adds rows in order of r. A negative id gives zeros and takes
// no gradient.
template <class T>
Array<T> embedding(Run<T>&, const std::vector<std::int64_t>& ids, const std::string& table);
template <class T>
void embedding_backward(Run<T>&, const std::vector<std::int64_t>& ids, const Array<T>& dy,
                        const std::string& table);

// Mean over the labels that are not `ignored` of -log softmax(logits)[label]; sum: not divided.
// d = (softmax - onehot) / count.
template <class T>
struct CrossEntropy {
  T loss = 0;
  Array<T> d_logits;
};
template <class T>
CrossEntropy<T> cross_entropy(Run<T>&, const Array<T>& logits,
                              const std::vector<std::int64_t>& labels, bool mean = true,
                              std::int64_t ignored = -100);

}  // namespace parity::net
