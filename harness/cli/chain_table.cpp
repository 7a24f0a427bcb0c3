#include "harness/cli/chain_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "harness/numeric/formats.hpp"

namespace parity::cli {
namespace {

// The first draw's seed; they count up.
constexpr std::uint64_t kFirstSeed = 1;

Tensor draw_of(const DrawRequest& request, int draw) {
  Tensor x = normal_matrix(request.dtype, request.rows, request.columns,
                           kFirstSeed + static_cast<std::uint64_t>(draw));
  if (!request.forced) return x;
  std::vector<double> values = x.widened();
  for (double& v : values) v = std::clamp(v, -3.9375, 3.9375);
  values[static_cast<std::size_t>(draw) % values.size()] = 4 * (1 + draw / 128.0);
  return make_tensor(x.spec, values);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

const StepDifference& step(const ChainDifference& d, std::string_view name) {
  return d.steps[static_cast<std::size_t>(std::ranges::find(kSteps, name) - kSteps.begin())];
}

// Index of the chain whose codes and scales each one's equal, so far.
struct Partition {
  std::vector<std::size_t> leader;
  explicit Partition(std::size_t n) : leader(n, 0) {}
  // Splits what differs in this draw: chains stay together where they were and are equal.
  void refine(const std::vector<ChainTrace>& traces) {
    std::vector<std::size_t> next(leader.size());
    for (std::size_t i = 0; i < leader.size(); ++i) {
      next[i] = i;
      for (std::size_t j = 0; j < i && next[i] == i; ++j) {
        if (leader[j] != leader[i] || next[j] != j) continue;
        if (!traces[i].refused.empty() || !traces[j].refused.empty()) continue;
        const ChainDifference d = difference(traces[j], traces[i]);
        if (step(d, "scales").differing == 0 && step(d, "codes").differing == 0) next[i] = j;
      }
    }
    leader = next;
  }
};

}  // namespace

ChainTable table_of(const DrawRequest& request) {
  const std::size_t n = request.chains.size();
  const int draws = request.forced ? 128 : request.draws;
  ChainTable table;
  std::vector<std::vector<double>> codes(n);
  for (const ChainName& name : request.chains) table.rates.push_back({.name = name});
  Partition partition(n);
  for (int draw = 0; draw < draws; ++draw) {
    const Tensor x = draw_of(request, draw);
    std::vector<ChainTrace> traces;
    for (const ChainName& name : request.chains) traces.push_back(trace_of(name, x));
    partition.refine(traces);
    for (std::size_t i = 0; i < n; ++i) {
      ChainRates& rates = table.rates[i];
      rates.refused = traces[i].refused;
      if (!rates.refused.empty() || !traces[0].refused.empty()) continue;
      const ChainDifference d = difference(traces[0], traces[i]);
      ++rates.draws;
      rates.scales_in += step(d, "scales").differing > 0 ? 1 : 0;
      rates.scales_max = std::max(rates.scales_max, step(d, "scales").rate());
      codes[i].push_back(step(d, "codes").rate());
      rates.codes_max = std::max(rates.codes_max, codes[i].back());
      if (step(d, "scales").differing == 0)
        rates.largest_code = std::max(rates.largest_code, step(d, "codes").largest);
      if (draw + 1 < draws) continue;
      rates.sqnr_x = sqnr(x.widened(), traces[i].steps.find("dequant_f32")->value);
      const Tensor w = normal_matrix(request.dtype, 64, request.columns, 0);
      rates.sqnr_y = gemm_sqnr(traces[i], x, trace_of(request.chains[i], w), w);
    }
  }
  for (std::size_t i = 0; i < n; ++i) table.rates[i].codes_median = median(codes[i]);
  std::map<std::size_t, std::vector<std::string>> groups;
  for (std::size_t i = 0; i < n; ++i)
    if (table.rates[i].refused.empty())
      groups[partition.leader[i]].push_back(request.chains[i].text());
  for (auto& [leader, group] : groups) table.agreeing.push_back(std::move(group));
  return table;
}

// One tensor a mantissa of the amax, in [1, 2): its first block holds the amax, each further one a
// block amax and zeros.
std::vector<PairCount> pairs_of(const std::vector<ChainName>& chains) {
  std::vector<PairCount> counts;
  for (const ChainName& name : chains) counts.push_back({.name = name});
  for (std::uint32_t m = 0; m < 128; ++m) {
    const auto top = static_cast<std::uint16_t>(0x3F80 + m);
    const auto amax = static_cast<double>(float_from_bf16(top));
    std::vector<double> values;
    const auto block = [&](double largest) {
      values.push_back(largest);
      values.resize(values.size() + 15, 0);
    };
    block(amax);
    // Down to what still rounds to the smallest normal scale: 448 bamax / amax = 7.5 2^-9.
    for (std::uint16_t code = top; code > 0; --code) {
      const auto own = static_cast<double>(float_from_bf16(code));
      if (448 * own / amax < 0x1.Ep-7) break;
      block(own);
    }
    const auto columns = static_cast<std::int64_t>(values.size());
    const Tensor x = make_tensor({.name = "x",
                                  .role = Role::Input,
                                  .dtype = Dtype::BF16,
                                  .dims = {{"M", 1}, {"K", columns}}},
                                 values);
    const ChainTrace first = trace_of(chains.front(), x);
    for (std::size_t i = 0; i < chains.size(); ++i) {
      const ChainTrace own = i == 0 ? first : trace_of(chains[i], x);
      if (!own.refused.empty() || !first.refused.empty()) continue;
      const StepDifference scales = step(difference(first, own), "scales");
      // The first block holds the tensor's amax: no pair.
      const std::int64_t differing = scales.differing - (scales.first == 0 ? 1 : 0);
      counts[i].of += columns / 16 - 1;
      counts[i].pairs += differing;
      counts[i].mantissas += differing > 0 ? 1 : 0;
    }
  }
  return counts;
}

}  // namespace parity::cli
