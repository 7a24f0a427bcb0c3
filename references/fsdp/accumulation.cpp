#include "references/fsdp/accumulation.hpp"

namespace parity::fsdp {

using dist::rounded;

void Accumulation::collect(Gradient g) {
  std::optional<Sum>& slot = fresh_[g.parameter];
  if (!slot) {
    slot = Sum{g.dtype, std::move(g.values)};
    return;
  }
  for (std::size_t i = 0; i < g.values.size(); ++i)
    slot->values[i] = rounded(g.dtype, slot->values[i] + g.values[i]);
}

void Accumulation::accumulate(std::size_t p, bool syncs) {
  if (!fresh_[p]) return;
  Sum fresh = std::move(*fresh_[p]);
  fresh_[p].reset();
  std::optional<Sum>& slot = sums_[p];
  const bool wide = config_.reduce_dtype && config_.reduce_dtype != config_.param_dtype;
  const Dtype dtype = wide && (!syncs || slot) ? *config_.reduce_dtype : fresh.dtype;
  for (float& x : fresh.values) x = rounded(dtype, x);
  if (fault_ == "P-fsdp-dropped-micro" && slot) return;
  for (int n = 0; n < (fault_ == "P-fsdp-hook-twice" ? 2 : 1); ++n) {
    if (!slot) {
      slot = Sum{dtype, fresh.values};
      continue;
    }
    slot->dtype = dtype;
    for (std::size_t i = 0; i < fresh.values.size(); ++i)
      slot->values[i] = rounded(dtype, slot->values[i] + fresh.values[i]);
  }
}

}  // namespace parity::fsdp
