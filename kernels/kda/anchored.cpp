// Scores as kernels form them that split exp(G_i - G_j) in two exponentials around an anchor, with
// the anchors that went wrong. The clean kernel has neither cumulative gates nor anchors
// (micro.hpp, Decay).
#include <cmath>
#include <vector>

#include "kernels/kda/fault_paths.hpp"

namespace parity::kda_kernel {
namespace {

using Row = std::vector<float>;

// Sum of the gates of a token since the start of its chunk.
Row cumulative(const Chunk& c, std::int64_t last) {
  Row G(static_cast<std::size_t>(c.Kp));
  for (std::int64_t i = 0; i <= last; ++i)
    for (std::int64_t d = 0; d < c.Kp; ++d) G[static_cast<std::size_t>(d)] += c.g[i * c.ldk + d];
  return G;
}

// What lies at row t + middle of a [T*HV,K] array that should have been read at token t + middle of
// head hv.
Row without_head_stride(const Chunk& c, std::int64_t middle) {
  const Problem& p = c.p;
  const std::int64_t flat = c.place.token + middle, token = flat / p.HV, head = flat % p.HV;
  Row G(static_cast<std::size_t>(c.Kp)), g(static_cast<std::size_t>(c.Kp));
  for (std::int64_t t = token / p.chunk * p.chunk; t <= token; ++t) {
    Row x(static_cast<std::size_t>(c.Kp));
    c.m.load(p.rows(p.gate_in, p.gate_bf16(), t, head, p.HV, p.K), 1, p.K, x.data(), c.Kp);
    c.m.decay(c.gate(), x.data(), c.Kp, 1, c.Kp, g.data());
    for (std::size_t d = 0; d < G.size(); ++d) G[d] += g[d];
  }
  return G;
}

struct Factors {
  bool narrow;
  float operator()(float x, float exponent) const {
    const float y = x * std::exp(exponent);
    return narrow ? round_bf16(y) : y;
  }
};

void pairs(Chunk& c, std::int64_t first, std::int64_t last, const Row& anchor, float sign,
           Factors factor) {
  std::vector<Row> G;
  for (std::int64_t i = first; i < last; ++i) G.push_back(cumulative(c, i));
  for (std::int64_t i = first; i < last; ++i)
    for (std::int64_t j = first; j <= i; ++j) {
      float with_q = 0, with_k = 0;
      for (std::int64_t d = 0; d < c.p.K; ++d) {
        const auto at = static_cast<std::size_t>(d);
        const float left = G[static_cast<std::size_t>(i - first)][at] - anchor[at];
        const float right =
            factor(c.k[j * c.ldk + d], anchor[at] - G[static_cast<std::size_t>(j - first)][at]);
        with_q += factor(c.q[i * c.ldk + d], left) * right;
        with_k += factor(c.k[i * c.ldk + d], left) * right;
      }
      c.scores_q[i * c.ldc + j] = with_q;
      if (j < i) c.scores_k[i * c.ldc + j] = sign * with_k;
    }
}

}  // namespace

bool anchored(Fault fault, bool backward) {
  if (fault == Fault::SharedAnchorBackward) return backward;
  return fault == Fault::FutureAnchor || fault == Fault::SharedAnchor ||
         fault == Fault::AnchorWithoutHeadStride || fault == Fault::InverseDecayMaterialised;
}

void anchored_scores(Chunk& c, float sign) {
  c.score(sign);
  const std::int64_t n = c.place.rows;
  const Factors factor{c.p.bf16 && c.p.is(Fault::FutureAnchor)};
  if (c.p.is(Fault::InverseDecayMaterialised))
    return pairs(c, 0, n, Row(static_cast<std::size_t>(c.Kp)), sign, factor);
  if (c.p.is(Fault::SharedAnchor) || c.p.is(Fault::SharedAnchorBackward))
    return pairs(c, 0, n, cumulative(c, n - 1 < c.C / 2 ? n - 1 : c.C / 2), sign, factor);
  for (std::int64_t r = 0; r < n; r += kLeaf) {
    const std::int64_t rows = n - r < kLeaf ? n - r : kLeaf,
                       middle = r + (rows - 1 < 8 ? rows - 1 : 8);
    const Row anchor =
        c.p.is(Fault::FutureAnchor) ? cumulative(c, middle) : without_head_stride(c, middle);
    pairs(c, r, r + rows, anchor, sign, factor);
  }
}

}  // namespace parity::kda_kernel
