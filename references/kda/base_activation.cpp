// Softplus is log(1 + exp z), not log1p, as the kernels have it; dA is summed in blocks of 32
// tokens.
#include "references/kda/base_activation.hpp"

#include <cmath>

namespace parity::kda {
namespace {

constexpr std::int64_t kTokenBlock = 32;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
Floats32 narrowed(const Real& x) { return {x.begin(), x.end()}; }
float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float softplus(float z) {
  return z > static_cast<float>(kSoftplusLinear) ? z : std::log(1 + std::exp(z));
}

float row_sum(const float* x, const float* y, std::size_t K, const std::uint16_t* order) {
  float lanes[kSub] = {}, sum = 0;
  for (std::size_t p = 0; p < K; ++p) {
    const std::size_t d = order ? order[p] : p;
    lanes[p % kSub] += x[d] * y[d];
  }
  for (const float lane : lanes) sum += lane;
  return sum;
}

float inverse_norm(const Engine& e, float sum) {
  constexpr auto kEps = static_cast<float>(kNormEps);
  if (e.has(Fault::EpsOutside)) return 1 / (std::sqrt(sum) + kEps);
  const float eps = e.has(Fault::MeanEps) ? kEps * static_cast<float>(e.setup.K) : kEps;
  return 1 / std::sqrt(sum + eps);
}

Floats32 normalise(Engine& e, const Floats32& x, Floats32& rstd) {
  const std::size_t K = at(e.setup.K);
  Floats32 y(x.size());
  rstd.resize(x.size() / K);
  for (std::size_t r = 0; r < rstd.size(); ++r) {
    const float sum = row_sum(&x[r * K], &x[r * K], K, e.orders.of(K));
    rstd[r] = inverse_norm(e, sum);
    for (std::size_t d = 0; d < K; ++d) y[r * K + d] = x[r * K + d] * rstd[r];
  }
  e.round(e.points.qk, y);
  return y;
}

void normalise_backward(Engine& e, const Floats32& y, const Floats32& rstd, Floats32& d) {
  const std::size_t K = at(e.setup.K);
  for (std::size_t r = 0; r < rstd.size(); ++r) {
    const float dot =
        e.has(Fault::NormConstant) ? 0 : row_sum(&d[r * K], &y[r * K], K, e.orders.of(K));
    for (std::size_t i = r * K; i < (r + 1) * K; ++i) d[i] = d[i] * rstd[r] - dot * y[i] * rstd[r];
  }
}

struct GatePoint {
  float exp_A = 1, z = 0;
};

GatePoint gate_point(const Engine& e, const Narrow& in, std::int64_t row, std::int64_t hv,
                     std::int64_t k) {
  const Setup& s = e.setup;
  const std::int64_t own = e.has(Fault::GateByQkHead) ? s.qk_head(hv) : hv;
  return {
      s.has_A ? std::exp(in.A_log[at(own)]) : 1.0F,
      in.g[at((row * s.HV + hv) * s.K + k)] + (s.has_bias ? in.dt_bias[at(own * s.K + k)] : 0.0F)};
}

void gate_backward(Engine& e, const Narrow& in, const Wide& x, WideGradients& d) {
  const Setup& s = e.setup;
  d.g_raw.resize(in.g.size());
  d.A_log.assign(at(s.has_A ? s.HV : 0), 0);
  Floats32 partial(at(s.HV));
  for (std::int64_t first = 0; first < s.rows(); first += kTokenBlock) {
    partial.assign(at(s.HV), 0);
    for (std::int64_t row = first; row < std::min(first + kTokenBlock, s.rows()); ++row)
      for (std::int64_t hv = 0; hv < s.HV; ++hv)
        for (std::int64_t k = 0; k < s.K; ++k) {
          const GatePoint p = gate_point(e, in, row, hv, k);
          const std::size_t i = at((row * s.HV + hv) * s.K + k);
          const float dy = d.g[i];
          if (s.gate == Gate::Softplus) {
            d.g_raw[i] = -p.exp_A * (dy * (e.has(Fault::SoftplusSlope) ? 1 : sigmoid(p.z)));
            partial[at(hv)] += dy * x.g[i];
          } else {
            const float sig = sigmoid(p.exp_A * p.z);
            d.g_raw[i] = dy * (static_cast<float>(s.lower) * (sig * (1 - sig))) * p.exp_A;
            partial[at(hv)] += d.g_raw[i] * p.z;
          }
        }
    for (std::size_t hv = 0; hv < d.A_log.size(); ++hv) d.A_log[hv] += partial[hv];
  }
  if (!s.has_bias) return;
  Floats32 summand = d.g_raw;
  e.round(e.points.dbias, summand);
  const std::size_t width = at(s.HV * s.K);
  d.dt_bias.assign(width, 0);
  for (std::size_t i = 0; i < summand.size(); ++i) d.dt_bias[i % width] += summand[i];
  e.round(e.points.dbias, d.dt_bias);
}

}  // namespace

Wide activate_base(Engine& e, const Inputs& in, Narrow& narrow) {
  const Setup& s = e.setup;
  narrow = {narrowed(in.q),
            narrowed(in.k),
            narrowed(in.v),
            narrowed(in.g),
            narrowed(in.beta),
            narrowed(in.A_log),
            narrowed(in.dt_bias),
            {},
            {}};
  Wide x{.q = narrow.q,
         .k = narrow.k,
         .v = narrow.v,
         .g = narrow.g,
         .beta = narrow.beta,
         .h0 = narrowed(in.h0),
         .d_o = narrowed(in.d_o),
         .d_ht = narrowed(in.d_ht)};
  if (s.l2norm) {
    x.q = normalise(e, narrow.q, narrow.rstd_q);
    x.k = normalise(e, narrow.k, narrow.rstd_k);
  }
  if (s.sigmoid)
    for (float& b : x.beta) b = static_cast<float>(s.beta_scale) * sigmoid(b);
  if (e.has(Fault::NarrowBeta)) e.round(Point{Dtype::BF16}, x.beta);
  if (s.gate != Gate::Given)
    for (std::int64_t row = 0; row < s.rows(); ++row)
      for (std::int64_t hv = 0; hv < s.HV; ++hv)
        for (std::int64_t k = 0; k < s.K; ++k) {
          const GatePoint p = gate_point(e, narrow, row, hv, k);
          x.g[at((row * s.HV + hv) * s.K + k)] =
              s.gate == Gate::Softplus ? -p.exp_A * softplus(p.z)
                                       : static_cast<float>(s.lower) * sigmoid(p.exp_A * p.z);
        }
  if (e.noise.on && s.gate != Gate::Given) jitter(x.g, e.noise);
  if (e.noise.on && s.sigmoid) jitter(x.beta, e.noise);
  return x;
}

void finish_base(Engine& e, const Narrow& in, const Wide& x, WideGradients& d) {
  const Setup& s = e.setup;
  if (s.l2norm) {
    e.round(e.points.dqk, d.q);
    e.round(e.points.dqk, d.k);
    normalise_backward(e, x.q, in.rstd_q, d.q);
    normalise_backward(e, x.k, in.rstd_k, d.k);
  }
  if (s.gate != Gate::Given) gate_backward(e, in, x, d);
  if (s.sigmoid) {
    const float scale = e.has(Fault::UnscaledBeta) ? 1 : static_cast<float>(s.beta_scale);
    d.beta_logit.resize(d.beta.size());
    for (std::size_t i = 0; i < d.beta.size(); ++i) {
      const float sig = sigmoid(in.beta[i]);
      d.beta_logit[i] = d.beta[i] * scale * sig * (1 - sig);
    }
  }
}

}  // namespace parity::kda
