#include "references/blocks/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/dtype.hpp"
#include "harness/failure.hpp"

namespace parity::net {

RouterRule router_rule(const Case& c) {
  const Options& o = c.options;
  const std::string score = o.get("score", "sigmoid");
  return {.score = score == "softmax"        ? Score::Softmax
                   : score == "topk_softmax" ? Score::TopkSoftmax
                                             : Score::Sigmoid,
          .k = c.sizes["K"],
          .groups = o.integer("groups", 1),
          .top_groups = o.integer("top_groups", 1),
          .renorm = o.integer("renorm", 1) != 0,
          .eps = o.real("renorm_eps", 1e-20),
          .scale = o.real("scale", 1),
          .torch_ties = o.get("ties", "lowest") == "torch"};
}

std::string router_refusal(const Case& c) {
  const RouterRule rule = router_rule(c);
  const std::int64_t E = c.sizes["E"];
  const std::string score = c.options.get("score", "sigmoid"),
                    ties = c.options.get("ties", "lowest");
  if (score != "sigmoid" && score != "softmax" && score != "topk_softmax")
    return "score '" + score + "' is none of sigmoid, softmax, topk_softmax";
  if (ties != "lowest" && ties != "torch") return "ties '" + ties + "' is none of lowest, torch";
  if (rule.k < 1 || rule.k > E) return "K is not between 1 and E";
  if (rule.groups < 1 || E % rule.groups != 0) return "groups do not divide E";
  if (rule.top_groups < 1 || rule.top_groups > rule.groups) return "top_groups exceeds groups";
  if (rule.k > E / rule.groups * rule.top_groups) return "the groups that stay have fewer than K";
  return {};
}

template <class T>
Choice largest(std::span<const T> scores, std::int64_t k, bool torch_ties) {
  using Entry = std::pair<T, std::int64_t>;
  std::vector<Entry> queue;
  for (std::size_t e = 0; e < scores.size(); ++e)
    queue.emplace_back(scores[e], static_cast<std::int64_t>(e));
  const auto greater = [](const Entry& a, const Entry& b) { return a.first > b.first; };
  const auto middle = queue.begin() + k;
  if (!torch_ties)
    std::ranges::stable_sort(queue, greater);
  else if (k * 64 <= static_cast<std::int64_t>(queue.size()))
    std::partial_sort(queue.begin(), middle, queue.end(), greater);
  else
    std::nth_element(queue.begin(), middle - 1, queue.end(), greater);
  Choice choice{.margin = std::numeric_limits<double>::infinity()};
  for (auto it = queue.begin(); it != middle; ++it) choice.ids.push_back(it->second);
  if (middle != queue.end()) {
    const auto last = std::min_element(queue.begin(), middle);
    const auto next = std::max_element(middle, queue.end());
    choice.margin = static_cast<double>(last->first) - static_cast<double>(next->first);
  }
  std::ranges::sort(choice.ids);
  return choice;
}

namespace {

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <class T>
T sigmoid(T x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// exp(z - max) / sum, in place.
template <class T>
void softmax(const Run<T>& run, std::span<T> z) {
  T top = z[0];
  for (const T x : z) top = std::max(top, x);
  if (run.fault("P-router-max-zero")) top = 0;
  for (T& x : z) x = std::exp(x - top);
  const T total = run.sum(z);
  for (T& x : z) x /= total;
}

template <class T>
Array<T> logits_of(Run<T>& run, const Array<T>& x, const std::string& gate) {
  Array<T> z = times_transposed(run, x.as({x.rows(), x.width()}), run.param(gate + ".weight"));
  if (run.has("params/" + gate + ".bias")) {
    const Array<T>& bias = run.param(gate + ".bias");
    for (std::int64_t i = 0; i < z.count(); ++i) z[i] += bias[i % bias.count()];
  }
  if (run.fault("P-router-gate-bf16"))
    for (T& value : z.data) value = static_cast<T>(round_to(Dtype::BF16, value));
  run.keep(z);
  return z;
}

template <class T>
Array<T> scores_of(Run<T>& run, const Array<T>& logits, Score score) {
  Array<T> s = logits;
  if (score == Score::Sigmoid)
    for (T& value : s.data) value = sigmoid(value);
  if (score == Score::Softmax)
    for (std::int64_t t = 0; t < s.rows(); ++t) softmax(run, s.row(t));
  run.keep(s);
  return s;
}

// Groups that do not stay become -inf; the margin of that choice.
template <class T>
double limit_groups(const Run<T>& run, std::span<T> biased, const RouterRule& rule) {
  const std::size_t size = biased.size() / static_cast<std::size_t>(rule.groups);
  std::vector<T> group;
  for (std::size_t first = 0; first < biased.size(); first += size) {
    std::vector<T> part(biased.begin() + static_cast<std::ptrdiff_t>(first),
                        biased.begin() + static_cast<std::ptrdiff_t>(first + size));
    std::ranges::sort(part, std::greater<>());
    const bool single = run.fault("P-router-group-max") || size == 1;
    group.push_back(single ? part[0] : part[0] + part[1]);
  }
  const Choice stay = largest<T>(group, rule.top_groups, rule.torch_ties);
  for (std::size_t e = 0; e < biased.size(); ++e)
    if (!std::ranges::binary_search(stay.ids, static_cast<std::int64_t>(e / size)))
      biased[e] = run.fault("P-router-groups-zero") ? T{0} : kNever<T>;
  return stay.margin;
}

// Chooses for one token, whose scores with the bias are given.
template <class T>
Choice choose(const Run<T>& run, std::vector<T> biased, const RouterRule& rule) {
  double margin = std::numeric_limits<double>::infinity();
  if (rule.limited() && !run.fault("P-router-no-groups"))
    margin = limit_groups<T>(run, biased, rule);
  if (run.fault("P-router-max-zero"))
    for (T& s : biased) s = s > 0 ? s : kNever<T>;
  Choice choice = largest<T>(biased, rule.k, rule.torch_ties);
  if (run.fault("P-router-next")) {  // the best one is skipped
    const Choice more =
        largest<T>(biased, std::min<std::int64_t>(rule.k + 1, std::ssize(biased)), rule.torch_ties);
    std::int64_t best = more.ids.front();
    for (const std::int64_t e : more.ids)
      if (biased[static_cast<std::size_t>(e)] > biased[static_cast<std::size_t>(best)]) best = e;
    choice.ids = more.ids;
    std::erase(choice.ids, best);
    choice.ids.resize(static_cast<std::size_t>(rule.k), best);
    std::ranges::sort(choice.ids);
  }
  choice.margin = std::min(choice.margin, margin);
  return choice;
}

template <class T>
T bias_of(const Run<T>& run, const Array<T>* bias, std::int64_t e) {
  if (bias == nullptr || run.fault("P-router-no-bias")) return 0;
  const T b = (*bias)[e];
  return run.fault("P-router-bias-bf16") ? static_cast<T>(round_to(Dtype::BF16, b)) : b;
}

// Weights of one token's chosen experts from their scores.
template <class T>
void weigh(const Run<T>& run, std::span<T> w, const RouterRule& rule) {
  const T scale = run.fault("P-router-no-scale")      ? T{1}
                  : run.fault("P-router-scale-twice") ? static_cast<T>(rule.scale * rule.scale)
                                                      : static_cast<T>(rule.scale);
  const bool skip = run.fault("P-router-no-renorm") || (rule.k == 1 && run.fault("P-router-k1"));
  if (rule.score == Score::TopkSoftmax) {
    softmax(run, w);
  } else if (rule.renorm && !skip) {
    const T eps = static_cast<T>(run.fault("P-router-eps") ? 1e-2 : rule.eps);
    const T total = run.sum(w) + eps;
    for (T& x : w) x /= total;
  }
  for (T& x : w) x *= scale;
}

}  // namespace

template <class T>
Routing<T> route(Run<T>& run, const Array<T>& x, const std::string& gate, const RouterRule& rule) {
  Routing<T> r;
  r.logits = logits_of(run, x, gate);
  r.scores = scores_of(run, r.logits, rule.score);
  const std::int64_t rows = r.logits.rows(), E = r.logits.width(), k = rule.k;
  const std::string name = "params/" + gate + ".e_score_correction_bias";
  const Array<T>* bias = run.has(name) ? &run.in(name) : nullptr;
  r.weights = Array<T>({rows, k});
  r.margin = Array<T>({rows});
  r.load.assign(static_cast<std::size_t>(E), 0);
  const bool given = run.has(rule.given);
  if (given) r.ids = run.ids(rule.given);
  for (std::int64_t t = 0; t < rows; ++t) {
    std::vector<T> biased(r.scores.row(t).begin(), r.scores.row(t).end());
    for (std::int64_t e = 0; e < E; ++e)
      biased[static_cast<std::size_t>(e)] += bias_of(run, bias, e);
    if (!given) {
      const Choice choice = choose(run, biased, rule);
      r.ids.insert(r.ids.end(), choice.ids.begin(), choice.ids.end());
      r.margin[t] = static_cast<T>(choice.margin);
    }
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t e = r.ids[static_cast<std::size_t>(t * k + j)];
      if (e < 0 || e >= E) throw Failure("an expert id past the experts");
      ++r.load[static_cast<std::size_t>(e)];
      r.weights[t * k + j] =
          run.fault("A-MR08") ? biased[static_cast<std::size_t>(e)] : r.scores[t * E + e];
    }
    weigh<T>(run, r.weights.row(t), rule);
  }
  run.keep(r.weights);
  return r;
}

template <class T>
RouterGradients<T> route_backward(Run<T>& run, const Array<T>& x, const Routing<T>& r,
                                  const Array<T>& d_weights, const std::string& gate,
                                  const RouterRule& rule, const Array<T>& d_logits) {
  const std::int64_t rows = r.logits.rows(), E = r.logits.width(), k = rule.k;
  RouterGradients<T> d{.x = {}, .logits = Array<T>({rows, E}), .scores = Array<T>({rows, E})};
  const T scale = static_cast<T>(rule.scale);
  const bool parted = !run.truth();
  // ds = (g - sum_j g_j p_j) / S. Where k = 1 nothing is left of it but the roundings of its two
  // parts, of which evaluations show those of g / S - sum_j g_j (p_j / S).
  Array<T> direct({k}), shared({k});
  std::vector<T> terms(static_cast<std::size_t>(k));
  for (std::int64_t t = 0; t < rows; ++t) {
    const auto id = [&](std::int64_t j) { return r.ids[static_cast<std::size_t>(t * k + j)]; };
    const std::span<const T> g = d_weights.row(t), w = r.weights.row(t);
    const bool topk_softmax = rule.score == Score::TopkSoftmax;
    T total = 1;
    if (rule.renorm && !topk_softmax) {
      for (std::int64_t j = 0; j < k; ++j)
        terms[static_cast<std::size_t>(j)] = r.scores[t * E + id(j)];
      total = run.sum(terms) + static_cast<T>(rule.eps);
    }
    for (std::int64_t j = 0; j < k; ++j) {
      const auto slot = static_cast<std::size_t>(j);
      direct[j] = g[slot] / total;
      shared[j] = topk_softmax ? w[slot] / scale : r.scores[t * E + id(j)] / total;
      if (parted && !topk_softmax) shared[j] /= total;
    }
    run.keep(direct);
    run.keep(shared);
    for (std::size_t j = 0; j < terms.size(); ++j) terms[j] = g[j] * shared.data[j];
    const bool coupled = rule.renorm || topk_softmax;
    const T mean = coupled && !run.fault("P-router-renorm-path") ? run.sum(terms) : T{0};
    for (std::int64_t j = 0; j < k; ++j) {
      T& ds = d.scores[t * E + id(j)];
      ds = scale * (parted ? direct[j] - mean : (g[static_cast<std::size_t>(j)] - mean) / total);
      if (topk_softmax) ds *= shared[j];
    }
  }
  run.keep(d.scores);
  d.logits = d.scores;
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::span<T> dz = d.logits.row(t);
    const std::span<const T> z = r.logits.row(t), s_E = r.scores.row(t);
    if (rule.score == Score::Sigmoid)
      for (std::size_t e = 0; e < dz.size(); ++e)
        dz[e] *= run.fault("P-router-slope") ? s_E[e] : s_E[e] * sigmoid(-z[e]);
    if (rule.score == Score::Softmax) {
      std::vector<T> products(dz.size());
      for (std::size_t e = 0; e < dz.size(); ++e) products[e] = dz[e] * s_E[e];
      const T mean = run.fault("P-router-chosen-only") ? T{0} : run.sum(products);
      for (std::size_t e = 0; e < dz.size(); ++e) dz[e] = s_E[e] * (dz[e] - mean);
    }
  }
  if (d_logits.count() == d.logits.count()) add(d.logits, d_logits);
  run.keep(d.logits);
  Array<T> dw = transposed_times(run, d.logits, x.as({rows, x.width()}));
  run.store(dw);
  run.param_grad(gate + ".weight", dw);
  if (run.has("params/" + gate + ".bias")) {
    Array<T> db({E});
    std::vector<T> column(static_cast<std::size_t>(rows));
    for (std::int64_t e = 0; e < E; ++e) {
      for (std::int64_t t = 0; t < rows; ++t)
        column[static_cast<std::size_t>(t)] = d.logits[t * E + e];
      db[e] = run.sum(column);
    }
    run.store(db);
    run.param_grad(gate + ".bias", db);
  }
  d.x = times(run, d.logits, run.param(gate + ".weight"));
  run.store(d.x);
  return d;
}

