// router_balance.plain: sign and quantile rules in f32, one round after the other. Loads by
// std::nth_element, as torch.topk chooses among equals.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "harness/kernel.hpp"

namespace parity::moe_kernel {
namespace {

void centre(std::span<float> x) {
  const float mean = std::accumulate(x.begin(), x.end(), 0.0F) / static_cast<float>(x.size());
  for (float& value : x) value -= mean;
}

void sign_rule(const Launch& launch) {
  const Case& c = launch.problem;
  const std::int64_t rows = c.sizes["R"] * c.sizes["L"], E = c.sizes["E"];
  const auto rate = static_cast<float>(c.options.real("rate", 1e-3));
  const auto* load = launch.in<std::int64_t>("tokens_per_expert");
  auto* bias = launch.out<float>("expert_bias");
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t* row = load + r * E;
    const std::int64_t total = std::accumulate(row, row + E, std::int64_t{0});
    std::vector<float> delta;
    for (std::int64_t e = 0; e < E; ++e) {  // the sign of total / E - load, in integers
      const std::int64_t gap =
          launch.fault == "P-balance-sign" ? E * row[e] - total : total - E * row[e];
      delta.push_back(rate * static_cast<float>((gap > 0) - (gap < 0)));
    }
    centre(delta);
    for (std::int64_t e = 0; e < E; ++e) {
      const float before = r < c.sizes["L"] ? 0 : bias[(r - c.sizes["L"]) * E + e];
      bias[r * E + e] = before + delta[static_cast<std::size_t>(e)];
    }
  }
}

struct Shape {
  std::int64_t T, E, K, bins;
  double lo, hi;
  double width() const { return (hi - lo) / static_cast<double>(bins); }
};

// Cutoffs of all tokens under a bias; loads where asked for.
std::vector<float> cutoffs(const Shape& s, const float* scores, const std::vector<float>& bias,
                           std::int64_t* loads) {
  using Entry = std::pair<float, std::int64_t>;
  const auto greater = [](const Entry& a, const Entry& b) { return a.first > b.first; };
  if (loads != nullptr) std::fill(loads, loads + s.E, 0);
  std::vector<float> cutoff;
  std::vector<Entry> queue(static_cast<std::size_t>(s.E));
  for (std::int64_t t = 0; t < s.T; ++t) {
    for (std::int64_t e = 0; e < s.E; ++e)
      queue[static_cast<std::size_t>(e)] = {scores[t * s.E + e] + bias[static_cast<std::size_t>(e)],
                                            e};
    const auto last = queue.begin() + s.K;
    if (s.K * 64 <= s.E)
      std::partial_sort(queue.begin(), last, queue.end(), greater);
    else
      std::nth_element(queue.begin(), last - 1, queue.end(), greater);
    if (loads != nullptr)
      for (auto it = queue.begin(); it != last; ++it) ++loads[it->second];
    cutoff.push_back(std::max_element(last, queue.end(), [](const Entry& a, const Entry& b) {
                       return a.first < b.first;
                     })->first);
  }
  return cutoff;
}

std::vector<float> margins(const Shape& s, const float* scores, const std::vector<float>& cutoff,
                           std::int64_t e) {
  std::vector<float> r;
  for (std::int64_t t = 0; t < s.T; ++t)
    r.push_back(scores[t * s.E + e] - cutoff[static_cast<std::size_t>(t)]);
  return r;
}

float counted_quantile(const Shape& s, const std::int64_t* counts, double q) {
  std::int64_t before = 0, b = 0;
  while (b + 1 < s.bins && static_cast<double>(before + counts[b]) < q) before += counts[b++];
  const double part = (q - static_cast<double>(before)) / static_cast<double>(counts[b]);
  return static_cast<float>(s.lo +
                            (static_cast<double>(b) + std::clamp(part, 0.0, 1.0)) * s.width());
}

void quantile_rule(const Launch& launch) {
  const Case& c = launch.problem;
  const Shape s{c.sizes["T"],
                c.sizes["E"],
                c.sizes["K"],
                c.options.integer("bins", 64),
                c.options.real("lo", -1),
                c.options.real("hi", 1)};
  const double share = 1 - static_cast<double>(s.K) / static_cast<double>(s.E);
  const auto* scores = launch.in<float>("scores");
  std::vector<float> exact(static_cast<std::size_t>(s.E)), binned = exact;
  for (std::int64_t round = 0; round < c.sizes["R"]; ++round) {
    const std::vector<float> cutoff =
        cutoffs(s, scores, exact, launch.out<std::int64_t>("loads_before") + round * s.E);
    std::ranges::copy(cutoff, launch.out<float>("cutoff") + round * s.T);
    const std::vector<float> by_bins = cutoffs(s, scores, binned, nullptr);
    for (std::int64_t e = 0; e < s.E; ++e) {
      std::vector<float> r = margins(s, scores, cutoff, e);
      const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(s.T - 1)) -
                      (launch.fault == "P-balance-off-by-one" ? 1 : 0);
      std::ranges::nth_element(r, r.begin() + at);
      exact[static_cast<std::size_t>(e)] = -r[static_cast<std::size_t>(at)];
      std::int64_t* counts = launch.out<std::int64_t>("histogram") + (round * s.E + e) * s.bins;
      std::fill(counts, counts + s.bins, 0);
      for (const float m : margins(s, scores, by_bins, e)) {
        const auto bin =
            static_cast<std::int64_t>(std::ceil((static_cast<double>(m) - s.lo) / s.width()) - 1);
        ++counts[std::clamp<std::int64_t>(bin, 0, s.bins - 1)];
      }
      binned[static_cast<std::size_t>(e)] =
          -counted_quantile(s, counts, share * static_cast<double>(s.T));
    }
    centre(exact);
    centre(binned);
    std::ranges::copy(exact, launch.out<float>("bias") + round * s.E);
    std::ranges::copy(binned, launch.out<float>("bias_histogram") + round * s.E);
  }
}

void forward(const Launch& launch) {
  launch.problem.options.get("rule", "quantile") == "sign" ? sign_rule(launch)
                                                           : quantile_rule(launch);
}

const Register kernel{KernelDef{
    .op = "router_balance",
    .name = "router_balance.plain",
    .what = "f32, quantile by selection",
    .contract = {.name = "f32", .dtypes = {Dtype::F32}, .accumulate = Dtype::F32},
    .forward = forward,
    .faults = {{"P-balance-sign", "", "biases of busy experts rise"},
               {"P-balance-off-by-one", "", "quantile one margin too low"}},
}};

}  // namespace
}  // namespace parity::moe_kernel
