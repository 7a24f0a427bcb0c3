#include "harness/dist/order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::dist {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"rank",     "ring", "halving",
                                                    "doubling", "tree", "gloo"};

// Starts at rank `first` and walks by `step`, over all ranks.
Additions walk(int ranks, int first, int step) {
  const auto at = [&](int i) { return ((first + i * step) % ranks + ranks) % ranks; };
  Additions sum = {at(0)};
  for (int i = 1; i < ranks; ++i) sum.insert(sum.end(), {at(i), kAdd});
  return sum;
}

void append(Additions& to, const Additions& more) {
  to.insert(to.end(), more.begin(), more.end());
  to.push_back(kAdd);
}

// Partners at the distances that `halving` counts down or up. Ranks beyond the largest power of two
// are added to the first ones before anything else (Rabenseifner 2004).
Additions pairwise(int ranks, bool halving) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  std::vector<Additions> value;
  for (int r = 0; r < power; ++r) {
    value.push_back({r});
    if (r + power < ranks) append(value.back(), {r + power});
  }
  if (halving) {
    for (int d = power / 2; d >= 1; d /= 2)
      for (int r = 0; r < d; ++r)
        append(value[static_cast<std::size_t>(r)], value[static_cast<std::size_t>(r + d)]);
  } else {
    for (int d = 1; d < power; d *= 2)
      for (int r = 0; r < power; r += 2 * d)
        append(value[static_cast<std::size_t>(r)], value[static_cast<std::size_t>(r + d)]);
  }
  return value.front();
}

Additions below(int ranks, int node) {
  Additions sum = {node};
  for (const int child : {2 * node + 1, 2 * node + 2})
    if (child < ranks) append(sum, below(ranks, child));
  return sum;
}

Plan chunked(int ranks, std::int64_t elements, std::int64_t chunk, int first, int step) {
  Plan plan;
  for (int c = 0; c < ranks; ++c) {
    const std::int64_t begin = std::min(elements, c * chunk);
    const std::int64_t end = c + 1 == ranks ? elements : std::min(elements, begin + chunk);
    if (begin == end) continue;
    plan.chunks.push_back({begin, end, plan.sums.size()});
    plan.sums.push_back(walk(ranks, c + first, step));
  }
  return plan;
}

Plan uniform(std::int64_t elements, Additions sum) {
  if (elements == 0) return {};
  return {.sums = {std::move(sum)}, .chunks = {{0, elements, 0}}};
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// gloo allreduce_ring_chunked: at least two segments a rank, none above 1 MiB, whole elements.
std::int64_t gloo_chunk(int ranks, std::int64_t elements, int item) {
  constexpr std::int64_t kSegment = 1 << 20;
  const std::int64_t bytes = elements * item;
  std::int64_t segments = std::max<std::int64_t>(ceil_div(bytes, kSegment), 2LL * ranks);
  segments = ceil_div(segments, ranks) * ranks;
  const std::int64_t segment = ceil_div(ceil_div(bytes, segments), item);  // elements
  return segments / ranks * segment;
}

template <class Op>
void evaluate(const Additions& sum, Dtype wire, std::span<const float* const> parts,
              std::int64_t at, std::span<float> out, const Op& op) {
  // Chains are most of what there is: one running value, without a stack.
  const bool chain = [&] {
    for (std::size_t i = 1; i < sum.size(); ++i)
      if ((sum[i] == kAdd) != (i % 2 == 0)) return false;
    return true;
  }();
  if (chain) {
    const float* first = parts[static_cast<std::size_t>(sum[0])] + at;
    std::copy_n(first, out.size(), out.begin());
    for (std::size_t s = 1; s < sum.size(); s += 2) {
      const float* next = parts[static_cast<std::size_t>(sum[s])] + at;
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = rounded(wire, op(out[i], next[i]));
    }
    return;
  }
  std::vector<float> stack;
  for (std::size_t i = 0; i < out.size(); ++i) {
    stack.clear();
    for (const int step : sum) {
      if (step != kAdd) {
        stack.push_back(parts[static_cast<std::size_t>(step)][at + static_cast<std::int64_t>(i)]);
        continue;
      }
      const float right = stack.back();
      stack.pop_back();
      stack.back() = rounded(wire, op(stack.back(), right));
    }
    out[i] = stack.back();
  }
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace

std::string_view name(Order order) { return kNames.at(static_cast<std::size_t>(order)); }

Order parse_order(std::string_view word) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames.at(i) == word) return static_cast<Order>(i);
  const std::vector<std::string> known(kNames.begin(), kNames.end());
  const std::string near = nearest(word, known);
  throw UsageError(fmt::format("no order of reduction '{}'{}", word,
                               near.empty() ? fmt::format(" ({})", fmt::join(kNames, ", "))
                                            : fmt::format("; did you mean '{}'?", near)));
}

std::string text(const Additions& sum) {
  std::vector<std::string> stack;
  for (const int step : sum) {
    if (step != kAdd) {
      stack.push_back(fmt::format("g{}", step));
      continue;
    }
    const std::string right = std::move(stack.back());
    stack.pop_back();
    stack.back() = fmt::format("({} + {})", stack.back(), right);
  }
  return stack.empty() ? "" : stack.back();
}

