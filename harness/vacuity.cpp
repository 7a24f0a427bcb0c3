// Whether a case proves anything, decided by trying: trivial candidates go through the same bound
// and the same judge, and each must fail on every tensor (tolerance.md §7).
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "harness/compare_parts.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

struct Trivial {
  std::string name = {};  // as CaseSet::exempt knows it
  std::string what = {};
  Tensor tensor = {};
};

bool is_discrete(const ExpectedTensor& t) { return !t.bits.empty(); }

std::int64_t exact_zeros(const ExpectedTensor& t) {
  std::int64_t zeros = 0;
  if (!is_discrete(t)) return std::ranges::count(t.value, 0.0);
  const std::int64_t n = elements(t.spec.dims);
  for (std::int64_t i = 0; i < n; ++i)
    zeros += decode(t.spec.dtype, load_code(t.spec.dtype, t.bits.data(), i)) == 0 ? 1 : 0;
  return zeros;
}

Tensor mean_of(const ExpectedTensor& t) {
  double sum = 0, count = 0;
  for (const double x : t.value)
    if (std::isfinite(x)) sum += x, count += 1;
  return make_tensor(t.spec, std::vector<double>(t.value.size(), count > 0 ? sum / count : 0));
}

bool same_shape(const TensorSpec& a, const TensorSpec& b) {
  return std::ranges::equal(a.dims, b.dims, {}, &Dim::extent, &Dim::extent);
}

// The truth of other inputs, by the op itself where the inputs can be drawn again.
Expected other_truth(const Subject& subject, const OpDef* op, bool gradients) {
  if (!op || !op->reference || !op->inputs || !subject.problem.recorded.empty() || subject.truth)
    return {};
  Case other = subject.problem;
  other.seed += 1;
  return op->reference(other, generate(other, *op, kLaunchThreads), gradients);
}

// Where they cannot, its own rows moved by one (its elements, where there is one row): the right
// values in the wrong places.
Tensor rotated(const ExpectedTensor& t) {
  const Grain g = grain(t.spec.dims);
  const auto by = static_cast<std::ptrdiff_t>(g.rows > 1 ? g.columns : 1);
  std::vector<double> values = t.value;
  if (by < std::ssize(values)) std::rotate(values.begin(), values.begin() + by, values.end());
  return make_tensor(t.spec, values);
}

std::vector<Trivial> trivials(const ExpectedTensor& t, const Tensors& inputs,
                              const Expected& other) {
  std::vector<Trivial> list;
  list.push_back({"zeros", "zeros", make_tensor(t.spec)});
  for (const Tensor& input : inputs.list()) {
    if (!same_shape(input.spec, t.spec) || (is_discrete(t) && input.spec.dtype != t.spec.dtype))
      continue;
    if (!is_discrete(t) && !format(input.spec.dtype).is_float) continue;
    Tensor copy = is_discrete(t) ? input : make_tensor(t.spec, input.widened());
    copy.spec = t.spec;
    list.push_back({"copy", "a copy of " + input.spec.name, std::move(copy)});
  }
  if (!is_discrete(t)) list.push_back({"mean", "its own mean everywhere", mean_of(t)});
  const ExpectedTensor* again = other.find(t.spec.name);
  if (again && same_shape(again->spec, t.spec)) {
    if (is_discrete(t))
      list.push_back({"other_seed", "the truth of another seed", Tensor{t.spec, again->bits}});
    else
      list.push_back(
          {"other_seed", "the truth of another seed", make_tensor(t.spec, again->value)});
  } else if (!is_discrete(t) && t.value.size() > 1) {
    list.push_back({"other_seed", "its own rows moved by one", rotated(t)});
  }
  return list;
}

