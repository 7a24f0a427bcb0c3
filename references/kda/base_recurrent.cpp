// The base of kernels that go token by token (contract without a chunk): kda.md §1 and §3 in f32.
#include <algorithm>

#include "references/kda/base_chain.hpp"

namespace parity::kda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Rows32 {
  const float *q, *k, *v, *g, *beta, *d_o;
};

Rows32 rows_of(const Run& run, std::int64_t row, std::int64_t hv) {
  const Setup& s = run.e.setup;
  const Wide& x = run.x;
  const std::size_t qk = at((row * s.H + s.qk_head(hv)) * s.K), value = at((row * s.HV + hv) * s.V);
  return {&x.q[qk],
          &x.k[qk],
          &x.v[value],
          &x.g[at((row * s.HV + hv) * s.K)],
          &x.beta[at((row * s.HV + hv) * s.beta_width())],
          x.d_o.empty() ? nullptr : &x.d_o[value]};
}

// S~, e and u of one token; S is decayed in place.
struct Step {
  Floats32 a, e, u, beta;
};

void decay(Run& run, const Rows32& r, Floats32& S, Step& z) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K), V = at(s.V);
  const std::uint16_t* order = run.e.orders.of(K);
  z.a.resize(K);
  for (std::size_t d = 0; d < K; ++d) z.a[d] = r.g[d] * kLog2e;
  run.e.exp2(z.a, z.a);
  if (run.e.noise.on) jitter(z.a, run.e.noise);
  z.e.assign(V, 0);
  const bool late = run.e.has(Fault::ErrorBeforeDecay);
  for (std::size_t p = 0; p < K; ++p) {
    const std::size_t d = order ? order[p] : p;
    for (std::size_t j = 0; j < V; ++j) {
      const float before = S[d * V + j];
      S[d * V + j] = before * z.a[d];
      z.e[j] += (late ? before : S[d * V + j]) * r.k[d];
    }
  }
  if (run.e.has(Fault::NoDeltaWithoutGate) && run.e.open) z.e.assign(V, 0);
  z.u.resize(V);
  z.beta.resize(V);
  for (std::size_t j = 0; j < V; ++j) {
    z.beta[j] = s.headwise ? r.beta[j] : r.beta[0];
    z.e[j] = r.v[j] - z.e[j];
    z.u[j] = z.beta[j] * z.e[j];
  }
}

void step_back(Run& run, std::int64_t row, std::int64_t hv, const Floats32& S, const Step& z,
               Floats32& lam) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K), V = at(s.V);
  const Rows32 r = rows_of(run, row, hv);
  const auto scale = static_cast<float>(s.scale);
  float *dq = &run.d.q[at((row * s.H + s.qk_head(hv)) * s.K)],
        *dk = &run.d.k[at((row * s.H + s.qk_head(hv)) * s.K)];
  float *dv = &run.d.v[at((row * s.HV + hv) * s.V)], *dg = &run.d.g[at((row * s.HV + hv) * s.K)],
        *dbeta = &run.d.beta[at((row * s.HV + hv) * s.beta_width())];
  Floats32 du(V);
  for (std::size_t d = 0; d < K; ++d) {
    float sum = 0;
    for (std::size_t j = 0; j < V; ++j) {
      sum += (S[d * V + j] + r.k[d] * z.u[j]) * r.d_o[j];
      lam[d * V + j] += scale * r.q[d] * r.d_o[j];
      du[j] += lam[d * V + j] * r.k[d];
    }
    dq[d] += scale * sum;
  }
  for (std::size_t j = 0; j < V; ++j) {
    dv[j] = z.beta[j] * du[j];
    dbeta[s.headwise ? j : 0] += z.e[j] * du[j];
  }
  for (std::size_t d = 0; d < K; ++d) {
    float from_u = 0, from_e = 0, gate = 0;
    for (std::size_t j = 0; j < V; ++j) {
      float& x = lam[d * V + j];
      from_u += x * z.u[j];
      from_e += S[d * V + j] * dv[j];
      const float D = x - r.k[d] * dv[j];
      gate += D * S[d * V + j];
      x = z.a[d] * D;
    }
    dk[d] += from_u - from_e;
    dg[d] = gate;
  }
}

}  // namespace

void run_recurrent(Run& run, std::int64_t n, std::int64_t hv, bool gradients) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K), V = at(s.V), state = K * V, block = at(n * s.HV + hv) * state;
  Floats32 S(state);
  if (s.h0) std::copy_n(run.x.h0.begin() + static_cast<std::ptrdiff_t>(block), state, S.begin());
  std::vector<Floats32> history;  // decayed states
  std::vector<Step> steps;
  Step z;
  const auto scale = static_cast<float>(s.scale);
  for (std::int64_t row = s.starts[at(n)]; row < s.starts[at(n + 1)]; ++row) {
    const Rows32 r = rows_of(run, row, hv);
    float* o = &run.o[at((row * s.HV + hv) * s.V)];
    decay(run, r, S, z);
    if (gradients) {
      history.push_back(S);
      steps.push_back(z);
    }
    for (std::size_t d = 0; d < K; ++d)
      for (std::size_t j = 0; j < V; ++j) {
        S[d * V + j] += r.k[d] * z.u[j];
        o[j] += S[d * V + j] * (scale * r.q[d]);
      }
    run.e.round(run.e.points.state, S);
  }
  std::ranges::copy(S, run.final_state.begin() + static_cast<std::ptrdiff_t>(block));
  if (!gradients) return;
  Floats32 lam(state);
  if (s.dht)
    std::copy_n(run.x.d_ht.begin() + static_cast<std::ptrdiff_t>(block), state, lam.begin());
  for (std::int64_t row = s.starts[at(n + 1)] - 1; row >= s.starts[at(n)];
       --row, history.pop_back(), steps.pop_back())
    step_back(run, row, hv, history.back(), steps.back(), lam);
  if (s.h0) std::ranges::copy(lam, run.d.h0.begin() + static_cast<std::ptrdiff_t>(block));
}

}  // namespace parity::kda
