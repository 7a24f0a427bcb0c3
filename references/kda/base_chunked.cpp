// The chunks of one sequence and value head, forward and then backward.
#include <algorithm>

#include "references/kda/chunk_faults.hpp"

namespace parity::kda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Floats32 gather(const Floats32& x, std::int64_t row, std::size_t n, std::int64_t heads,
                std::int64_t head, std::size_t width) {
  Floats32 y;
  y.reserve(n * width);
  for (std::size_t i = 0; i < n; ++i) {
    const auto from = x.begin() + ((row + static_cast<std::int64_t>(i)) * heads + head) *
                                      static_cast<std::int64_t>(width);
    y.insert(y.end(), from, from + static_cast<std::int64_t>(width));
  }
  return y;
}

void scatter_add(Floats32& x, const Floats32& y, std::int64_t row, std::int64_t heads,
                 std::int64_t head, std::size_t width) {
  for (std::size_t p = 0; p < y.size(); ++p)
    x[at((row + static_cast<std::int64_t>(p / width)) * heads + head) * width + p % width] += y[p];
}

Chunk load_chunk(Run& run, std::int64_t sequence, std::int64_t hv, std::int64_t row,
                 std::size_t n) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K), V = at(s.V);
  Chunk c;
  c.n = n;
  c.row = row;
  c.q = gather(run.x.q, row, n, s.H, s.qk_head(hv), K);
  c.k = gather(run.x.k, row, n, s.H, s.qk_head(hv), K);
  c.v = gather(run.x.v, row, n, s.HV, hv, V);
  c.beta = gather(run.x.beta, row, n, s.HV, hv, 1);
  if (!run.x.d_o.empty()) c.d_o = gather(run.x.d_o, row, n, s.HV, hv, V);
  c.G = gather(run.x.g, row, n, s.HV, hv, K);
  for (std::size_t p = K; p < c.G.size(); ++p) c.G[p] += c.G[p - K];
  for (float& g : c.G) g *= kLog2e;
  if (run.e.fault != Fault::None) damage_loaded(run, hv, sequence, c);
  run.e.round(run.e.points.g, c.G);
  return c;
}

void store_gradients(Run& run, const Chunk& c, std::int64_t hv, ChainGradients& part) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K);
  damage_gate_sum(run.e, part.dG);
  if (run.e.has(Fault::OneHeadOfGroup))
    for (std::size_t p = 0; p < part.dq.size(); ++p) {
      const std::size_t to =
          at((c.row + static_cast<std::int64_t>(p / K)) * s.H + s.qk_head(hv)) * K + p % K;
      run.d.q[to] = run.d.k[to] = 0;
    }
  scatter_add(run.d.q, part.dq, c.row, s.H, s.qk_head(hv), K);
  scatter_add(run.d.k, part.dk, c.row, s.H, s.qk_head(hv), K);
  scatter_add(run.d.v, part.dv, c.row, s.HV, hv, at(s.V));
  scatter_add(run.d.g, part.dG, c.row, s.HV, hv, K);
  scatter_add(run.d.beta, part.dbeta, c.row, s.HV, hv, 1);
}

}  // namespace

void run_chunked(Run& run, std::int64_t n, std::int64_t hv, bool gradients) {
  Engine& e = run.e;
  const Setup& s = e.setup;
  const std::size_t state = at(s.K * s.V), block = at(n * s.HV + hv) * state;
  Floats32 S(state), dS(state);
  if (s.h0) std::copy_n(run.x.h0.begin() + static_cast<std::ptrdiff_t>(block), state, S.begin());
  if (e.has(Fault::StaleState) && s.packed && n > 0 && !s.h0)
    std::copy_n(run.final_state.begin() + static_cast<std::ptrdiff_t>(block - at(s.HV) * state),
                state, S.begin());
  std::vector<Chunk> chunks;
  Floats32 before = S;
  const std::int64_t start = s.starts[at(n)], last = s.starts[at(n + 1)],
                     step = static_cast<std::int64_t>(e.chunk);
  for (std::int64_t row = start; row < last; row += step) {
    Chunk c = load_chunk(run, n, hv, row, at(std::min(step, last - row)));
    c.first = row == start;
    c.last = row + step >= last;
    c.second = (row - start) / step % 2 == 1 || c.last;
    if (e.has(Fault::TailGateSum) && c.last && s.packed)
      c.padding = [&run, hv, last, &chunks](const Floats32& dh, Floats32& dG_last) {
        add_padded_rows(run, hv, last, chunks.back(), dh, dG_last);
      };
    fill_products(e, c);
    before = S;
    forward_chunk(e, c, S, &run.o[at((row * s.HV + hv) * s.V)], at(s.HV * s.V));
    if (e.has(Fault::WrongBoundary) && c.n < e.chunk && !c.first) S = before;
    if (gradients) chunks.push_back(std::move(c));
  }
  std::ranges::copy(S, run.final_state.begin() + static_cast<std::ptrdiff_t>(block));
  if (!gradients) return;
  if (s.dht)
    std::copy_n(run.x.d_ht.begin() + static_cast<std::ptrdiff_t>(block), state, dS.begin());
  ChainGradients part;
  for (; !chunks.empty(); chunks.pop_back()) {
    backward_chunk(e, chunks.back(), dS, part);
    store_gradients(run, chunks.back(), hv, part);
  }
  if (s.h0) std::ranges::copy(dS, run.d.h0.begin() + static_cast<std::ptrdiff_t>(block));
}

}  // namespace parity::kda
