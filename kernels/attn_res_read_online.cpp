// attn_res_read.online: the two-phase form. The bank's part (largest score, weights' sum, weighted
// values) is one online softmax over its entries, the prefix is merged into it by the usual
// rescaling: what lets many reads of a block share one pass over the bank. f32 throughout, one
// rounding at the end. Parameter gradients are summed in 16 slots of tokens, whose partial sums are
// added in order: the same bits for any number of threads. Workspace of the backward: 16 D floats.
#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

struct Reads {
  std::int64_t T = 0, N = 0, D = 0;
  float eps = 0;
  std::string_view fault = {};
};

Reads reads_of(const Launch& l) {
  const Case& c = l.problem;
  return {c.sizes["T"], c.sizes["N"], c.sizes["D"], static_cast<float>(c.options.real("eps", 1e-5)),
          l.fault};
}

// Sources of one token.
template <class T>
struct Sources {
  const T *bank, *prefix;
  std::int64_t entries, D;
  const T* operator[](std::int64_t n) const { return n < entries ? bank + n * D : prefix; }
};

template <class T>
Sources<T> sources(const Reads& r, const T* bank, const T* prefix, std::int64_t t) {
  return {bank + t * (r.N - 1) * r.D, prefix + t * r.D, r.N - 1, r.D};
}

template <class T>
float reciprocal_rms(const Reads& r, const T* x_D) {
  const float sum = lane_sum(r.D, [&](std::int64_t d) { return widen(x_D[d]) * widen(x_D[d]); });
  return 1 / std::sqrt(sum / static_cast<float>(r.D) + r.eps);
}

// One online softmax: the largest score so far, the sum of weights and the weighted values,
// relative to it.
struct Online {
  float top = -INFINITY, sum = 0;
  std::vector<float> value;

  template <class T>
  void take(float score, const T* x_D, const Reads& r) {
    const float next = std::max(top, score);
    const float old = std::exp(top - next), weight = std::exp(score - next);
    // A stale maximum: what was summed is not rescaled when a larger score comes.
    const float rescale = r.fault == "A-AT06" ? 1 : old;
    sum = sum * rescale + weight;
    for (std::size_t d = 0; d < value.size(); ++d)
      value[d] = value[d] * rescale + weight * widen(x_D[d]);
    top = next;
  }
};

template <class T>
void forward_rows(const Launch& l, const Reads& r) {
  const T *bank = l.in<T>("bank"), *prefix = l.in<T>("prefix"),
          *norm = l.in<T>("params/norm.weight"), *proj = l.in<T>("params/proj.weight");
  T *y = l.out<T>("y"), *probs = l.out<T>("tap/probs");
  for_slots(l.threads, kSlots, [&](std::int64_t slot) {
    std::vector<float> scores(static_cast<std::size_t>(r.N));
    for (std::int64_t t = slot_edge(slot, kSlots, r.T); t < slot_edge(slot + 1, kSlots, r.T); ++t) {
      const Sources<T> x = sources(r, bank, prefix, t);
      Online online{.value = std::vector<float>(static_cast<std::size_t>(r.D))};
      for (std::int64_t n = 0; n < r.N; ++n) {
        const float product = lane_sum(r.D, [&](std::int64_t d) {
          return widen(x[n][d]) * (widen(norm[d]) * widen(proj[d]));
        });
        const float score = product * reciprocal_rms(r, x[n]);
        scores[static_cast<std::size_t>(n)] = score;
        // The shared buffer of the bank was overwritten by the prefix: its last entry is lost.
        const bool lost = r.fault == "P-res-bank-reused" && n == r.N - 2;
        online.take(score, lost ? x[r.N - 1] : x[n], r);
      }
      for (std::int64_t d = 0; d < r.D; ++d)
        narrow(online.value[static_cast<std::size_t>(d)] / online.sum, y[t * r.D + d]);
      if (probs)
        for (std::int64_t n = 0; n < r.N; ++n)
          narrow(std::exp(scores[static_cast<std::size_t>(n)] - online.top) / online.sum,
                 probs[t * r.N + n]);
    }
  });
}

