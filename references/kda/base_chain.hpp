// One evaluation of the base: what its chains share and fill.
#pragma once

#include "references/kda/base_activation.hpp"

namespace parity::kda {

struct Run {
  Engine& e;
  const Wide& x;
  Floats32 o = {}, final_state = {};
  WideGradients d = {};
};

// A beta per value column as value heads of one column, and what comes of them joined again.
Setup by_column(const Setup&);
Wide by_column(const Setup&, const Wide&);
void join_columns(const Setup&, Run&);

// One sequence and value head.
void run_chunked(Run&, std::int64_t n, std::int64_t hv, bool gradients);
void run_recurrent(Run&, std::int64_t n, std::int64_t hv, bool gradients);

}  // namespace parity::kda