template <class T>
std::vector<std::int64_t> slots_in_order(const Routing<T>& r,
                                         const std::vector<std::int64_t>& order) {
  const std::int64_t k = r.weights.width();
  std::vector<std::int64_t> slots;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) / k * k;
    const auto begin = r.ids.begin() + first;
    const auto at = std::find(begin, begin + k, order[i]);
    slots.push_back(at == begin + k ? -1 : first + (at - begin));
  }
  return slots;
}

template <class T>
Array<T> arranged(const Routing<T>& r, const Array<T>& by_slot,
                  const std::vector<std::int64_t>& order) {
  if (order.empty()) return by_slot;
  Array<T> result(by_slot.shape);
  const std::vector<std::int64_t> slots = slots_in_order(r, order);
  for (std::size_t i = 0; i < slots.size(); ++i)
    result.data[i] = slots[i] < 0 ? T{-1} : by_slot[slots[i]];
  return result;
}

template <class T>
Array<T> numbers(const std::vector<std::int64_t>& list, std::vector<std::int64_t> shape) {
  Array<T> array(std::move(shape));
  for (std::size_t i = 0; i < list.size(); ++i) array.data[i] = static_cast<T>(list[i]);
  return array;
}

double logit_noise(std::span<const double> x, std::span<const double> w, double z, double u) {
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += std::pow(x[i] * w[i], 2);
  return 6 * u * std::sqrt(static_cast<double>(x.size())) * (std::abs(z) + std::sqrt(squares));
}