template <class T>
void backward_rows(const Launch& l, const Reads& r) {
  const T *bank = l.in<T>("bank"), *prefix = l.in<T>("prefix"),
          *norm = l.in<T>("params/norm.weight"), *proj = l.in<T>("params/proj.weight"),
          *dy = l.in<T>("cotangents/y");
  T *d_bank = l.out<T>("grads/inputs/bank"), *d_prefix = l.out<T>("grads/inputs/prefix");
  auto* part_SD = reinterpret_cast<float*>(l.workspace.data());
  const auto query = [&](std::int64_t d) { return widen(norm[d]) * widen(proj[d]); };
  for_slots(l.threads, kSlots, [&](std::int64_t slot) {
    float* dq = part_SD + slot * r.D;
    std::fill(dq, dq + r.D, 0.0F);
    const auto N = static_cast<std::size_t>(r.N);
    std::vector<float> p(N), rstd(N), c(N);
    for (std::int64_t t = slot_edge(slot, kSlots, r.T); t < slot_edge(slot + 1, kSlots, r.T); ++t) {
      const Sources<T> x = sources(r, bank, prefix, t);
      const T* g = dy + t * r.D;
      float top = -INFINITY, sum = 0, mean_c = 0;
      for (std::size_t n = 0; n < N; ++n) {
        const T* v = x[static_cast<std::int64_t>(n)];
        rstd[n] = reciprocal_rms(r, v);
        p[n] = rstd[n] * lane_sum(r.D, [&](std::int64_t d) { return widen(v[d]) * query(d); });
        c[n] = lane_sum(r.D, [&](std::int64_t d) { return widen(v[d]) * widen(g[d]); });
        top = std::max(top, p[n]);
      }
      for (float& w : p) sum += w = std::exp(w - top);
      for (std::size_t n = 0; n < N; ++n) mean_c += (p[n] /= sum) * c[n];
      for (std::size_t n = 0; n < N; ++n) {
        const auto at = static_cast<std::int64_t>(n);
        const T* v = x[at];
        const float ds = p[n] * (c[n] - mean_c);
        const float mean = ds * rstd[n] *
                           lane_sum(r.D, [&](std::int64_t d) { return query(d) * widen(v[d]); }) /
                           static_cast<float>(r.D);
        T* to = at + 1 == r.N ? d_prefix + t * r.D : d_bank + (t * (r.N - 1) + at) * r.D;
        for (std::int64_t d = 0; d < r.D; ++d) {
          const float key = widen(v[d]) * rstd[n];
          narrow(p[n] * widen(g[d]) + rstd[n] * (ds * query(d) - key * mean), to[d]);
          dq[d] += ds * key;
        }
      }
    }
  });
  T *d_norm = l.out<T>("grads/params/norm.weight"), *d_proj = l.out<T>("grads/params/proj.weight");
  for (std::int64_t d = 0; d < r.D; ++d) {
    float sum = 0;
    for (std::int64_t slot = 0; slot < kSlots; ++slot) sum += part_SD[slot * r.D + d];
    narrow(widen(proj[d]) * sum, d_norm[d]);
    narrow(widen(norm[d]) * sum, d_proj[d]);
  }
}

void forward(const Launch& l) {
  with_storage(l.problem.dtype, [&]<class T>(T) { forward_rows<T>(l, reads_of(l)); });
}
void backward(const Launch& l) {
  with_storage(l.problem.dtype, [&]<class T>(T) { backward_rows<T>(l, reads_of(l)); });
}

std::size_t workspace(const Case& c, const Options&, Direction direction) {
  if (direction == Direction::Forward) return 0;
  return static_cast<std::size_t>(kSlots * c.sizes["D"]) * sizeof(float);
}

const Register kernel{KernelDef{
    .op = "attn_res_read",
    .name = "attn_res_read.online",
    .what = "two phases, f32, parameter gradients in 16 slots of tokens",
    .contract = kF32Contract,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-AT06", "", "a larger score comes and what was summed is not rescaled"},
               {"P-res-bank-reused", "",
                "the bank's last entry was overwritten in a shared buffer"}},
}};

}  // namespace
}  // namespace parity::unit_kernel
