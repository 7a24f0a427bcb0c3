#include "kernels/moe/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/unit/rows.hpp"

namespace parity::moe_kernel {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Top {
  std::vector<std::int64_t> ids;  // ascending
  float margin = std::numeric_limits<float>::infinity();
};

Top top(const std::vector<float>& s, std::int64_t k) {
  std::vector<std::int64_t> order(s.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const float x = s[static_cast<std::size_t>(a)], y = s[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const std::int64_t all = std::ssize(order);
  std::partial_sort(order.begin(), order.begin() + std::min(k + 1, all), order.end(), before);
  Top t{.ids = {order.begin(), order.begin() + k}};
  if (k < all)
    t.margin = s[static_cast<std::size_t>(order[static_cast<std::size_t>(k - 1)])] -
               s[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])];
  std::ranges::sort(t.ids);
  return t;
}

void softmax(std::span<float> z) {
  float most = z[0];
  for (const float x : z) most = std::max(most, x);
  float sum = 0;
  for (float& x : z) sum += x = std::exp(x - most);
  for (float& x : z) x /= sum;
}

float limit_groups(const Router& r, std::vector<float>& s) {
  const std::int64_t size = r.E / r.groups;
  std::vector<float> group;
  for (std::int64_t first = 0; first < r.E; first += size) {
    std::vector<float> part(s.begin() + first, s.begin() + first + size);
    std::ranges::sort(part, std::greater<>());
    group.push_back(size == 1 ? part[0] : part[0] + part[1]);
  }
  const Top stay = top(group, r.top_groups);
  for (std::int64_t e = 0; e < r.E; ++e)
    if (!std::ranges::binary_search(stay.ids, e / size))
      s[static_cast<std::size_t>(e)] = r.fault == "P-router-groups-zero" ? 0 : kNever;
  return stay.margin;
}

}  // namespace

Router router_of(const Launch& launch) {
  const Case& c = launch.problem;
  const Options& o = c.options;
  const std::string score = o.get("score", "sigmoid");
  return {.T = c.sizes["T"],
          .D = c.sizes["D"],
          .E = c.sizes["E"],
          .K = c.sizes["K"],
          .groups = o.integer("groups", 1),
          .top_groups = o.integer("top_groups", 1),
          .score = score == "softmax"        ? Score::Softmax
                   : score == "topk_softmax" ? Score::TopkSoftmax
                                             : Score::Sigmoid,
          .renorm = o.integer("renorm", 1) != 0,
          .eps = static_cast<float>(o.real("renorm_eps", 1e-20)),
          .scale = static_cast<float>(o.real("scale", 1)),
          .bias = launch.in<float>("params/gate.e_score_correction_bias"),
          .given = launch.in<std::int64_t>("ids"),
          .threads = launch.threads,
          .fault = launch.fault};
}

std::string router_refusal(const Case& c, const Options&) {
  if (c.options.get("ties", "lowest") != "lowest") return "ties go to the lowest index here";
  for (const char* extra : {"taps", "order", "gate_bf16"})
    if (c.options.flag(extra)) return "of a source's own interest";
  return "";
}

Routed route(const Router& r, const Matrix& x, const Matrix& gate, const Matrix* linear_bias) {
  Routed out;
  out.logits = times_transposed(r.threads, x, gate);
  if (linear_bias != nullptr)
    for (std::int64_t t = 0; t < r.T; ++t)
      for (std::int64_t e = 0; e < r.E; ++e) out.logits.row(t)[e] += linear_bias->row(0)[e];
  out.scores = out.logits;
  out.load.assign(static_cast<std::size_t>(r.E), 0);
  for (std::int64_t t = 0; t < r.T; ++t) {
    const std::span<float> s(out.scores.row(t), static_cast<std::size_t>(r.E));
    if (r.score == Score::Sigmoid)
      for (float& z : s) z = unit_kernel::sigmoid(z);
    if (r.score == Score::Softmax) softmax(s);
    std::vector<float> biased(s.begin(), s.end());
    for (std::size_t e = 0; r.bias != nullptr && e < biased.size(); ++e)
      if (r.fault != "P-router-no-bias") biased[e] += r.bias[e];
    const std::vector<float> full = biased;
    Top choice;
    if (r.given == nullptr) {
      float margin = std::numeric_limits<float>::infinity();
      if (r.groups > 1 && r.top_groups < r.groups) margin = limit_groups(r, biased);
      choice = top(biased, r.K);
      choice.margin = std::min(choice.margin, margin);
    } else {
      choice.ids.assign(r.given + t * r.K, r.given + (t + 1) * r.K);
    }
    out.margin.push_back(choice.margin);
    std::vector<float> w;
    for (const std::int64_t e : choice.ids) {
      ++out.load[static_cast<std::size_t>(e)];
      w.push_back(r.fault == "A-MR08" ? full[static_cast<std::size_t>(e)]
                                      : s[static_cast<std::size_t>(e)]);
    }
    if (r.score == Score::TopkSoftmax)
      softmax(w);
    else if (r.renorm && r.fault != "P-router-no-renorm") {
      const float sum = std::accumulate(w.begin(), w.end(), 0.0F) + r.eps;
      for (float& x_j : w) x_j /= sum;
    }
    for (float& x_j : w) x_j *= r.scale;
    out.ids.insert(out.ids.end(), choice.ids.begin(), choice.ids.end());
    out.weights.insert(out.weights.end(), w.begin(), w.end());
  }
  return out;
}

Matrix route_backward(const Router& r, const Routed& routed, const std::vector<float>& d_weights) {
  Matrix dz(r.T, r.E);
  for (std::int64_t t = 0; t < r.T; ++t) {
    const float* s = routed.scores.row(t);
    const float* z = routed.logits.row(t);
    const std::int64_t* ids = routed.ids.data() + t * r.K;
    const float* g = d_weights.data() + t * r.K;
    const float* w = routed.weights.data() + t * r.K;
    const bool after = r.score == Score::TopkSoftmax, coupled = after || r.renorm;
    float sum = 1, mean = 0;
    if (coupled && !after) {
      sum = r.eps;
      for (std::int64_t j = 0; j < r.K; ++j) sum += s[ids[j]];
    }
    for (std::int64_t j = 0; coupled && j < r.K; ++j)
      mean += g[j] * (after ? w[j] / r.scale : s[ids[j]] / sum);
    float total = 0;  // of ds s over experts
    for (std::int64_t j = 0; j < r.K; ++j) {
      float d = r.scale * (g[j] - mean) / sum;
      if (after) d *= w[j] / r.scale;
      if (r.score == Score::Sigmoid) d *= s[ids[j]] * unit_kernel::sigmoid(-z[ids[j]]);
      dz.row(t)[ids[j]] = d;
      total += d * s[ids[j]];
    }
    if (r.score == Score::Softmax)
      for (std::int64_t e = 0; e < r.E; ++e)
        dz.row(t)[e] = s[e] * (dz.row(t)[e] - (r.fault == "P-router-chosen-only" ? 0 : total));
  }
  return dz;
}

}  // namespace parity::moe_kernel
