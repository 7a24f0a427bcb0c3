// Hop 5: expected, base, observed and bound become the statistics of one tensor. No verdict: each
// view is a value and its limit, judge.cpp asks value <= limit.
#include <algorithm>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"
#include "harness/failure.hpp"
#include "harness/numeric/pair_stats.hpp"
#include "harness/numeric/ulp.hpp"

namespace parity {
namespace {

TensorRecord blank(const Comparison& c) {
  const TensorSpec& spec = c.expected.spec;
  TensorRecord r;
  r.name = spec.name, r.role = name(spec.role), r.parameter = spec.parameter;
  r.dtype = name(c.observed.spec.dtype);
  for (const Dim& dim : spec.dims) r.shape.push_back(dim.extent), r.axes.push_back(dim.name);
  r.elements = elements(spec.dims);
  r.bound_kind = name(c.exact || !c.expected.bits.empty() ? BoundKind::Exact : c.bound.kind);
  r.bound_why = c.bound.why;
  return r;
}

std::string shape_text(const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "" : " x ") + std::to_string(dim.extent);
  return text.empty() ? "a scalar" : text;
}

// A tensor of another shape, or codes of another type, cannot be compared element by element.
std::string incomparable(const Comparison& c) {
  const TensorSpec &want = c.expected.spec, &got = c.observed.spec;
  std::vector<std::int64_t> a, b;
  for (const Dim& dim : want.dims) a.push_back(dim.extent);
  for (const Dim& dim : got.dims) b.push_back(dim.extent);
  if (a != b)
    return fmt::format("shape is {}, not {}", shape_text(got.dims), shape_text(want.dims));
  if (c.observed.bytes.size() < bytes_for(got.dtype, c.observed.elements()))
    return fmt::format("{} bytes for {} elements", c.observed.bytes.size(), c.observed.elements());
  if (got.dtype != want.dtype && (!c.expected.bits.empty() || !format(got.dtype).is_float))
    return fmt::format("type is {}, not {}", name(got.dtype), name(want.dtype));
  return {};
}

// What the definition leaves open is neither right nor wrong where it is a number: it counts as the
// truth. How many elements that are.
std::int64_t settle_open(const ExpectedTensor& expected, std::vector<double>& values) {
  std::int64_t open = 0;
  for (std::size_t i = 0; i < std::min(values.size(), expected.ignore.size()); ++i)
    if (expected.ignore[i] != 0 && std::isfinite(values[i])) values[i] = expected.value[i], ++open;
  return open;
}

void add_base(Compared& t, TensorRecord& r, Noise& own) {
  const Comparison& c = t.c;
  if (!c.base || c.base->runs.empty()) return;
  const Values* values = c.base->find(0, t.spec.name);
  if (!values || values->value.size() != t.truth.size()) {
    r.unproven = "the base has no value for it";
    return;
  }
  t.base = values->value;
  settle_open(c.expected, t.base);
  t.noise = c.base->noise_of(t.spec.name);
  if (!t.noise) {
    own = measure_noise(*c.base, c.expected);
    t.noise = &own;
  }
  if (!t.noise->finite) r.unproven = "the base is not finite where the truth is";
}

}  // namespace

// (1 + rho u) because an error before the last rounding is scaled by it; invisible at bf16 and
// above.
Allowance allowance(const Bound& bound, const ExpectedTensor& expected, const Noise* noise) {
  const Format& out = format(expected.spec.dtype);
  Allowance a{.relative = bound.rho * out.unit_roundoff,
              .floor = bound.subnormals * out.min_subnormal};
  if (bound.scale_from == ScaleFrom::Spread) {
    if (!noise || noise->sigma.size() != expected.value.size())
      throw Failure(
          fmt::format("{}: a bound by spread needs variants of the base", expected.spec.name));
    a.companion = bound.c_sigma > 0
                      ? bound.c_sigma
                      : sigma_factor(static_cast<double>(expected.value.size()), noise->dof);
    a.m = noise->sigma;
    return a;
  }
  double sum = bound.c_acc * growth_factor(bound.growth, format(bound.accumulate).unit_roundoff);
  for (const RoundingTerm& term : bound.roundings) sum += term.c * format(term.to).unit_roundoff;
  a.companion = (1 + bound.rho * out.unit_roundoff) * sum;
  if (a.companion == 0) return a;
  if (expected.scale.size() != expected.value.size())
    throw Failure(fmt::format("{}: the reference gave no magnitude companion", expected.spec.name));
  a.m = expected.scale;
  return a;
}

