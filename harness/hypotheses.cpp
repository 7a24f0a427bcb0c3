#include "harness/hypotheses.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "harness/child.hpp"
#include "harness/failure.hpp"
#include "harness/forms.hpp"
#include "harness/launch.hpp"
#include "harness/plugin_kernels.hpp"

namespace parity {
namespace {

constexpr double kLegal = 1;       // loss: what noise has
constexpr double kNamed = 2;       // loss: noise, made by other code
constexpr double kMostly = 0.4;    // of the loss of the right answer
constexpr double kApart = 1.3;     // and so much less than that of another cause
constexpr double kEvidence = 200;  // of the total loss: what structure in the noise may make of it
constexpr int kRights = 4;         // harmless variants of the right answer
constexpr std::int64_t kLarge =
    1 << 20;                        // elements: beyond, how loud a variant is, is not measured
constexpr std::size_t kRanked = 8;  // hypotheses that are kept
constexpr double kLaunch = 10;      // seconds of a kernel with a fault

struct Evaluated {
  Hypothesis hypothesis = {};
  Evaluation results = {};
  std::vector<double> spread = {};
};

// Tensors in the order of their names in a list: for a pipe between processes of one program.
std::string packed(const Tensors& tensors) {
  std::string text;
  const auto put = [&](const void* data, std::size_t size) {
    const std::uint64_t n = size;
    text.append(reinterpret_cast<const char*>(&n), sizeof n);
    text.append(static_cast<const char*>(data), size);
  };
  for (const Tensor& tensor : tensors.list()) {
    put(tensor.spec.name.data(), tensor.spec.name.size());
    put(tensor.bytes.data(), tensor.bytes.size());
  }
  return text;
}

Tensors unpacked(std::string_view text, const std::vector<TensorSpec>& specs) {
  const auto take = [&] {
    std::uint64_t n = 0;
    if (text.size() < sizeof n) throw Failure("tensors from a child end early");
    std::memcpy(&n, text.data(), sizeof n);
    text.remove_prefix(sizeof n);
    if (text.size() < n) throw Failure("tensors from a child end early");
    const std::string_view part = text.substr(0, n);
    text.remove_prefix(n);
    return part;
  };
  Tensors tensors;
  while (!text.empty()) {
    const std::string_view name = take(), bytes = take();
    const auto spec = std::ranges::find(specs, name, &TensorSpec::name);
    if (spec == specs.end()) continue;
    Tensor tensor{.spec = *spec, .bytes = std::vector<std::byte>(bytes.size())};
    std::memcpy(tensor.bytes.data(), bytes.data(), bytes.size());
    tensors.add(std::move(tensor));
  }
  return tensors;
}

// A contract that differs in one thing, and what that is.
struct Arithmetic {
  std::string name = {};
  Contract contract = {};
};

void add_points(std::vector<Arithmetic>& all, const Contract& own, const OpDef& op) {
  std::set<std::pair<std::string, Dtype>> points;
  for (const KernelDef& kernel : registry().kernels)
    if (kernel.op == op.name)
      for (const RoundingPoint& point : kernel.contract.roundings)
        points.emplace(point.where, point.to);
  for (const RoundingPoint& point : own.roundings) points.emplace(point.where, point.to);
  for (const auto& [where, to] : points) {
    Contract changed = own;
    const auto has = std::ranges::find(changed.roundings, where, &RoundingPoint::where);
    if (has == changed.roundings.end()) {
      changed.roundings.push_back({where, to});
      all.push_back({fmt::format("{} rounded to {}", where, format(to).name), changed});
      continue;
    }
    has->mode = Rounding::TowardZero;
    all.push_back({fmt::format("{} truncated to {}", where, format(to).name), changed});
    changed.roundings.erase(has);
    all.push_back({fmt::format("{} not rounded", where), changed});
  }
}

std::vector<Arithmetic> arithmetics(const Contract& own, const OpDef& op) {
  std::vector<Arithmetic> all;
  std::set<std::string> seen = {own.key()};
  for (const KernelDef& kernel : registry().kernels) {
    if (kernel.op != op.name || !kernel.environment.empty()) continue;
    if (seen.insert(kernel.contract.key()).second)
      all.push_back({"contract " + kernel.contract.name, kernel.contract});
  }
  for (const Dtype dtype : {Dtype::F64, Dtype::F32, Dtype::TF32, Dtype::BF16, Dtype::F16}) {
    Contract changed = own;
    changed.accumulate = dtype;
    all.push_back({fmt::format("accumulates in {}", format(dtype).name), changed});
  }
  if (own.chunk)
    for (const std::int64_t chunk : {16, 32, 64, 128}) {
      Contract changed = own;
      changed.chunk = chunk;
      all.push_back({fmt::format("chunk {}", chunk), changed});
    }
  add_points(all, own, op);
  return all;
}

// Inputs as some kernels take them: rounded once more.
std::vector<std::pair<std::string, Tensors>> narrowed_inputs(const Tensors& inputs, Dtype dtype) {
  std::vector<std::pair<std::string, Tensors>> all;
  const auto add = [&](std::string name, const std::function<double(double)>& f) {
    Tensors changed;
    for (const Tensor& tensor : inputs.list()) {
      if (!format(tensor.spec.dtype).is_float) {
        changed.add(tensor);
        continue;
      }
      std::vector<double> values = tensor.widened();
      std::ranges::transform(values, values.begin(), f);
      changed.add(make_tensor(tensor.spec, values));
    }
    all.emplace_back(std::move(name), std::move(changed));
  };
  for (const Dtype narrow : {Dtype::BF16, Dtype::F16, Dtype::TF32, Dtype::E4M3}) {
    if (format(narrow).mantissa_bits >= format(dtype).mantissa_bits) continue;
    add(fmt::format("operands rounded to {}", format(narrow).name),
        [=](double v) { return round_to(narrow, v); });
    add(fmt::format("operands truncated to {}", format(narrow).name),
        [=](double v) { return round_to(narrow, v, Rounding::TowardZero); });
  }
  add("subnormal operands flushed to zero", [least = format(dtype).min_normal](double v) {
    return std::abs(v) < least ? std::copysign(0.0, v) : v;
  });
  return all;
}

}  // namespace

Returned launch_apart(const Subject& subject, const Candidate& candidate, Direction direction,
                      const Tensors& inputs, double seconds) {
  if (!candidate.unsupported.empty()) return {.trouble = {"unsupported", candidate.unsupported}};
  if (!candidate.run)
    return {.trouble = {"unsupported", "its library is loaded in a process of its own only"}};
  const ChildAnswer answer = in_child(
      [&] {
        return packed(
            candidate.run({.problem = subject.problem, .inputs = inputs, .direction = direction})
                .tensors);
      },
      {.seconds = seconds, .quiet = !candidate.fault.empty()});
  if (!answer.ok()) return {.trouble = answer.trouble};
  return {.tensors = unpacked(answer.bytes,
                              registry().op_or_throw(subject.problem.op).outputs(subject.problem))};
}

struct Explainer::State {
  Subject subject;
  Contract contract;
  Direction direction;
  Groundwork groundwork;
  Known known;
  std::vector<Yardstick> yard;
  std::vector<Evaluated> all = {};
  Evaluation right = {};
  std::vector<Evaluation> rights = {};  // with it: in other orders, by other code
  std::int64_t size = 0;                // elements of all outputs