// The bound alone, up to the first element that is over it: what nearly every trivial candidate
// fails by.
class QuickBound {
 public:
  QuickBound(const ExpectedTensor& t, const Base& base, const Bound& bound, Fidelity fidelity)
      : t_(t) {
    const Noise* noise = base.noise_of(t.spec.name);
    const Values* values = base.find(0, t.spec.name);
    if (!noise || !noise->finite || !values || values->value.size() != t.value.size()) return;
    allowed_ = allowance(bound, t, noise);
    double used = 0;
    for (std::size_t i = 0; i < t.value.size(); ++i) {
      if (!std::isfinite(t.value[i])) continue;
      const double allowed = allowed_(t.value[i], i);
      if (!std::isfinite(allowed)) return;
      used = std::max(used, bound_used(values->value[i] - t.value[i], allowed));
    }
    if (bound.kind == BoundKind::Proved && used > 1) return;  // refuted: no evidence
    limit_ = limit_of_bound(bound, fidelity, used);
    usable_ = true;
  }
  bool fails(const Tensor& tried) const {
    if (!usable_) return false;
    const std::vector<double> got = tried.widened();
    for (std::size_t i = 0; i < got.size(); ++i)
      if (std::isfinite(t_.value[i]) &&
          std::abs(got[i] - t_.value[i]) > limit_ * allowed_(t_.value[i], i))
        return true;
    return false;
  }

 private:
  const ExpectedTensor& t_;
  Allowance allowed_ = {};
  double limit_ = 1;
  bool usable_ = false;
};

std::string_view exemption(const Case& problem, std::string_view tensor, std::string_view trivial) {
  const CaseSet* set = problem.set;
  return set && set->exempt ? set->exempt(problem, tensor, trivial) : std::string_view{};
}

}  // namespace

std::vector<std::string> vacuity(const Subject& subject, const OpDef* op, const Contract& contract,
                                 const Tensors& inputs, const Expected& expected,
                                 const Base& base) {
  std::vector<std::string> reasons;
  const Case& problem = subject.problem;
  if (subject.check == Check::Exact || subject.check == Check::Golden || !subject.judge_base)
    return reasons;
  if (expected.tensors.empty()) return {"the reference answers nothing"};

  const double share = problem.set ? problem.set->zero_share : 0.30;
  std::int64_t zeros = 0, total = 0;
  for (const ExpectedTensor& t : expected.tensors)
    zeros += exact_zeros(t), total += elements(t.spec.dims);
  if (static_cast<double>(zeros) > share * static_cast<double>(total))
    reasons.push_back(fmt::format("{:.0f} % of the expected values are zero, {:.0f} % are declared",
                                  100 * static_cast<double>(zeros) / static_cast<double>(total),
                                  100 * share));

  const bool gradients = std::ranges::any_of(
      expected.tensors, [](const ExpectedTensor& t) { return t.spec.role == Role::Gradient; });
  const Expected other = other_truth(subject, op, gradients);
  std::vector<std::pair<std::string, Evaluation>> known_wrong;
  if (op && op->trivial) known_wrong = op->trivial(problem, inputs);

  for (const ExpectedTensor& t : expected.tensors) {
    if (elements(t.spec.dims) == 0) continue;
    if (!t.ignore.empty() && std::ranges::count(t.ignore, std::uint8_t{0}) == 0)
      continue;  // all left open: any answer would pass, and proves nothing
    const Bound bound = subject.bound ? subject.bound(contract, t.spec)
                                      : registry().bound_of(problem, contract, t.spec);
    std::vector<Trivial> list = trivials(t, inputs, other);
    for (const auto& [trivial, evaluation] : known_wrong)
      for (const Values& values : evaluation)
        if (values.name == t.spec.name)
          list.push_back({trivial, trivial,
                          values.bits.empty() ? make_tensor(t.spec, values.value)
                                              : Tensor{t.spec, values.bits}});
    const QuickBound quick(t, base, bound, contract.fidelity);
    for (const Trivial& trivial : list) {
      if (!exemption(problem, t.spec.name, trivial.name).empty() || quick.fails(trivial.tensor))
        continue;
      TensorRecord record = compare({.expected = t,
                                     .base = &base,
                                     .observed = trivial.tensor,
                                     .bound = bound,
                                     .fidelity = contract.fidelity,
                                     .exact = false,
                                     .details = false});
      judge_tensor(record);
      if (record.status == name(Status::Fail)) continue;
      reasons.push_back(fmt::format("{}: {} would pass", t.spec.name, trivial.what));
    }
  }
  return reasons;
}

}  // namespace parity