Plan plan_of(Order order, int ranks, std::int64_t elements, int item) {
  switch (order) {
    case Order::Rank:
      return uniform(elements, walk(ranks, 0, 1));
    case Order::Ring:
      return chunked(ranks, elements, ceil_div(elements, ranks), 1, 1);
    case Order::Halving:
      return uniform(elements, pairwise(ranks, true));
    case Order::Doubling:
      return uniform(elements, pairwise(ranks, false));
    case Order::Tree:
      return uniform(elements, below(ranks, 0));
    case Order::Gloo:
      return chunked(ranks, elements, gloo_chunk(ranks, elements, item), -1, -1);
  }
  throw Failure("an order of reduction that does not exist");
}

void combine(const Plan& plan, Combine how, Dtype wire, std::int64_t first,
             std::span<const float* const> parts, std::span<float> out) {
  const std::int64_t last = first + static_cast<std::int64_t>(out.size());
  for (const Chunk& chunk : plan.chunks) {
    const std::int64_t begin = std::max(first, chunk.begin), end = std::min(last, chunk.end);
    if (begin >= end) continue;
    const std::span<float> to =
        out.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin));
    const Additions& sum = plan.sums[chunk.sum];
    if (how == Combine::Sum)
      evaluate(sum, wire, parts, begin - first, to, [](float a, float b) { return a + b; });
    else
      evaluate(sum, wire, parts, begin - first, to, [](float a, float b) {
        return std::isnan(a) || std::isnan(b) ? std::nanf("") : std::max(a, b);
      });
  }
}

float rounded(Dtype wire, float value) {
  if (wire == Dtype::F32) return value;
  if (wire == Dtype::BF16) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return std::nanf("");
    return std::bit_cast<float>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u);
  }
  return static_cast<float>(round_to(wire, static_cast<double>(value)));
}

int itemsize(Dtype wire) { return wire == Dtype::F32 ? 4 : 2; }

void check_wire(Dtype wire) {
  if (wire != Dtype::F32 && wire != Dtype::BF16 && wire != Dtype::F16)
    throw UsageError(
        fmt::format("{} does not travel: the wire carries f32, bf16 and f16", parity::name(wire)));
}

float divided(Dtype wire, float value, double by) {
  return by == 1 ? value : rounded(wire, value / static_cast<float>(by));
}

std::optional<std::string> explaining_order(std::span<const std::vector<float>> parts, Dtype wire,
                                            double by, std::span<const float> observed) {
  const int ranks = static_cast<int>(parts.size());
  const auto elements = static_cast<std::int64_t>(observed.size());
  std::vector<const float*> pointers;
  for (const std::vector<float>& part : parts) {
    if (part.size() != observed.size()) return {};
    pointers.push_back(part.data());
  }
  const auto explains = [&](const Plan& plan) {
    std::vector<float> sum(observed.size());
    combine(plan, Combine::Sum, wire, 0, pointers, sum);
    return std::ranges::equal(sum, observed, [&](float ours, float theirs) {
      return same_bits(divided(wire, ours, by), theirs);
    });
  };
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (explains(plan_of(static_cast<Order>(i), ranks, elements, itemsize(wire))))
      return std::string(kNames.at(i));
  for (int first = 0; first < ranks; ++first)
    for (const int step : {1, -1})
      if (explains(uniform(elements, walk(ranks, first, step))))
        return fmt::format("rank order from {}, {}", first, step > 0 ? "up" : "down");
  return {};
}

Explained explained_elements(std::span<const std::vector<float>> parts, Dtype wire, double by,
                             std::span<const float> observed) {
  const int ranks = static_cast<int>(parts.size());
  Explained result;
  std::vector<Additions> trees;
  for (int first = 0; first < ranks; ++first)
    for (const int step : {1, -1}) trees.push_back(walk(ranks, first, step));
  trees.insert(trees.end(), {pairwise(ranks, true), pairwise(ranks, false), below(ranks, 0)});
  std::vector<bool> used(trees.size());
  for (std::size_t i = 0; i < observed.size(); ++i) {
    bool found = false;
    std::vector<const float*> pointers;
    for (const std::vector<float>& part : parts) {
      if (part.size() != observed.size()) return {.unexplained = std::ssize(observed), .first = 0};
      pointers.push_back(part.data() + i);
    }
    // What explained an element before is tried first: as few orders as there need be.
    for (const bool known : {true, false})
      for (std::size_t t = 0; t < trees.size() && !found; ++t) {
        if (used[t] != known) continue;
        float sum = 0;
        evaluate(trees[t], wire, pointers, 0, std::span(&sum, 1),
                 [](float a, float b) { return a + b; });
        found = same_bits(divided(wire, sum, by), observed[i]);
        if (found) used[t] = true;
      }
    if (found) continue;
    if (result.unexplained++ == 0) result.first = static_cast<std::int64_t>(i);
  }
  for (std::size_t t = 0; t < trees.size(); ++t)
    if (used[t]) result.orders += (result.orders.empty() ? "" : ", ") + text(trees[t]);
  return result;
}

}  // namespace parity::dist
