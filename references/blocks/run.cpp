#include "references/blocks/run.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/walk.hpp"

namespace parity::net {
namespace {

constexpr double kHalfUlpF32 = 0x1p-24, kHalfUlpF64 = 0x1p-53;
constexpr std::uint64_t kCompanionSeed = 0x6d6f6e7465;
constexpr int kCompanionRuns = 6;

// What a harmless variant may move an intermediate by. Those past the noise floor's own stand for
// other legal kernels, which do not round every value twice.
double reach_of(int variation, Check check, double half_ulp) {
  if (variation == 0 || check == Check::Exact) return 0;
  return variation <= kVariants ? half_ulp : half_ulp / 8;
}

kda::Point store_point(const Contract& contract) {
  kda::Point point;
  for (const RoundingPoint& declared : contract.roundings) {
    if (declared.where == "combine") continue;  // where a sum of stored parts is stored too
    if (declared.where != "store")
      throw Failure(fmt::format("contract '{}' rounds at '{}', which composites do not know",
                                contract.name, declared.where));
    point = {declared.to, declared.mode};
  }
  return point;
}

}  // namespace

template <class T>
Run<T>::Run(const Case& problem, const Tensors& inputs, bool gradients, int variation,
            std::uint64_t seed)
    : problem_(&problem),
      inputs_(&inputs),
      gradients_(gradients),
      truth_(true),
      variation_(variation),
      seed_(seed),
      reach_(reach_of(variation, problem.check, kHalfUlpF64)) {}

template <class T>
Run<T>::Run(const BaseRequest& r)
    : problem_(&r.problem),
      inputs_(&r.inputs),
      gradients_(r.gradients),
      variation_(r.variation),
      seed_(r.seed),
      reach_(reach_of(r.variation, r.problem.check,
                      std::is_same_v<T, float> ? kHalfUlpF32 : kHalfUlpF64)),
      point_(store_point(r.contract)),
      roundings_(r.contract.roundings),
      fault_(r.fault) {}

template <class T>
const Array<T>& Run<T>::in(const std::string& input) {
  const auto it = widened_.find(input);
  if (it != widened_.end()) return it->second;
  const Tensor& tensor = inputs_->at(input);
  Array<T> wide;
  for (const Dim& dim : tensor.spec.dims) wide.shape.push_back(dim.extent);
  const std::vector<double> values = tensor.widened();
  wide.data.assign(values.begin(), values.end());
  return widened_.emplace(input, std::move(wide)).first->second;
}

template <class T>
std::vector<std::int64_t> Run<T>::ids(const std::string& input) {
  std::vector<std::int64_t> result;
  for (const double x : inputs_->at(input).widened())
    result.push_back(static_cast<std::int64_t>(x));
  return result;
}

template <class T>
void Run<T>::replace(const std::string& input, Array<T> value) {
  widened_.insert_or_assign(input, std::move(value));
}

template <class T>
void Run<T>::put(const std::string& name, Array<T> value) {
  results_.insert_or_assign(name, std::move(value));
}

template <class T>
void Run<T>::grad(const std::string& name, const Array<T>& d) {
  const auto [it, first] = results_.try_emplace("grads/" + name, d);
  if (!first) add(it->second, d);
}

template <>
void Run<float>::keep(Array<float>& x) const {
  if (reach_ == 0) return;
  const double part = reach_ / kHalfUlpF32;
  const kda::Noise noise{seed_, true};
  for (float& value : x.data) {
    float moved = value;
    kda::jitter(std::span(&moved, 1), noise);
    value += static_cast<float>(part) * (moved - value);
  }
}

template <>
void Run<float>::store(Array<float>& x) const {
  const bool legal = variation_ > kVariants;  // rounds to nearest, off values that moved a little
  if (legal || !point_.on()) keep(x);
  if (point_.on()) point_(x.data, {seed_, variation_ > 0 && reach_ > 0 && !legal});
}

template <>
void Run<double>::keep(Array<double>& x) const {
  if (reach_ == 0) return;
  const kda::Noise noise{seed_, true};
  for (double& value : x.data) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    if ((bits & 0xffffff) == 0) continue;  // exact
    value *= 1 + (static_cast<double>(noise.of(bits)) * 0x1p-31 - 1) * reach_;
  }
}

