// router_balance: updates of the correction bias (k3.md §3.6), by rounds R, experts E.
//   rule=sign      in tokens_per_expert [R,L,E] (L layers); out expert_bias [R,L,E] after each
//   round:
//                  d = rate sign(mean load - load), b += d - mean d, from b = 0; every round's
//                  counts are its own, for the counters are zeroed in between
//   rule=quantile  in scores [T,E] of tokens T, routed anew each round with the bias of the round
//                  before (0 at first) by K choices. cutoff [R,T] = (K+1)-th largest score + bias;
//                  margins r = score - cutoff;
//                  bias [R,E] = -(r_(j) of each expert), j = floor((1 - K/E) (T - 1)), centred: the
//                  lower quantile of the T sorted margins
//                  histogram: the same with margins counted in bins of [lo, hi], each bin with its
//                  upper edge, clamped; q = (1 - K/E) T; bias = -(lo + (b + (q - before) / count)
//                  w) for the first bin b whose cumulative count reaches q, on a trajectory of its
//                  own loads_before [R,E]: tokens routed to each expert before the update
//   options rate (1e-3), lo (-1), hi (1), bins (64)
// Scores that tie exactly after a round are the rule, not an accident: the expert whose margin was
// the quantile meets the cutoff. They are decided as torch.topk decides (blocks/router.hpp,
// ties=torch).
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/text.hpp"
#include "references/blocks/router.hpp"
#include "references/blocks/stored.hpp"