std::vector<std::uint8_t> open_tokens(const Case& c, const Tensors& inputs, const std::string& gate,
                                      const RouterRule& rule) {
  Run<double> run(c, inputs, false);
  const Array<double>&x = run.in("x"), &w = run.param(gate + ".weight");
  std::vector<std::uint8_t> open(static_cast<std::size_t>(x.rows()), 0);
  if (run.has(rule.given)) return open;
  const Routing<double> r = route(run, x, gate, rule);
  const double u = c.dtype == Dtype::F64 ? 0x1p-53 : 0x1p-24;
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    double reach = 0;
    for (std::int64_t e = 0; e < w.rows(); ++e) {
      const double z = r.logits[t * w.rows() + e], s = r.scores[t * w.rows() + e];
      const double dz = logit_noise(x.row(t), w.row(e), z, u);
      const double slope = rule.score == Score::TopkSoftmax ? 1 : s * (1 - s);
      reach = std::max(reach, slope * dz + 4 * u * std::abs(s));
    }
    // Two scores of a pair, or two of each of two groups.
    open[static_cast<std::size_t>(t)] = r.margin[t] < (rule.limited() ? 4 : 2) * reach ? 1 : 0;
  }
  return open;
}

#define PARITY_INSTANTIATE(T)                                                                 \
  template Choice largest(std::span<const T>, std::int64_t, bool);                            \
  template Routing<T> route(Run<T>&, const Array<T>&, const std::string&, const RouterRule&); \
  template RouterGradients<T> route_backward(Run<T>&, const Array<T>&, const Routing<T>&,     \
                                             const Array<T>&, const std::string&,             \
                                             const RouterRule&, const Array<T>&);             \
  template Array<T> arranged(const Routing<T>&, const Array<T>&,                              \
                             const std::vector<std::int64_t>&);                               \
  template Array<T> numbers(const std::vector<std::int64_t>&, std::vector<std::int64_t>);     \
  template std::vector<std::int64_t> slots_in_order(const Routing<T>&,                        \
                                                    const std::vector<std::int64_t>&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
