// Truth: the recurrence of kda.md §1 and its hand-derived backward (§3), token by token in fp64,
// with the propagated norms of tolerance.md §3.2 beside them.
#pragma once

#include "references/kda/activation.hpp"

namespace parity::kda {

struct Outputs {
  Graded o;            // [B,T,HV,V]
  Graded final_state;  // [N,HV,K,V]
};
Outputs forward(const Setup&, const Inputs&, const Activated&);
Gradients backward(const Setup&, const Inputs&,
                   const Activated&);  // finished: of the inputs as given

// One sequence and value head, as strided rows. `g_error` and `d_o` may be null.
struct Chain {
  std::int64_t tokens = 0;
  std::size_t K = 0, V = 0;
  double scale = 1;
  bool headwise = false;
  const double *q = nullptr, *k = nullptr, *v = nullptr, *g = nullptr, *g_error = nullptr,
               *beta = nullptr, *d_o = nullptr;
  std::size_t qk_stride = 0, v_stride = 0, g_stride = 0, beta_stride = 0;  // from token to token
};
Chain chain_of(const Setup&, const Inputs&, const Activated&, std::int64_t n, std::int64_t hv);

// The state of a chain between tokens, with its companion.
struct Carried {
  Real S;  // K x V
  Real M;  // V: error of a column of S in roundoffs, as a 2-norm over K
  Real G,
      G_error;  // K: gate summed since the start of the 64-token block, and the square of its error
};

// What one token computes on its way.
struct Token {
  Real a;           // K: decay
  Real kept, read;  // K: roundoffs of a decay made token by token, and of one made from prefix sums
  Real r, e, u, beta;   // V
  Real kept_2, read_2;  // V: squared norms of those times S~, by column
  Real M_read;          // V: companion of S~ as it is read
  double q_norm = 0, k_norm = 0;
  explicit Token(std::size_t K, std::size_t V)
      : a(K), kept(K), read(K), r(V), e(V), u(V), beta(V), kept_2(V), read_2(V), M_read(V) {}
};

// S <- diag(a) S, then r, e, u of the token. The companion is not touched.
void decay_token(const Chain&, std::int64_t t, Carried&, Token&);
// The companion's step of tolerance.md §3.2; call between decay_token and the write.
void advance_companion(const Chain&, std::int64_t t, Token&, Carried&);
Carried begin(const Chain&, const double* h0);

}  // namespace parity::kda
