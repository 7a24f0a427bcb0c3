// Grid: an f32 output whose values all lie in bf16 was bf16 somewhere, however small its error is.
//
// Chance puts 2^-(fraction bits lost) of random values on a coarser grid. Where the truth lies
// there (integers, copied inputs) or the runs of the base do (the contract rounds there, or sums of
// few narrow products have few bits), that share is legal instead; a kernel that sums in another
// order may have twice as many. A legal share p over N values stays below the limit of Bernstein's
// inequality with probability 1 - kTail.
#include <fmt/format.h>

#include "harness/compare_parts.hpp"

namespace parity {

void compare_grid(const Compared& t, TensorRecord& r) {
  const std::vector<Dtype> grids = coarser_grids(t.spec.dtype);
  if (grids.empty()) return;
  const GridShares got = grid_shares(telling_values(t.observed, t.truth), t.spec.dtype),
                   want = grid_shares(t.rounded, t.spec.dtype);
  if (got.counted == 0) return;  // zeros lie on every grid
  const double log = -std::log(kTail);
  double worst = -1;
  ViewResult view{.view = std::string(name(View::Grid))};
  for (std::size_t g = 0; g < grids.size(); ++g) {
    const double legal =
        std::min(1.0, 2 * std::max({grid_chance(grids[g], t.spec.dtype), want.share[g],
                                    g < t.noise->grid_share.size() ? t.noise->grid_share[g] : 0}));
    const double limit = legal + std::sqrt(2 * legal * (1 - legal) * log / got.counted) +
                         2 * log / (3 * got.counted);
    if (got.share[g] / limit <= worst) continue;
    worst = got.share[g] / limit;
    view.value = got.share[g], view.limit = limit;
    r.grid_format = name(grids[g]), r.grid_share = got.share[g];
    view.detail =
        fmt::format("{:.3g} % of the non-zero elements are representable in {}, {:.3g} % are legal",
                    100 * got.share[g], r.grid_format, 100 * legal);
  }
  r.views.push_back(std::move(view));
}

}  // namespace parity