  State(const Subject& s, const Contract& c, Direction d)
      : subject(s),
        contract(c),
        direction(d),
        groundwork(subject, d != Direction::Forward),
        known(groundwork.known(contract)),
        yard(yardsticks(known.expected, known.base)) {
    const OpDef& op = registry().op_or_throw(subject.problem.op);
    if (!op.base) throw UsageError(fmt::format("op '{}' has no base to vary", op.name));
    right = evaluate(op, contract, known.inputs, "");
    rights.push_back(right);
    if (subject.check == Check::Parity)
      for (int v = 1; v <= kRights; ++v)
        rights.push_back(evaluate(op, contract, known.inputs, "", v));
    for (const ExpectedTensor& tensor : known.expected.tensors) size += elements(tensor.spec.dims);
    for (const Arithmetic& other : arithmetics(contract, op))
      try_to_add({"arithmetic", other.name}, [&](int variation) {
        return evaluate(op, other.contract, known.inputs, "", variation);
      });
    for (const auto& [name, inputs] : narrowed_inputs(known.inputs, subject.problem.dtype))
      try_to_add({"arithmetic", name},
                 [&](int variation) { return evaluate(op, contract, inputs, "", variation); });
    const std::string base = fmt::format("{}.base", op.name);
    for (const FaultDef& fault : op.faults) add_base_fault(op, fault, base);
    if (const ChainDef* chain = registry().chain(subject.problem.options.get("chain", "")))
      for (const FaultDef& fault : chain->faults) add_base_fault(op, fault, base);
    for (const KernelDef& kernel : registry().kernels)
      if (kernel.op == op.name && kernel.environment.empty()) add_kernel_faults(kernel);
  }

