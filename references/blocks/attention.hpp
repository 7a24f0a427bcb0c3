// Softmax attention over explicit sets of keys, forward and hand-derived backward (k3.md §2).
#pragma once

#include <cstdint>
#include <vector>

#include "references/blocks/run.hpp"

namespace parity::net {

// Which keys a query row attends to: [first, last), less those that a mask hides.
//   flat   the released code's fully masked row, whose logits are all the smallest finite number:
//          uniform weights, and gradients as if nothing were masked
struct Keys {
  std::int64_t first = 0, last = 0;
  bool flat = false;
  std::vector<std::uint8_t> allowed = {};  // by key, 0 hides; empty: nothing is hidden
  bool sees(std::int64_t s) const {
    return allowed.empty() || allowed[static_cast<std::size_t>(s)] != 0;
  }
};
// Packed documents in one row of tokens, each causal; every token sees `past` keys before them too
// (one document only).
std::vector<Keys> causal_keys(const std::vector<std::int64_t>& documents, std::int64_t past = 0);

// P = softmax(scale q k^T), o = P v by head; q [R,H,Dk], k [S,G,Dk], v [S,G,Dv], query heads
// h G/H read key head floor(h G/H); rows without a key give 0 and lse -inf.
template <class T>
struct Attended {
  Array<T> o;       // [R,H,Dv]
  Array<T> p;       // [R,H,S]
  Array<T> lse;     // [R,H]
  Array<T> o_wide;  // o before it was stored
};
template <class T>
Attended<T> attention(Run<T>&, const Array<T>& q, const Array<T>& k, const Array<T>& v,
                      double scale, const std::vector<Keys>&);

// dP = do v^T, dv = P^T do, dZ = scale P (dP - delta), delta = sum_s P dP = do . o, dq = dZ k,
// dk = dZ^T q; k and v sum over the query heads that read them. Truth takes the first form of
// delta, an f32 base the second, which cancels only up to rounding, their odd variants the other.
// `delta` [R,H] replaces it (faults).
template <class T>
struct AttentionGradients {
  Array<T> q, k, v;
};
template <class T>
AttentionGradients<T> attention_backward(Run<T>&, const Array<T>& q, const Array<T>& k,
                                         const Array<T>& v, const Attended<T>&, const Array<T>& d_o,
                                         double scale, const std::vector<Keys>&,
                                         const Array<T>* delta = nullptr);

}  // namespace parity::net
