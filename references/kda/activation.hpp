// What happens before and after the recurrence: gate, beta and norm in the kernel (kda.md §2), and
// their gradients, in fp64, each with its magnitude companion in units of the roundoff of a wide
// (f32) evaluation.
#pragma once

#include "references/kda/problem.hpp"

namespace parity::kda {

struct Activated {
  Real q, k;            // normalised where the kernel does it
  Real rstd_q, rstd_k;  // [B,T,H]; empty without the norm
  Real g;               // natural-log decay a token
  Real g_error;  // roundoffs by which an evaluation in the accumulator's type may miss g, absolute
  Real beta;
  Real beta_scale;
};
Activated activate(const Setup&, const Inputs&);

// A gradient and its companion; empty where the case has none.
struct Graded {
  Real value, scale;
  Graded() = default;
  explicit Graded(std::size_t n) : value(n), scale(n) {}
};
struct Gradients {
  Graded q, k, v, g, beta,
      h0;  // g, beta: of the effective ones; q, k: of the caller's after finish()
  Graded g_raw, A_log, dt_bias, beta_logit;
  Real g_own, g_row;  // what g.scale is made of: the token's own part, and its row of dG, which the
                      // sum over the rest of the block passes on to every token before it
};

inline constexpr std::int64_t kGateBlock =
    64;  // the longest prefix sum of a gate in use; shorter ones err less

// From the gradients of what the recurrence sees to those of the inputs. q and k arrive summed over
// their value heads.
void finish(const Setup&, const Inputs&, const Activated&, Gradients&);

}  // namespace parity::kda