WorstPoint point_at(const Compared& t, std::size_t i) {
  const auto flat = static_cast<std::int64_t>(i);
  const double got = t.observed[i];
  // Where one side is not finite the error is infinite, whatever the bound.
  const bool finite = std::isfinite(got) && std::isfinite(t.c.expected.value[i]);
  return {.index = coordinates(t.spec.dims, flat),
          .letters = letters(t.spec.dims, flat),
          .truth = t.c.expected.value[i],
          .base = t.base.empty() ? std::optional<double>{} : t.base[i],
          .candidate = got,
          .ulp = ulp_error(t.spec.dtype, t.c.expected.value[i], got),
          .bound_used = finite ? bound_used(t.error[i], t.allowed(t.truth[i], i))
                               : std::numeric_limits<double>::infinity()};
}

std::vector<std::size_t> wrong_elements(const Compared& t) {
  std::vector<std::size_t> list = t.nonfinite;
  for (std::size_t i = 0; i < t.error.size(); ++i)
    if (t.exact ? std::isfinite(t.observed[i]) && std::isfinite(t.rounded[i]) &&
                      !same_value(t.rounded[i], t.observed[i], t.c.bound.strict_signed_zero)
                : bound_used(t.error[i], t.allowed(t.truth[i], i)) > t.limit)
      list.push_back(i);
  std::ranges::sort(list);
  return list;
}

TensorRecord compare(const Comparison& c) {
  TensorRecord r = blank(c);
  if (const std::string why = incomparable(c); !why.empty()) {
    r.views.push_back(
        {.view = std::string(name(View::Accounting)), .value = 1, .limit = 0, .detail = why});
    return r;
  }
  if (r.elements == 0) {
    r.unproven = "it has no elements";
    return r;
  }
  if (!c.expected.bits.empty()) {
    compare_bits(c, r);
    return r;
  }
  if (c.expected.value.size() != static_cast<std::size_t>(r.elements))
    throw Failure(fmt::format("{}: the reference gave {} values for {} elements", r.name,
                              c.expected.value.size(), r.elements));

  Noise own;  // outlives t, which looks into it
  Compared t{.c = c, .spec = c.expected.spec, .grain = grain(c.expected.spec.dims)};
  t.cuts = slicings(t.spec.dims);
  t.truth = c.expected.value;
  t.observed = c.observed.widened();
  r.open = settle_open(c.expected, t.observed);
  if (r.open == r.elements) {
    r.unproven = "every element is left open by the definition";
    return r;
  }
  t.error.resize(t.truth.size());
  for (std::size_t i = 0; i < t.error.size(); ++i) t.error[i] = t.observed[i] - t.truth[i];
  compare_finiteness(t, r);
  t.moments = moments(t.truth, t.error, t.grain);
  compare_metrics(t, r);
  t.exact = c.exact || c.bound.kind == BoundKind::Exact;
  if (t.exact) {
    compare_exact(t, r);
  } else {
    add_base(t, r, own);
    t.truth_moments = t.noise ? t.noise->truth : truth_moments(t.truth, t.grain);
    t.allowed = allowance(c.bound, c.expected, t.noise);
    compare_bound(t, r);
    if (t.noise && t.noise->finite) {
      std::vector<double> apart(t.error.size());
      for (std::size_t i = 0; i < apart.size(); ++i)
        apart[i] = std::isfinite(t.observed[i]) && std::isfinite(t.c.expected.value[i])
                       ? t.observed[i] - t.base[i]
                       : 0;
      t.from_base = moments(t.truth, apart, t.grain);
      compare_ratio(t, r);
      compare_slices(t, r);
      compare_bias(t, r);
      compare_grid(t, r);
    }
  }
  compare_pattern(t, r);
  if (c.details) compare_details(t, r);
  return r;
}

}  // namespace parity
