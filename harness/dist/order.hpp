// In which order a collective adds, as data: a sum of floats depends on it, so that "equal to the
// bit" means something only where the order is stated. A plan says for every element of a buffer
// which tree of additions makes it; every addition is rounded to the element type of the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::dist {

enum class Order : std::uint8_t {
  Rank,  // ((g0 + g1) + g2) + ...
  Ring,  // N equal chunks; chunk c starts at rank c + 1 and goes up: (g[c+1] + g[c+2]) + ... + g[c]
  Halving,   // recursive halving: partners at distance N/2 first, then N/4, ...
  Doubling,  // recursive doubling: neighbours first, then pairs of pairs
  Tree,      // a binary tree, node i above 2i + 1 and 2i + 2: (g[i] + left) + right
  Gloo       // a ring that goes down, over gloo's own segments: (g[c-1] + g[c-2]) + ... + g[c]
};
std::string_view name(Order);
Order parse_order(std::string_view);  // UsageError naming the nearest spelling

// One sum over the ranks in postfix: r >= 0 is rank r's value, kAdd the sum of the two before it.
inline constexpr int kAdd = -1;
using Additions = std::vector<int>;
std::string text(const Additions&);  // "((g2 + g1) + g0)"

struct Chunk {
  std::int64_t begin = 0, end = 0;
  std::size_t sum = 0;  // index into Plan::sums
};
struct Plan {
  std::vector<Additions> sums = {};
  std::vector<Chunk> chunks = {};  // in order, without gaps; none is empty
};
// `itemsize` in bytes: gloo cuts its segments by bytes.
Plan plan_of(Order, int ranks, std::int64_t elements, int itemsize);

enum class Combine : std::uint8_t { Sum, Max };

// Elements [first, first + out.size()) of the combined buffer. `parts[r]` points at rank r's
// element `first`; all values lie on the grid of `wire`.
void combine(const Plan&, Combine, Dtype wire, std::int64_t first,
             std::span<const float* const> parts, std::span<float> out);

float rounded(Dtype wire, float value);  // f32, bf16, f16: one rounding to nearest even
int itemsize(Dtype);                     // bytes of one element on the wire
void check_wire(Dtype);                  // UsageError: the wire carries f32, bf16, f16
float divided(Dtype wire, float value,
              double by);  // one true division, rounded once; by 1: as it is

// Which stated order makes `observed` out of the ranks' buffers to the bit, after a division by
// `by`; also rotations of a rank order ("rank order from 2"). Nothing where none does: then
// rounding in another order does not explain the difference.
std::optional<std::string> explaining_order(std::span<const std::vector<float>> parts, Dtype wire,
                                            double by, std::span<const float> observed);

// The same element by element: chunks of a buffer that held other parameters too are not known, so
// that each element may follow another tree of the stated orders. `orders` says which were needed.
struct Explained {
  std::int64_t unexplained = 0, first = -1;  // elements; the first of them
  std::string orders = {};
};
Explained explained_elements(std::span<const std::vector<float>> parts, Dtype wire, double by,
                             std::span<const float> observed);

}  // namespace parity::dist
