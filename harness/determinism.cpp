#include "harness/determinism.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "harness/guard.hpp"

namespace parity {
namespace {

constexpr int kThreadCounts[] = {1, 2, 3, 7};

// Differing elements of two equal-sized payloads.
std::int64_t differing_elements(const Tensor& want, const Tensor& got) {
  if (want.spec.dtype == Dtype::E2M1) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < want.elements(); ++i)
      if (load_code(Dtype::E2M1, want.bytes.data(), i) !=
          load_code(Dtype::E2M1, got.bytes.data(), i))
        ++count;
    return count;
  }
  const std::size_t width = std::max<std::size_t>(1, bytes_for(want.spec.dtype, 1));
  std::int64_t count = 0;
  for (std::size_t i = 0; i + width <= want.bytes.size(); i += width)
    if (std::memcmp(want.bytes.data() + i, got.bytes.data() + i, width) != 0) ++count;
  return count;
}

void absorb(Observed& first, const Observed& later, const std::string& when) {
  first.inputs_unchanged &= later.inputs_unchanged;
  first.saved_unchanged &= later.saved_unchanged;
  first.canaries_whole &= later.canaries_whole;
  first.unwritten = std::max(first.unwritten, later.unwritten);
  for (const std::string& complaint : later.complaints)
    if (std::ranges::find(first.complaints, complaint) == first.complaints.end())
      first.complaints.push_back(fmt::format("{} ({})", complaint, when));
}

// Sum over the elements of (later - first)^2 / 2, the square of one launch's noise; elements that
// are not finite on both sides are the business of another view.
double noise_energy(const Tensor& first, const Tensor& later) {
  const std::vector<double> a = first.widened(), b = later.widened();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const double d = b[i] - a[i]; std::isfinite(d)) sum += d * d / 2;
  return sum;
}

bool claims(const Contract& contract, std::string_view what) {
  return std::ranges::find(contract.invariant, what) != contract.invariant.end();
}

}  // namespace

std::vector<BitDifference> bit_differences(const Tensors& want, const Tensors& got) {
  std::vector<BitDifference> all;
  for (const Tensor& w : want.list()) {
    const Tensor* g = got.find(w.spec.name);
    if (!g || g->bytes.size() != w.bytes.size()) {
      all.push_back({w.spec.name, w.elements(), 0, g ? "another size" : "missing"});
      continue;
    }
    const std::ptrdiff_t at = first_difference(w.bytes, g->bytes);
    if (at < 0) continue;
    const std::int64_t count = differing_elements(w, *g);
    all.push_back({w.spec.name, count, at,
                   fmt::format("{} of {} elements differ, the first at {}", count, w.elements(),
                               place(w.spec, static_cast<std::size_t>(at)))});
  }
  for (const Tensor& g : got.list())
    if (!want.find(g.spec.name))
      all.push_back({g.spec.name, g.elements(), 0, "missing on the other side"});
  return all;
}

BitCheck check_bits(const Candidate& candidate, const RunRequest& request, int repeats) {
  BitCheck check{.first = candidate.run(request)};
  const auto compare_with_first = [&](const RunRequest& again, const std::string& when,
                                      BitClaim& claim) {
    Observed later = candidate.run(again);
    absorb(check.first, later, when);
    for (BitDifference d : bit_differences(check.first.tensors, later.tensors)) {
      d.detail = fmt::format("{}: {}", when, d.detail);
      claim.differences.push_back(std::move(d));
    }
    return std::move(later.tensors);
  };
  BitClaim repeat{.name = "repeat", .claimed = candidate.contract.deterministic};
  const int launches = std::max(2, repeats);
  for (int i = 1; i < launches; ++i) {
    const Tensors later = compare_with_first(request, fmt::format("launch {}", i + 1), repeat);
    for (const Tensor& t : check.first.tensors.list()) {
      const Tensor* again = later.find(t.spec.name);
      if (!again || !format(t.spec.dtype).is_float || again->bytes.size() != t.bytes.size())
        continue;
      const auto n = static_cast<double>(std::max<std::int64_t>(t.elements(), 1));
      if (const double energy = noise_energy(t, *again); energy > 0)
        check.spread[t.spec.name] += energy / n / (launches - 1);
    }
  }
  for (auto& [tensor, spread] : check.spread) spread = std::sqrt(spread);
  check.claims.push_back(std::move(repeat));

  if (claims(candidate.contract, "threads")) {
    BitClaim threads{.name = "threads"};
    for (const int count : kThreadCounts) {
      RunRequest again{request.problem, request.inputs, request.direction, count, request.expected};
      if (count != request.threads)
        compare_with_first(again, fmt::format("{} threads", count), threads);
    }
    check.claims.push_back(std::move(threads));
  }

  const OpDef* op = registry().op(request.problem.op);
  if (!op || !candidate.kernel) return check;
  const RunKernel run_kernel = [&](const Case& problem, const Tensors& inputs,
                                   const Options& options, int threads) {
    const Candidate other = candidate_of(*candidate.kernel, options, problem, candidate.fault);
    Observed observed = other.run({problem, inputs, request.direction, threads});
    absorb(check.first, observed, problem.sizes.str());
    return std::move(observed.tensors);
  };
  for (const Invariant& invariant : op->invariants) {
    if (!claims(candidate.contract, invariant.name)) continue;
    BitClaim claim{.name = std::string(invariant.name)};
    if (invariant.applies) claim.skipped = invariant.applies(request.problem, candidate.options);
    if (claim.skipped.empty()) {
      claim.differences =
          invariant.differences(request.problem, request.inputs, candidate.options, run_kernel);
      for (BitDifference& d : claim.differences)
        d.detail = fmt::format("{}: {}", claim.name, d.detail);
    }
    check.claims.push_back(std::move(claim));
  }
  return check;
}

ViewResult determinism_view(const std::vector<BitClaim>& claims, const std::string& tensor) {
  ViewResult view{.view = std::string(name(View::Determinism)), .ok = true};
  std::string held;
  for (const BitClaim& claim : claims) {
    if (!claim.skipped.empty()) continue;
    std::int64_t differing = 0;
    for (const BitDifference& d : claim.differences) {
      if (d.tensor != tensor) continue;
      differing += std::max<std::int64_t>(1, d.differing);
      if (view.detail.empty()) view.detail = d.detail;
    }
    if (differing == 0) {
      held += (held.empty() ? "" : ", ") + claim.name;
    } else if (claim.claimed) {
      view.value += static_cast<double>(differing);
    } else if (!view.detail.empty()) {
      view.detail += " (the contract does not claim this)";
    }
  }
  view.ok = view.value <= view.limit;
  if (view.detail.empty()) view.detail = held.empty() ? "nothing was tried" : "bit-equal: " + held;
  return view;
}

}  // namespace parity
