// Patches and merged tokens between the flat rows of the formulas and a case's layout, which may
// pad every item to the longest.
#pragma once

#include "references/vision_tower/problem.hpp"

namespace parity::net::vision {

inline std::vector<std::int64_t> counts(const Problem& p, bool merged) {
  return merged ? p.tower.merged_by_item() : patches_by_item(p.tower.grids);
}

template <class T>
Array<T> laid_out(const Problem& p, const Array<T>& flat, bool merged) {
  return p.padded ? pad_items(flat, counts(p, merged), T{0}) : flat;
}
template <class T>
Array<T> flattened(const Problem& p, const Array<T>& x, bool merged) {
  return p.padded ? unpad_items(x, counts(p, merged)) : x;
}

}  // namespace parity::net::vision