namespace parity::net {
namespace {

bool by_sign(const Case& c) { return c.options.get("rule", "quantile") == "sign"; }

std::string refuses(const Case& c) {
  const std::string rule = c.options.get("rule", "quantile");
  if (rule != "sign" && rule != "quantile") return "rule '" + rule + "' is none of sign, quantile";
  if (!by_sign(c) && c.sizes["K"] >= c.sizes["E"]) return "K + 1 choices need as many experts";
  return {};
}

std::vector<TensorSpec> inputs(const Case& c) {
  const std::int64_t E = c.sizes["E"];
  if (by_sign(c))
    return {{.name = "tokens_per_expert",
             .role = Role::Ids,
             .dtype = Dtype::I64,
             .dims = {{"R", c.sizes["R"]}, {"L", c.sizes["L"]}, {"E", E}}}};
  return {{.name = "scores", .dtype = c.dtype, .dims = {{"T", c.sizes["T"]}, {"E", E}}}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Dim rounds{"R", c.sizes["R"]}, experts{"E", c.sizes["E"]};
  const auto values = [&](const char* name, std::vector<Dim> dims) {
    return TensorSpec{
        .name = name, .role = Role::Output, .dtype = c.dtype, .dims = std::move(dims)};
  };
  const auto counts = [](const char* name, std::vector<Dim> dims) {
    return TensorSpec{
        .name = name, .role = Role::Ids, .dtype = Dtype::I64, .dims = std::move(dims)};
  };
  if (by_sign(c)) return {values("expert_bias", {rounds, {"L", c.sizes["L"]}, experts})};
  return {values("bias", {rounds, experts}), values("bias_histogram", {rounds, experts}),
          values("cutoff", {rounds, {"T", c.sizes["T"]}}),
          counts("loads_before", {rounds, experts}),
          counts("histogram", {rounds, experts, {"N", c.options.integer("bins", 64)}})};
}

template <class T>
T mean_of(const Run<T>& run, std::span<const T> x) {
  return run.sum(x) / static_cast<T>(x.size());
}

template <class T>
void centre(const Run<T>& run, std::span<T> x) {
  if (run.fault("P-balance-not-centred")) return;
  const T mean = mean_of<T>(run, x);
  for (T& value : x) value -= mean;
}

template <class T>
void sign_rule(Run<T>& run) {
  const Array<T>& load = run.in("tokens_per_expert");
  const std::int64_t E = load.width(), layers = run.problem().sizes["L"];
  const T rate = static_cast<T>(run.options().real("rate", 1e-3));
  Array<T> bias(load.shape);
  for (std::int64_t r = 0; r < load.rows(); ++r) {
    const bool first = r < layers;
    std::vector<T> count(load.row(r).begin(), load.row(r).end());
    if (run.fault("P-balance-counters"))  // what was counted before stays
      for (std::int64_t before = r - layers; before >= 0; before -= layers)
        for (std::size_t e = 0; e < count.size(); ++e) count[e] += load.row(before)[e];
    const T mean = mean_of<T>(run, count);
    std::vector<T> delta(count.size());
    for (std::size_t e = 0; e < count.size(); ++e) {
      const T gap = run.fault("P-balance-sign") ? count[e] - mean : mean - count[e];
      delta[e] = rate * static_cast<T>((gap > 0) - (gap < 0));
    }
    const bool whole = run.fault("P-balance-mean-of-bias");
    if (!whole) centre<T>(run, delta);
    for (std::int64_t e = 0; e < E; ++e) {
      const T before = first ? T{0} : bias[(r - layers) * E + e];
      bias[r * E + e] = before + delta[static_cast<std::size_t>(e)];
    }
    if (whole) {  // the mean of all positive biases, not of the change
      T top = bias[r * E];
      for (std::int64_t e = 0; e < E; ++e) top = std::max(top, bias[r * E + e]);
      for (std::int64_t e = 0; e < E; ++e) bias[r * E + e] -= top;
    }
  }
  run.put("expert_bias", std::move(bias));
}

template <class T>
struct Routed {
  std::vector<T> cutoff;                // [T]
  std::vector<std::int64_t> load;       // [E]
  std::vector<std::vector<T>> margins;  // [E][T]
};

template <class T>
Routed<T> route_with(const Run<T>& run, const Array<T>& scores, std::span<const T> bias) {
  const std::int64_t E = scores.width(), K = run.problem().sizes["K"];
  Routed<T> routed{.cutoff = {},
                   .load = std::vector<std::int64_t>(static_cast<std::size_t>(E)),
                   .margins = std::vector<std::vector<T>>(static_cast<std::size_t>(E))};
  std::vector<T> biased(bias.size());
  for (std::int64_t t = 0; t < scores.rows(); ++t) {
    for (std::size_t e = 0; e < biased.size(); ++e) biased[e] = scores.row(t)[e] + bias[e];
    for (const std::int64_t e : largest<T>(biased, K, true).ids)
      ++routed.load[static_cast<std::size_t>(e)];
    const std::int64_t rank = run.fault("P-balance-kth") ? K - 1 : K;
    std::ranges::nth_element(biased, biased.begin() + rank, std::greater<>());
    routed.cutoff.push_back(biased[static_cast<std::size_t>(rank)]);
    for (std::int64_t e = 0; e < E; ++e)
      routed.margins[static_cast<std::size_t>(e)].push_back(scores[t * E + e] -
                                                            routed.cutoff.back());
  }
  return routed;
}

template <class T>
std::vector<T> exact_rule(const Run<T>& run, const Routed<T>& routed, double share) {
  std::vector<T> bias;
  for (std::vector<T> sorted : routed.margins) {
    std::ranges::sort(sorted);
    const auto last = static_cast<double>(sorted.size() - 1);
    auto at = static_cast<std::size_t>(share * last);
    if (run.fault("P-balance-off-by-one") && at > 0) --at;
    bias.push_back(-sorted[at]);
  }
  centre<T>(run, bias);
  return bias;
}

struct Bins {
  double lo = -1, hi = 1;
  std::int64_t count = 64;
};

template <class T>
std::vector<std::int64_t> histogram(const std::vector<T>& margins, const Bins& bins, bool floor) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(bins.count));
  const double width = (bins.hi - bins.lo) / static_cast<double>(bins.count);
  for (const T r : margins) {
    const double place = (static_cast<double>(r) - bins.lo) / width;
    const auto bin = static_cast<std::int64_t>(floor ? std::floor(place) : std::ceil(place) - 1);
    ++counts[static_cast<std::size_t>(std::clamp<std::int64_t>(bin, 0, bins.count - 1))];
  }
  return counts;
}

template <class T>
T histogram_quantile(const Run<T>& run, const std::vector<std::int64_t>& counts, const Bins& bins,
                     double q) {
  const double width = (bins.hi - bins.lo) / static_cast<double>(bins.count);
  std::int64_t before = 0;
  std::size_t b = 0;
  while (b + 1 < counts.size() && static_cast<double>(before + counts[b]) < q)
    before += counts[b++];
  double part = (q - static_cast<double>(before)) / static_cast<double>(counts[b]);
  if (run.fault("P-balance-edge")) part = 0;  // snaps to the bin's edge
  return static_cast<T>(bins.lo + (static_cast<double>(b) + std::clamp(part, 0.0, 1.0)) * width);
}

template <class T>
void quantile_rule(Run<T>& run) {
  const Array<T>& scores = run.in("scores");
  const Options& o = run.options();
  const std::int64_t E = scores.width(), rounds = run.problem().sizes["R"];
  const Bins bins{o.real("lo", -1), o.real("hi", 1), o.integer("bins", 64)};
  const double share = 1 - static_cast<double>(run.problem().sizes["K"]) / static_cast<double>(E);
  const double q = share * static_cast<double>(scores.rows());
  std::vector<T> exact(static_cast<std::size_t>(E)), binned = exact;
  Array<T> moved({E});
  Array<T> bias({rounds, E}), bias_histogram({rounds, E}), cutoff({rounds, scores.rows()}),
      loads({rounds, E}), counts({rounds, E, bins.count});
  for (std::int64_t r = 0; r < rounds; ++r) {
    const Routed<T> routed = route_with<T>(run, scores, exact);
    std::ranges::copy(routed.cutoff, cutoff.row(r).begin());
    for (std::int64_t e = 0; e < E; ++e)
      loads[r * E + e] = static_cast<T>(routed.load[static_cast<std::size_t>(e)]);
    exact = exact_rule(run, routed, share);
    const Routed<T> by_bins = route_with<T>(run, scores, binned);
    for (std::int64_t e = 0; e < E; ++e) {
      const auto expert = static_cast<std::size_t>(e);
      const std::vector<std::int64_t> row =
          histogram(by_bins.margins[expert], bins, run.fault("P-balance-lower-edge"));
      std::ranges::transform(row, counts.row(r * E + e).begin(),
                             [](std::int64_t n) { return static_cast<T>(n); });
      moved[e] = -histogram_quantile(run, row, bins, q);
    }
    run.keep(moved);
    std::ranges::copy(moved.data, binned.begin());
    centre<T>(run, binned);
    std::ranges::copy(exact, bias.row(r).begin());
    std::ranges::copy(binned, bias_histogram.row(r).begin());
  }
  run.put("bias", std::move(bias));
  run.put("bias_histogram", std::move(bias_histogram));
  run.put("cutoff", std::move(cutoff));
  run.put("loads_before", std::move(loads));
  run.put("histogram", std::move(counts));
}

template <class T>
void formulas(Run<T>& run) {
  by_sign(run.problem()) ? sign_rule(run) : quantile_rule(run);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), kFormulas, c, tensors, gradients);
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "router_balance";
  c.dtype = stored_dtype(stored);
  const auto real = [&](const char* option, const char* attribute, double usual) {
    if (const double value = stored_real(stored, attribute, usual); value != usual)
      c.options.set(option, shortest(value));
  };
  if (holds(stored, "inputs/tokens_per_expert")) {
    const std::vector<std::int64_t> shape = stored_shape(stored, "inputs/tokens_per_expert");
    c.options.set("rule", "sign");
    c.sizes = Sizes{{"R", shape.at(0), {}}, {"L", shape.at(1), {}}, {"E", shape.at(2), {}}};
    real("rate", "load_balance_coeff", 1e-3);
  } else {
    const std::vector<std::int64_t> shape = stored_shape(stored, "inputs/scores");
    c.sizes = Sizes{{"R", stored_integer(stored, "rounds", 1), {}},
                    {"T", shape.at(0), {}},
                    {"E", shape.at(1), {}},
                    {"K", stored_integer(stored, "top_k", 1), {}}};
    real("lo", "lo", -1);
    real("hi", "hi", 1);
    real("bins", "num_bins", 64);
  }
  import_composite(stored, registry().op_or_throw(c.op), imported);
  return imported;
}

const Register op{OpDef{
    .name = "router_balance",
    .what = "correction biases from loads: by sign, by the exact or the counted quantile",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward},
    .sources = {"Kimi K3 (arXiv 2607.24653)", "DeepSeek-V3 (arXiv 2412.19437)",
                "torchtitan components.optimizer"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"P-balance-sign", "", "biases of busy experts rise"},
               {"P-balance-mean-of-bias", "", "the bias is moved, not its change centred"},
               {"P-balance-not-centred", "", "the change is not centred"},
               {"P-balance-counters", "", "counters are not zeroed between rounds"},
               {"P-balance-kth", "", "cutoff at the K-th largest, not the (K+1)-th"},
               {"P-balance-off-by-one", "", "quantile one margin too low"},
               {"P-balance-edge", "", "histogram quantile snaps to the edge of its bin"},
               {"P-balance-lower-edge", "", "a margin on an edge is counted in the bin above"}},
}};

const Register bound{BoundDef{.op = "router_balance", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