template <>
void Run<double>::store(Array<double>& x) const {
  keep(x);
}

template <class T>
bool Run<T>::rounds(std::string_view where) const {
  return std::ranges::count(roundings_, where, &RoundingPoint::where) > 0;
}

template <class T>
T Run<T>::sum(std::span<const T> terms) const {
  const std::size_t n = terms.size();
  const std::size_t block =
      variation_ == 0 ? std::max<std::size_t>(n, 1) : std::size_t{4} << (variation_ % 4);
  T total = 0;
  for (std::size_t first = 0; first < n; first += block) {
    T part = 0;
    for (std::size_t i = first; i < std::min(n, first + block); ++i)
      part += terms[variation_ % 2 == 1 ? n - 1 - i : i];
    total += part;
  }
  return total;
}

template <class T>
void add(Array<T>& to, const Array<T>& what) {
  if (to.data.size() != what.data.size()) throw Failure("a sum of two shapes");
  for (std::size_t i = 0; i < to.data.size(); ++i) to.data[i] += what.data[i];
}

template <class T>
Array<T> plus(const Array<T>& x, const Array<T>& y) {
  Array<T> sum = x;
  add(sum, y);
  return sum;
}

namespace {

template <class T>
using Results = std::map<std::string, Array<T>, std::less<>>;

// Results of one evaluation in the order of the specs; a gradient that nobody added to is zero.
template <class T>
std::vector<Values> values_of(const std::vector<TensorSpec>& specs, Run<T>& run) {
  const Results<T> results = run.take();
  std::vector<Values> all;
  for (const TensorSpec& spec : specs) {
    if (spec.role == Role::Gradient && !run.wants_gradients()) continue;
    Values values{.name = spec.name};
    const auto count = static_cast<std::size_t>(elements(spec.dims));
    const auto it = results.find(spec.name);
    if (it != results.end())
      values.value.assign(it->second.data.begin(), it->second.data.end());
    else if (spec.role == Role::Gradient)
      values.value.assign(count, 0.0);
    else
      throw Failure(fmt::format("the reference computes no '{}'", spec.name));
    if (values.value.size() != count)
      throw Failure(fmt::format("the reference computes {} elements of '{}', not {}",
                                values.value.size(), spec.name, count));
    all.push_back(std::move(values));
  }
  return all;
}

bool discrete(const TensorSpec& spec) {
  return spec.role == Role::Ids || spec.role == Role::Codes || spec.role == Role::Scales;
}

std::vector<Values> evaluate(const std::vector<TensorSpec>& specs, const Formulas& formulas,
                             Run<double> run) {
  formulas.wide(run);
  return values_of(specs, run);
}

}  // namespace

