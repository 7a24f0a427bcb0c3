// The softmax of mla: attention.online on rows that are not tensors of the case.
#pragma once

#include "kernels/unit/nested.hpp"

namespace parity::mla_kernel {

// Causal from the end of the keys, or of all keys; documents are the parts of T.
struct Softmax {
  std::int64_t B = 1, S = 0, H = 1, G = 1, D = 0, V = 0;  // q [B,T,H,D], k [B,S,G,D], v [B,S,G,V]
  Size T = {};
  bool causal = true;
  double scale = 1;
  int threads = 1;
  std::string_view fault = {};
};

class Attended {
 public:
  Attended(const Softmax&, std::span<const float> q, std::span<const float> k,
           std::span<const float> v);
  std::span<const float> o() const { return kernel_.out("o"); }  // [B,T,H,V]

  struct Gradients {
    std::span<const float> q, k, v;  // of this object
  };
  Gradients backward(std::span<const float> d_o);

 private:
  unit_kernel::Nested kernel_;
};

}  // namespace parity::mla_kernel
