// A beta per value column has a triangular system per column: every column becomes a value head of
// one column, with the gates of its head (kda.md §1.1).
#include "references/kda/base_chain.hpp"

namespace parity::kda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// [N,HV,K,V] -> [N,HV*V,K,1], and back.
Floats32 turned(const Setup& s, const Floats32& state, bool back) {
  const std::size_t K = at(s.K), V = at(s.V);
  Floats32 out(state.size());
  for (std::size_t block = 0; block < state.size(); block += K * V)
    for (std::size_t d = 0; d < K; ++d)
      for (std::size_t j = 0; j < V; ++j) {
        const std::size_t by_row = block + d * V + j, by_column = block + j * K + d;
        (back ? out[by_row] : out[by_column]) = back ? state[by_column] : state[by_row];
      }
  return out;
}

}  // namespace

Setup by_column(const Setup& s) {
  Setup columns = s;
  columns.HV = s.HV * s.V;
  columns.V = 1;
  columns.headwise = false;
  return columns;
}

Wide by_column(const Setup& s, const Wide& x) {
  const std::size_t K = at(s.K), V = at(s.V);
  Wide columns = x;
  columns.g.clear();
  for (std::size_t head = 0; head < x.g.size(); head += K)
    for (std::size_t j = 0; j < V; ++j)
      columns.g.insert(columns.g.end(), x.g.begin() + static_cast<std::ptrdiff_t>(head),
                       x.g.begin() + static_cast<std::ptrdiff_t>(head + K));
  columns.h0 = turned(s, x.h0, false);
  columns.d_ht = turned(s, x.d_ht, false);
  return columns;
}

void join_columns(const Setup& s, Run& run) {
  const std::size_t K = at(s.K), V = at(s.V);
  run.final_state = turned(s, run.final_state, true);
  run.d.h0 = turned(s, run.d.h0, true);
  Floats32 g(run.d.g.size() / V);
  for (std::size_t p = 0; p < run.d.g.size(); ++p) g[p / (K * V) * K + p % K] += run.d.g[p];
  run.d.g = g;
}

}  // namespace parity::kda