  Evaluation evaluate(const OpDef& op, const Contract& at, const Tensors& inputs,
                      std::string_view fault, int variation = 0) const {
    return op.base({.problem = subject.problem,
                    .contract = at,
                    .inputs = inputs,
                    .variation = variation,
                    .seed = static_cast<std::uint64_t>(variation),
                    .fault = fault,
                    .gradients = direction != Direction::Forward});
  }
  // A variant that this case has not, or that gives the right answer, is none.
  // `noisy`: whether it can be evaluated with other noise.
  void try_to_add(Hypothesis hypothesis,
                  const std::function<Evaluation(int variation)>& evaluate_it, bool noisy = true) {
    try {
      Evaluation results = evaluate_it(0);
      if (same_as_right(results)) return;
      std::vector<double> spread;
      if (noisy && size <= kLarge && subject.check == Check::Parity)
        spread = spread_of(evaluate_it(1), results, known.expected, yard);
      all.push_back({std::move(hypothesis), std::move(results), std::move(spread)});
    } catch (const std::exception&) {
      return;
    }
  }
  bool same_as_right(const Evaluation& results) const {
    return std::ranges::all_of(results, [&](const Values& values) {
      const auto other = std::ranges::find(right, values.name, &Values::name);
      return other != right.end() && other->bits == values.bits && other->value == values.value;
    });
  }
  void add_base_fault(const OpDef& op, const FaultDef& fault, const std::string& code) {
    if (!fault.unsupported.empty()) return;
    try_to_add({"fault", std::string(fault.id), std::string(fault.what), code}, [&](int variation) {
      return evaluate(op, contract, known.inputs, fault.id, variation);
    });
  }
  void add_kernel_faults(const KernelDef& kernel) {
    if (runs_on_device(kernel)) return;
    const Options options = kernel.variants.empty() ? Options{} : kernel.variants.front().options;
    if (const Candidate clean = candidate_of(kernel, options, subject.problem);
        clean.unsupported.empty() && direction_of(subject, clean) == direction &&
        plugin_of(kernel.name).empty())  // somebody else's is what is asked about
      if (const Returned got = launch_apart(subject, clean, direction, known.inputs, kLaunch);
          !got.tensors.empty())
        rights.push_back(evaluation_of(got.tensors, known.expected));
    for (const FaultDef& fault : kernel.faults) {
      if (!fault.unsupported.empty()) continue;
      Candidate faulty = candidate_of(kernel, options, subject.problem, fault.id);
      if (!faulty.unsupported.empty()) return;
      const std::optional<Direction> answers_in = direction_of(subject, faulty);
      if (!answers_in || *answers_in != direction) return;
      try_to_add(
          {"fault", std::string(fault.id), std::string(fault.what), std::string(kernel.name)},
          [&](int) {
            const Returned got = launch_apart(subject, faulty, direction, known.inputs, kLaunch);
            if (got.tensors.empty()) throw Failure(got.trouble.reason);
            return evaluation_of(got.tensors, known.expected);
          },
          /*noisy=*/false);
    }
  }