Expected expected_of(const std::vector<TensorSpec>& specs, const Formulas& formulas, const Case& c,
                     const Tensors& inputs, bool gradients) {
  Expected expected;
  for (Values& values : evaluate(specs, formulas, Run<double>(c, inputs, gradients))) {
    const TensorSpec& spec = *std::ranges::find(specs, values.name, &TensorSpec::name);
    ExpectedTensor tensor{.spec = spec, .value = std::move(values.value)};
    if (discrete(spec)) tensor.bits = make_tensor(spec, tensor.value).bytes;
    tensor.scale.assign(tensor.value.size(), 0.0);
    expected.tensors.push_back(std::move(tensor));
  }
  if (c.check != Check::Golden && c.dtype != Dtype::F64) return expected;
  for (int v = 1; v <= kCompanionRuns; ++v) {
    const std::vector<Values> moved = evaluate(
        specs, formulas,
        Run<double>(c, inputs, gradients, v, kCompanionSeed + static_cast<std::uint64_t>(v)));
    for (std::size_t t = 0; t < moved.size(); ++t) {
      ExpectedTensor& tensor = expected.tensors[t];
      for (std::size_t i = 0; i < tensor.value.size(); ++i) {
        const double e = moved[t].value[i] - tensor.value[i];
        tensor.scale[i] += e * e / kCompanionRuns;
      }
    }
  }
  // An element's own six draws say little: never less than the root mean square of its row, nor
  // than one roundoff of the value itself.
  for (ExpectedTensor& tensor : expected.tensors) {
    if (tensor.value.empty()) continue;
    std::size_t row =
        tensor.spec.dims.empty() ? 1 : static_cast<std::size_t>(tensor.spec.dims.back().extent);
    if (row <= 1) row = tensor.value.size();
    double square = 0;
    for (const double x : tensor.value) square += x * x / static_cast<double>(tensor.value.size());
    const double rms = std::sqrt(square);
    for (std::size_t first = 0; first < tensor.value.size(); first += row) {
      const std::span<double> part(tensor.scale.data() + first, row);
      double mean = 0;
      for (const double s : part) mean += s / static_cast<double>(row);
      for (std::size_t i = 0; i < row; ++i)
        part[i] = std::max(std::sqrt(std::max(part[i], mean)) / kHalfUlpF64,
                           std::max(std::abs(tensor.value[first + i]), rms));
    }
  }
  return expected;
}

Evaluation evaluation_of(const std::vector<TensorSpec>& specs, const Formulas& formulas,
                         const BaseRequest& r) {
  Evaluation evaluation;
  if (r.contract.accumulate == Dtype::F64) {
    Run<double> run(r);
    formulas.wide(run);
    evaluation = values_of(specs, run);
  } else {
    Run<float> run(r);
    formulas.narrow(run);
    evaluation = values_of(specs, run);
  }
  for (Values& values : evaluation) {
    const TensorSpec& spec = *std::ranges::find(specs, values.name, &TensorSpec::name);
    if (discrete(spec)) values.bits = make_tensor(spec, values.value).bytes;
    for (double& x : values.value) x = round_to(spec.dtype, x);
  }
  return evaluation;
}

Contract composite_contract(const Case& c, const std::map<std::string, std::string>&) {
  Contract plain{.name = std::string(name(c.dtype)),
                 .dtypes = {c.dtype},
                 .accumulate = c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32};
  if (c.dtype == Dtype::BF16) plain.roundings = {{.where = "store", .to = Dtype::BF16}};
  return plain;
}

Bound composite_bound(const Case&, const Contract& contract, const TensorSpec& spec) {
  if (contract.accumulate == Dtype::F64)
    return {.kind = BoundKind::Estimated,
            .c_acc = 512,
            .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
            .accumulate = Dtype::F64,
            .why =
                "two fp64 evaluations: 512 u times the measured companion, for other orders of "
                "summation"};
  const Format& out = format(spec.dtype);
  return {
      .kind = BoundKind::Estimated,
      .scale_from = ScaleFrom::Spread,
      .subnormals = out.min_normal / out.min_subnormal,
      .why =
          "|e| <= u_out |x*| + c sigma: an assembly of layers has no companion that can be derived "
          "term by term; sigma_i is the rms error of the base and its variants at element i, "
          "moderated towards its row, and c Student's quantile at which a clean tensor of this "
          "size stays inside with probability 1 - 1e-6 (noise.cpp)."};
}

template class Run<double>;
template class Run<float>;
template void add(Array<double>&, const Array<double>&);
template void add(Array<float>&, const Array<float>&);
template Array<double> plus(const Array<double>&, const Array<double>&);
template Array<float> plus(const Array<float>&, const Array<float>&);

}  // namespace parity::net
