// Defects of the gate: what is read as the raw gate, and what is made of it.
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kda/fault_paths.hpp"

namespace parity::kda_kernel {
namespace {

// Channels K ... Kp of a row are what follows it in memory: the next head's gates, and 1e30 past
// the end of the tensor.
void read_past_row(Chunk& c) {
  const Problem& p = c.p;
  const std::int64_t elements = p.tokens() * p.HV * p.K;
  for (std::int64_t i = 0; i < c.place.rows; ++i)
    for (std::int64_t d = p.K; d < c.Kp; ++d) {
      const std::int64_t at = ((c.place.token + i) * p.HV + c.place.hv) * p.K + d;
      float x = 1e30f;
      if (at < elements) {
        float row[kLanes];
        const std::byte* base =
            static_cast<const std::byte*>(p.gate_in) + at * (p.gate_bf16() ? 2 : 4);
        c.m.load({.data = base, .bf16 = p.gate_bf16(), .stride = 1}, 1, 1, row, kLanes);
        x = row[0];
      }
      c.a[i * c.ldk + d] = x;
    }
}

template <class F>
void each_gate(Chunk& c, F f) {  // f(row, channel, g, a)
  for (std::int64_t i = 0; i < c.place.rows; ++i)
    for (std::int64_t d = 0; d < c.Kp; ++d) f(i, d, c.g[i * c.ldk + d], c.a[i * c.ldk + d]);
}

}  // namespace

void spoil_raw_gate(Chunk& c) {
  const Problem& p = c.p;
  if (p.is(Fault::PaddedLanesUnmasked)) read_past_row(c);
  if (p.is(Fault::GateReadAsQ) && !p.gate_bf16())
    c.m.load(p.rows(p.gate_in, true, c.place.token, c.place.hv, p.HV, p.K), c.place.rows, p.K, c.a,
             c.ldk);
}

void spoil_decay(Chunk& c) {
  const Problem& p = c.p;
  std::vector<float> G(static_cast<std::size_t>(c.Kp)), rounded(static_cast<std::size_t>(c.Kp));
  if (p.is(Fault::ExpArgumentClamped))
    each_gate(
        c, [](std::int64_t, std::int64_t, float g, float& a) { a = std::exp(g < -5 ? -5.0f : g); });
  if (p.is(Fault::ExpLow))
    each_gate(c, [](std::int64_t, std::int64_t, float, float& a) { a *= 1 - 5e-4f; });
  if (p.is(Fault::CumulativeGateInBf16))
    each_gate(c, [&](std::int64_t, std::int64_t d, float g, float& a) {
      const auto at = static_cast<std::size_t>(d);
      G[at] += g * 1.44269504f;
      const float now = round_bf16(G[at]);
      a = std::exp2(now - rounded[at]);
      rounded[at] = now;
    });
  if (p.is(Fault::GateRestartAtGlobalChunks))
    each_gate(c, [&](std::int64_t i, std::int64_t d, float g, float& a) {
      const auto at = static_cast<std::size_t>(d);
      if (i > 0 && (c.place.token + i) % p.chunk == 0) {
        a = std::exp(g - G[at]);
        G[at] = 0;
      }
      G[at] += g;
    });
}

void head_zero_decay(const Chunk& c, float* decay_K) {
  const Problem& p = c.p;
  const Sequence& first = p.sequences.front();
  std::vector<float> a(static_cast<std::size_t>(c.Kp));
  for (std::int64_t d = 0; d < c.Kp; ++d) decay_K[d] = 1;
  for (std::int64_t i = 0; i < c.place.rows; ++i) {
    const std::int64_t token = first.first + c.place.index * p.chunk + i;
    if (token >= p.tokens()) return;
    c.m.load(p.rows(p.gate_in, p.gate_bf16(), token, 0, p.HV, p.K), 1, p.K, a.data(), c.Kp);
    c.m.decay(c.gate(), a.data(), c.Kp, 1, c.Kp, nullptr);
    for (std::int64_t d = 0; d < c.Kp; ++d) decay_K[d] *= a[static_cast<std::size_t>(d)];
  }
}

}  // namespace parity::kda_kernel
