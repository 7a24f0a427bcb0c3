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

// One sequence and value head.
void run_chunked(Run&, std::int64_t n, std::int64_t hv, bool gradients);
void run_recurrent(Run&, std::int64_t n, std::int64_t hv, bool gradients);

}  // namespace parity::kda
