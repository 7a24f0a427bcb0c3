// Sums over value heads and over sequences, in their order, and what lies between the operands of
// the recurrence and the tensors of the caller: the factor on q and the L2 norm.
#include <cmath>
#include <cstring>

#include "kernels/kda/backward.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity::kda_kernel {

PartialSums partial_sums(const Shape& s, std::byte* workspace) {
  PartialSums sums;
  const auto take = [&](std::int64_t bytes) {
    std::byte* at = workspace ? workspace + sums.bytes : nullptr;
    sums.bytes += static_cast<std::size_t>((bytes + 63) / 64 * 64);
    return static_cast<void*>(at);
  };
  if (s.group() > 1) {
    sums.dq = static_cast<float*>(take(4 * s.tokens() * s.HV * s.K));
    sums.dk = static_cast<float*>(take(4 * s.tokens() * s.HV * s.K));
  }
  if (s.gate != GateKind::Given) sums.gate = static_cast<double*>(take(8 * s.N * s.HV * 2 * s.K));
  return sums;
}

void finish_query_key(const Problem& p, const QueryKeyRows& r) {
  constexpr float kNormEps = 1e-6f;
  const Micro& m = *p.micro;
  const std::int64_t cols = pad(p.K);
  m.scale(r.dq, p.scale, r.ld, r.rows, cols);
  const auto finish = [&](const void* raw, float* gradient, const void* to) {
    if (p.l2norm) {
      const Stored rows = p.rows(raw, p.bf16, r.token, r.qk_head, p.H, p.K);
      m.load(rows, r.rows, p.K, r.raw, r.ld);
      m.normalise(r.raw, r.ld, r.rows, cols, kNormEps, r.rstd);
      m.load(rows, r.rows, p.K, r.raw, r.ld);
      m.normalise_grad(r.raw, r.rstd, r.ld, r.rows, cols, gradient);
    }
    m.store(gradient, r.ld, r.rows, p.K, p.rows(to, p.bf16, r.token, r.qk_head, p.H, p.K));
  };
  finish(p.q, r.dq, p.dq);
  finish(p.k, r.dk, p.dk);
}

void reduce_groups(const Problem& p, const PartialSums& sums) {
  constexpr std::int64_t kRows = 32;
  const std::int64_t ld = leading(p.K), cols = pad(p.K),
                     blocks = (p.used_tokens() + kRows - 1) / kRows;
  const Micro& m = *p.micro;
  for_each_item(p.threads, blocks * p.H, [&] {
    return [&, scratch = Scratch(4 * kRows * ld + kRows)](std::int64_t item) mutable {
      const std::int64_t token = item / p.H * kRows, head = item % p.H,
                         left = p.used_tokens() - token;
      const std::int64_t rows = left < kRows ? left : kRows;
      scratch.restart();
      float *dq = scratch.take(kRows * ld), *dk = scratch.take(kRows * ld),
            *other = scratch.take(kRows * ld);
      const auto sum = [&](const float* partial, float* to) {
        for (std::int64_t g = 0; g < p.group(); ++g) {
          const Stored from = p.rows(partial, false, token, head * p.group() + g, p.HV, p.K);
          m.load(from, rows, p.K, g == 0 ? to : other, ld);
          for (std::int64_t i = 0; g > 0 && i < rows; ++i) m.add(other + i * ld, cols, to + i * ld);
        }
      };
      sum(sums.dq, dq);
      sum(sums.dk, dk);
      float* raw = scratch.take(kRows * ld);
      finish_query_key(p, {.token = token,
                           .qk_head = head,
                           .rows = rows,
                           .ld = ld,
                           .dq = dq,
                           .dk = dk,
                           .raw = raw,
                           .rstd = scratch.take(kRows)});
    };
  });
}

void reduce_gate_sums(const Problem& p, const PartialSums& sums) {
  for (std::int64_t hv = 0; hv < p.HV; ++hv) {
    double coefficient = 0;
    for (std::int64_t d = 0; d < p.K; ++d) {
      double bias = 0;
      for (std::int64_t n = 0; n < p.N; ++n) {
        const double* part = sums.gate + (n * p.HV + hv) * 2 * p.K;
        bias += part[d];
        coefficient += part[p.K + d];
      }
      if (p.d_bias) p.d_bias[hv * p.K + d] = static_cast<float>(bias);
    }
    if (p.dA) p.dA[hv] = static_cast<float>(coefficient);
  }
}

}  // namespace parity::kda_kernel
