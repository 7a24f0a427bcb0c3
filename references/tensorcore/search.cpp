#include "references/tensorcore/search.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "references/tensorcore/schedule.hpp"

namespace parity::tensorcore {
namespace {

constexpr std::int64_t kTileDepth = 32;
constexpr std::int64_t kFirst = 4;    // outputs of which one at least must come out
constexpr std::int64_t kSample = 24;  // outputs that a schedule must give before all are asked for

// The simplest first: added upwards, slices of whole tiles of 32, and the fewer the sooner.
std::vector<Schedule> schedules(const Product& p, std::string_view arch) {
  const Scaling scaling = p.a.scales.empty() ? Scaling::None : Scaling::E8M0;
  std::vector<Schedule> all;
  for (const Unit& unit : units()) {
    if (unit.arch != arch || !unit.takes(unit.sees(p.a.dtype), unit.sees(p.b.dtype))) continue;
    if (scaling == Scaling::None ? unit.scaling != Scaling::None : unit.scaling == Scaling::None)
      continue;
    const bool tf32 = p.a.dtype == Dtype::F32 && unit.scheme != Scheme::Fma;
    for (const bool nearest : {false, true}) {
      if (nearest && !tf32) continue;
      for (const Dtype accumulate : {Dtype::F32, Dtype::F16}) {
        if (accumulate == Dtype::F16 &&
            (tf32 || unit.scheme == Scheme::Fma || format(p.a.dtype).bits > 16))
          continue;
        all.push_back({.unit = &unit, .accumulate = accumulate, .nearest_inputs = nearest});
        if (accumulate == Dtype::F16) continue;
        const std::int64_t step = std::max(unit.k, 8);
        for (std::int64_t slice = (p.K - 1) / step * step; slice > 0; slice -= step)
          for (const bool descending : {false, true})
            if (!descending || (p.K + slice - 1) / slice > 2)  // a + b = b + a
              all.push_back({&unit, accumulate, slice, nearest, descending});
      }
    }
  }
  const auto oddity = [&](const Schedule& s) {
    const std::int64_t pieces = s.slice == 0 ? 1 : (p.K + s.slice - 1) / s.slice;
    return std::tuple(s.descending, s.slice % kTileDepth != 0, pieces);
  };
  std::ranges::stable_sort(all, {}, oddity);
  return all;
}

// Outputs of the sample that come out; fewer where they can be neither all nor more than `best`.
std::int64_t equal_in_sample(const Observation& o, const Product& p, std::int64_t best) {
  const std::int64_t outputs = p.a.rows * p.b.rows, count = std::min(outputs, kSample);
  std::int64_t equal = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = i * outputs / count, m = at / p.b.rows, n = at % p.b.rows;
    const float sum = value_of(p.schedule.accumulate, accumulator(p, m, n));
    equal += o.store(sum, m, n) == o.stored(m, n) ? 1 : 0;
    const std::int64_t possible = equal + count - i - 1;
    if (possible < count && possible <= best) break;
    if (i + 1 == kFirst && equal == 0) break;
  }
  return equal;
}

Match on_all(const Observation& o, const Product& p, int threads) {
  const std::vector<float> sums = accumulators(p, threads);
  Match match{.schedule = p.schedule, .outputs = p.a.rows * p.b.rows};
  for (std::int64_t m = 0; m < p.a.rows; ++m)
    for (std::int64_t n = 0; n < p.b.rows; ++n)
      match.equal +=
          o.store(sums[static_cast<std::size_t>(m * p.b.rows + n)], m, n) == o.stored(m, n) ? 1 : 0;
  return match;
}

}  // namespace

Found search(const Observation& o, std::string_view arch, int threads) {
  Found found;
  const std::int64_t sample = std::min(o.product.a.rows * o.product.b.rows, kSample);
  if (sample == 0 || o.product.K == 0) return found;
  std::int64_t best = -1;
  Schedule nearest;
  for (const Schedule& schedule : schedules(o.product, arch)) {
    Product p = o.product;
    p.schedule = schedule;
    ++found.tried;
    const std::int64_t equal = equal_in_sample(o, p, best);
    if (equal > best) best = equal, nearest = schedule;
    if (equal < sample) continue;
    const Match match = on_all(o, p, threads);
    if (match.all()) found.exact.push_back(match);
    if (match.equal > found.nearest.equal) found.nearest = match;
  }
  if (found.nearest.outputs == 0 && best >= 0) {
    Product p = o.product;
    p.schedule = nearest;
    found.nearest = on_all(o, p, threads);
  }
  return found;
}

std::string Found::text() const {
  if (tried == 0) return "no schedule of this architecture takes these operands";
  std::string text = fmt::format("{}: {} of {} outputs to the bit, {} schedules tried",
                                 name_of(nearest.schedule), nearest.equal, nearest.outputs, tried);
  for (std::size_t i = 1; i < exact.size(); ++i)
    text += (i == 1 ? "; so does " : ", ") + name_of(exact[i].schedule);
  return text;
}

}  // namespace parity::tensorcore