  Hypothesis measured(const Hypothesis& hypothesis, const Tensors& candidate,
                      const Evaluation& results, const std::vector<double>& spread = {}) const {
    Hypothesis h = hypothesis;
    h.distance = distance(candidate, results, known.expected, yard, spread);
    return h;
  }
  // The form of each tensor that is far from the right one, together.
  void add_forms(std::vector<Hypothesis>& ranked, const Tensors& candidate,
                 const Distance& from_right) const {
    Evaluation put = right;
    std::string name;
    for (const TensorDistance& far : from_right.tensors) {
      if (far.loss <= kLegal || !format(candidate.at(far.name).spec.dtype).is_float) continue;
      const Tensor& seen = candidate.at(far.name);
      const auto values = std::ranges::find(put, far.name, &Values::name);
      if (values == put.end() || values->value.empty()) return;
      double least = far.loss;
      std::string what;
      const std::vector<double> before = values->value;
      for (Form& form : forms(subject.problem, seen.spec, before, seen.widened(), right)) {
        for (double& v : form.value) v = round_to(seen.spec.dtype, v);
        const Evaluation one = {{.name = far.name, .value = form.value}};
        Tensors alone;
        alone.add(seen);
        const Distance from = distance(alone, one, known.expected, yard);
        if (from.loss < least && (!form.fitted || from.loss <= kNamed)) {
          least = from.loss;
          what = form.what;
          values->value = std::move(form.value);
        }
      }
      if (!what.empty()) name += fmt::format("{}{}: {}", name.empty() ? "" : "; ", far.name, what);
    }
    if (!name.empty()) ranked.push_back(measured({"form", name}, candidate, put));
  }
};

Explainer::Explainer(const Subject& subject, const Contract& contract, Direction direction)
    : state_(std::make_unique<State>(subject, contract, direction)) {}
Explainer::~Explainer() = default;

int Explainer::hypotheses() const { return static_cast<int>(state_->all.size()); }

namespace {

// One of each name, the nearest; what has the same loss, faults before anything else.
void rank(std::vector<Hypothesis>& all) {
  const auto order = [](const Hypothesis& h) {
    return std::pair(h.distance.loss, h.kind == "fault" ? 0 : 1);
  };
  std::ranges::stable_sort(all, {}, order);
  std::set<std::string> names;
  std::erase_if(all, [&](const Hypothesis& h) { return !names.insert(h.name).second; });
}

// How many from the front cannot be told apart. Of a fault and what could be said of any op, the
// fault is the cause.
std::size_t alike(std::vector<Hypothesis>& ranked) {
  const Distance best = ranked.front().distance;
  const auto same = [&](const Hypothesis& h) {
    return best.loss == 0 ? h.distance.loss == 0
                          : h.distance.loss <= 1.1 * best.loss + 0.05 ||
                                h.distance.total < best.total + kEvidence;
  };
  const auto end = std::ranges::find_if_not(ranked, same);
  const auto faults =
      std::stable_partition(ranked.begin(), end, [](const auto& h) { return h.kind == "fault"; });
  return static_cast<std::size_t>((faults == ranked.begin() ? end : faults) - ranked.begin());
}

Cause cause_of(const Explained& e) {
  const Distance& best = e.ranked.front().distance;
  // Small tensors have a vote, and large ones elements.
  const double evidence = std::max(e.right.total - best.total,
                                   (e.right.loss - best.loss) * static_cast<double>(best.elements));
  if (!(best.loss < e.right.loss) || evidence < kEvidence)
    return e.right.loss <= kNamed ? Cause::Noise : Cause::Unknown;
  if (best.loss <= kNamed) return Cause::Named;
  const bool alone =
      e.ranked.size() == e.equals || e.ranked[e.equals].distance.loss >= kApart * best.loss;
  return best.loss <= kMostly * e.right.loss && alone ? Cause::Closest : Cause::Unknown;
}

}  // namespace

Explained Explainer::explain(const Tensors& candidate, const Usable& usable) const {
  Explained e;
  bool first = true;
  for (const Evaluation& right : state_->rights) {
    const Distance d = distance(candidate, right, state_->known.expected, state_->yard);
    if (std::exchange(first, false) || d.loss < e.right.loss) e.right = d;
  }
  for (const auto& [hypothesis, results, spread] : state_->all) {
    if (usable && hypothesis.kind == "fault" && !usable(hypothesis.name, hypothesis.code)) continue;
    e.ranked.push_back(state_->measured(hypothesis, candidate, results, spread));
  }
  state_->add_forms(e.ranked, candidate, e.right);
  e.tried = static_cast<int>(e.ranked.size());
  if (e.ranked.empty()) return e;
  rank(e.ranked);
  e.equals = alike(e.ranked);
  e.cause = cause_of(e);
  if (e.ranked.size() > std::max(kRanked, e.equals)) e.ranked.resize(std::max(kRanked, e.equals));
  return e;
}

}  // namespace parity
