// What a case of the op asks for, and its inputs widened to fp64.
//
// Options of the op (an absent one has its first value):
//   gate=given|softplus|lower|lower_noA   g is an input, or is made of g_raw (+ A_log, dt_bias) in
//   the kernel lb=-5      lower bound of the gates `lower` and `lower_noA` bias=1     dt_bias is an
//   input (gates in the kernel only) l2norm=1   q and k are divided by sqrt(sum x^2 + 1e-6) in the
//   kernel beta=given|sigmoid|neg   beta is an input, or sigmoid(beta_logit), or 2
//   sigmoid(beta_logit) headwise=1 beta has one value per value column: [B,T,HV,V] instead of
//   [B,T,HV] scale=x    factor on q; absent: K^-0.5 h0=1       initial_state is an input dht=1
//   cotangents/final_state is one vfirst=1   states are [N,HV,V,K] instead of [N,HV,K,V] grad=0
//   forward only: no cotangents, no gradients taps=1     the effective g and beta, and their
//   gradients, are outputs too (what goldens hold) unused=1   the last part of a packed T lies
//   beyond cu_seqlens[-1]: its outputs and gradients are zero halvings=1 every gate is -n ln 2 as
//   the format rounds it and stands for 2^-n exactly (exact probes of kernels whose exponential
//   returns that)
//
// Sizes: B T H K V, HV (H), N follows from T: a packed T ("T3+0+1021", B = 1) is one sequence a
// part. In bf16 cases q, k, v, g_raw, beta, beta_logit, o and their cotangents and gradients are
// bf16; g, A_log, dt_bias and the states are f32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/registry.hpp"

namespace parity::kda {

using Real = std::vector<double>;

enum class Gate : std::uint8_t { Given, Softplus, Lower };

// q and k are [B,T,H,K], v and o [B,T,HV,V], g [B,T,HV,K], beta [B,T,HV] or [B,T,HV,V], states
// [N,HV,K,V]. Token t of sequence n is row starts[n] + t of the B*T rows; value head hv reads the q
// and k of head hv / (HV / H).
struct Setup {
  std::int64_t B = 1, T = 1, H = 1, HV = 1, K = 1, V = 1, N = 1;
  std::vector<std::int64_t> starts = {};  // N + 1 rows
  bool packed = false;
  Gate gate = Gate::Given;
  double lower = 0;
  bool has_A = false, has_bias = false;
  bool l2norm = false;
  bool sigmoid = false;
  double beta_scale = 1;  // 2: eigenvalues down to -1
  bool headwise = false;
  double scale = 1;
  bool h0 = false, dht = false, v_first = false;
  bool gradients = true, taps = false, halvings = false;

  std::int64_t rows() const { return B * T; }
  std::int64_t beta_width() const { return headwise ? V : 1; }
  std::int64_t qk_head(std::int64_t hv) const { return hv / (HV / H); }
};

inline constexpr double kNormEps = 1e-6;       // inside the root, added to the sum of squares
inline constexpr double kSoftplusLinear = 20;  // softplus(z) = z above it

Setup setup_of(const Case&);
std::string refuses(const Case&);
std::vector<TensorSpec> input_specs(const Case&);
std::vector<TensorSpec> output_specs(const Case&);
bool derive(const Case&, Tensor&);  // cu_seqlens

// Inputs as doubles, exactly as stored; states turned to [N,HV,K,V]. Absent ones are empty.
struct Inputs {
  Real q, k, v, g, beta;  // g and beta: given, or raw gate and logits
  Real A_log, dt_bias, h0;
  Real d_o, d_ht;  // cotangents
};
Inputs widen_inputs(const Setup&, const Tensors&);

// [N,HV,K,V] <-> [N,HV,V,K]
Real swap_state(const Setup&, const Real& state, bool to_v_first);

}  // namespace parity::kda
