// Companions: a term c |x| says that the evaluation may be off by c roundoffs of |x|. Where an
// operand carries an error of its own it is multiplied by the derivative; 1 - s of a sigmoid is
// exact to one roundoff of 1, not of 1 - s, and softplus as log(1 + exp z) to one roundoff of 1 +
// exp z, that is of 1 in the logarithm (kda.md §2.1).
#include "references/kda/activation.hpp"

#include <cmath>

namespace parity::kda {
namespace {

// A result below the smallest normal f32 may be flushed: that many roundoffs (2^-24) are 2^-126.
constexpr double kFlushed = 0x1p-102;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double softplus(double z) { return z > kSoftplusLinear ? z : std::log1p(std::exp(z)); }
double softplus_slope(double z) { return z > kSoftplusLinear ? 1 : sigmoid(z); }

// y = x rstd by rows of K.
void normalise(const Real& x, std::size_t K, Real& y, Real& rstd) {
  rstd.resize(x.size() / K);
  y.resize(x.size());
  for (std::size_t r = 0; r < rstd.size(); ++r) {
    double sum = kNormEps;
    for (std::size_t i = r * K; i < (r + 1) * K; ++i) sum += x[i] * x[i];
    rstd[r] = 1 / std::sqrt(sum);
    for (std::size_t i = r * K; i < (r + 1) * K; ++i) y[i] = x[i] * rstd[r];
  }
}

// dx = rstd (dy - y (y . dy)), exact with eps: d rstd / dx = -x rstd^3.
void normalise_backward(const Real& y, const Real& rstd, std::size_t K, Graded& d) {
  for (std::size_t r = 0; r < rstd.size(); ++r) {
    double dot = 0, dot_error = 0, norm = 0;
    for (std::size_t i = r * K; i < (r + 1) * K; ++i) {
      dot += y[i] * d.value[i];
      dot_error += std::abs(y[i]) * d.scale[i];
      norm += d.value[i] * d.value[i];
    }
    norm = std::sqrt(norm);
    for (std::size_t i = r * K; i < (r + 1) * K; ++i) {
      d.scale[i] =
          rstd[r] * (d.scale[i] + std::abs(d.value[i]) + std::abs(y[i]) * (dot_error + norm));
      d.value[i] = rstd[r] * (d.value[i] - y[i] * dot);
    }
  }
}

struct GatePoint {
  double A = 0, exp_A = 1, z = 0;
};

GatePoint gate_point(const Setup& s, const Inputs& in, std::int64_t row, std::int64_t hv,
                     std::int64_t k) {
  GatePoint p;
  p.A = s.has_A ? in.A_log[at(hv)] : 0;
  p.exp_A = std::exp(p.A);
  p.z = in.g[at((row * s.HV + hv) * s.K + k)] + (s.has_bias ? in.dt_bias[at(hv * s.K + k)] : 0);
  return p;
}

void activate_gate(const Setup& s, const Inputs& in, Activated& a) {
  a.g_error.assign(in.g.size(), 0);
  if (s.gate == Gate::Given) {
    a.g = in.g;
    return;
  }
  a.g.resize(in.g.size());
  for (std::int64_t row = 0; row < s.rows(); ++row)
    for (std::int64_t hv = 0; hv < s.HV; ++hv)
      for (std::int64_t k = 0; k < s.K; ++k) {
        const GatePoint p = gate_point(s, in, row, hv, k);
        const std::size_t i = at((row * s.HV + hv) * s.K + k);
        const double a_error = 2 + std::abs(p.A);  // of exp(A), relative
        if (s.gate == Gate::Softplus) {
          const double sp = softplus(p.z);
          a.g[i] = -p.exp_A * sp;
          a.g_error[i] = p.exp_A * (softplus_slope(p.z) * std::abs(p.z) + 1 + sp * a_error);
        } else {
          const double y = p.exp_A * p.z, sig = sigmoid(y);
          a.g[i] = s.lower * sig;
          a.g_error[i] =
              -s.lower * (sig * ((1 - sig) * std::abs(y) * (1 + a_error) + 2) + kFlushed);
        }
      }
}

// Companion of sum_rows c dg of one channel: rows of dG reach every token before them in their
// block, so the error of a row counts with the sum of c up to it.
template <class Coefficient>
double functional_error(const Setup& s, const Gradients& d, std::int64_t hv, std::int64_t k,
                        const Coefficient& c) {
  double sum = 0;
  for (std::size_t n = 0; n + 1 < s.starts.size(); ++n) {
    double reach = 0;
    for (std::int64_t row = s.starts[n]; row < s.starts[n + 1]; ++row) {
      if ((row - s.starts[n]) % kGateBlock == 0) reach = 0;
      const std::size_t i = at((row * s.HV + hv) * s.K + k);
      reach += c(row);
      const double own = c(row) * d.g_own[i], passed = reach * d.g_row[i];
      sum += own * own + passed * passed;
    }
  }
  return std::sqrt(sum);
}

// One raw gate: dx = slope dy, and its term weight dy of dA.
struct GateSlope {
  double slope = 0, weight = 0;
  double slope_error = 0, weight_error = 0;  // in roundoffs
};

GateSlope gate_slope(const Setup& s, const Inputs& in, const Activated& a, std::int64_t row,
                     std::int64_t hv, std::int64_t k) {
  const GatePoint p = gate_point(s, in, row, hv, k);
  const double a_error = 2 + std::abs(p.A);
  GateSlope r;
  if (s.gate == Gate::Softplus) {
    const std::size_t i = at((row * s.HV + hv) * s.K + k);
    const double slope = softplus_slope(p.z);
    r.slope = -p.exp_A * slope;
    r.slope_error = std::abs(r.slope) * (a_error + 2 + std::abs(p.z) * (1 - slope));
    r.weight = a.g[i];
    r.weight_error = a.g_error[i];
  } else {
    const double y = p.exp_A * p.z, sig = sigmoid(y);
    r.slope = s.lower * sig * (1 - sig) * p.exp_A;
    r.slope_error = std::abs(r.slope) * (a_error + 2 + std::abs(y)) +
                    std::abs(s.lower * p.exp_A) * (sig + kFlushed);
    r.weight = r.slope * p.z;
    r.weight_error = (r.slope_error + std::abs(r.slope)) * std::abs(p.z);
  }
  return r;
}

void gate_backward(const Setup& s, const Inputs& in, const Activated& a, Gradients& d) {
  d.g_raw = Graded(in.g.size());
  if (s.has_A) d.A_log = Graded(at(s.HV));
  if (s.has_bias) d.dt_bias = Graded(at(s.HV * s.K));
  for (std::int64_t hv = 0; hv < s.HV; ++hv) {
    double dA = 0, dA_error_2 = 0, dA_sum = 0;
    for (std::int64_t k = 0; k < s.K; ++k) {
      double bias = 0, bias_error_2 = 0, bias_sum = 0;
      for (std::int64_t row = 0; row < s.rows(); ++row) {
        const std::size_t i = at((row * s.HV + hv) * s.K + k);
        const GateSlope gate = gate_slope(s, in, a, row, hv, k);
        const double dy = d.g.value[i], dx = gate.slope * dy;
        const double from_slope = std::abs(dy) * gate.slope_error;
        d.g_raw.value[i] = dx;
        d.g_raw.scale[i] = std::abs(gate.slope) * d.g.scale[i] + from_slope + std::abs(dx);
        bias += dx;
        bias_sum += std::abs(dx);
        bias_error_2 += from_slope * from_slope;
        dA += dy * gate.weight;
        dA_sum += std::abs(dy * gate.weight);
        dA_error_2 += dy * gate.weight_error * (dy * gate.weight_error);
      }
      const double to_A = functional_error(
          s, d, hv, k, [&](std::int64_t row) { return gate_slope(s, in, a, row, hv, k).weight; });
      dA_error_2 += to_A * to_A;  // channels are independent
      if (s.has_bias) {
        const double to_bias = functional_error(
            s, d, hv, k, [&](std::int64_t row) { return gate_slope(s, in, a, row, hv, k).slope; });
        d.dt_bias.value[at(hv * s.K + k)] = bias;
        d.dt_bias.scale[at(hv * s.K + k)] = std::sqrt(to_bias * to_bias + bias_error_2) + bias_sum;
      }
    }
    if (s.has_A) {
      d.A_log.value[at(hv)] = dA;
      d.A_log.scale[at(hv)] = std::sqrt(dA_error_2) + dA_sum;
    }
  }
}

}  // namespace

Activated activate(const Setup& s, const Inputs& in) {
  Activated a;
  if (s.l2norm) {
    normalise(in.q, at(s.K), a.q, a.rstd_q);
    normalise(in.k, at(s.K), a.k, a.rstd_k);
  } else {
    a.q = in.q;
    a.k = in.k;
  }
  activate_gate(s, in, a);
  a.beta = in.beta;
  a.beta_scale.assign(in.beta.size(), 0);
  if (s.sigmoid)
    for (std::size_t i = 0; i < a.beta.size(); ++i) {
      const double sig = sigmoid(in.beta[i]);
      a.beta[i] = s.beta_scale * sig;
      a.beta_scale[i] =
          a.beta[i] * (2 + std::abs(in.beta[i]) * (1 - sig)) + s.beta_scale * kFlushed;
    }
  return a;
}

void finish(const Setup& s, const Inputs& in, const Activated& a, Gradients& d) {
  if (s.l2norm) {
    normalise_backward(a.q, a.rstd_q, at(s.K), d.q);
    normalise_backward(a.k, a.rstd_k, at(s.K), d.k);
  }
  if (s.gate != Gate::Given) gate_backward(s, in, a, d);
  if (s.sigmoid) {
    d.beta_logit = Graded(in.beta.size());
    for (std::size_t i = 0; i < in.beta.size(); ++i) {
      const double sig = sigmoid(in.beta[i]), slope = s.beta_scale * sig * (1 - sig);
      d.beta_logit.value[i] = d.beta.value[i] * slope;
      d.beta_logit.scale[i] =
          slope * (d.beta.scale[i] + std::abs(d.beta.value[i]) * (2 + std::abs(in.beta[i]))) +
          s.beta_scale * (sig + kFlushed) * std::abs(d.beta.value[i]);
    }
  }
}

}  // namespace parity::kda
