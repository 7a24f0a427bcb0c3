#include "harness/cli/chain_trace.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/numeric/ulp.hpp"
#include "harness/text.hpp"

namespace parity::cli {
namespace {

Case traced_case(const ChainName& name, const Tensor& x) {
  Case c;
  c.op = "quantize";
  c.dtype = x.spec.dtype;
  c.fill = "given";
  c.options = name.options;
  c.options.set("chain", name.chain);
  c.options.set("trace", "1");
  const std::int64_t columns = x.spec.dims.back().extent;
  c.sizes = Sizes{{"M", columns == 0 ? 0 : x.elements() / columns, {}}, {"K", columns, {}}};
  return c;
}

// Whether the chain's outputs under trace=1 are the steps.
bool can_be_traced(const ChainDef& chain) {
  if (!chain.name.starts_with("nvfp4_")) return false;
  const Case c =
      traced_case({.chain = std::string(chain.name)}, normal_matrix(Dtype::F32, 1, 16, 0));
  const std::vector<TensorSpec> specs = chain.outputs(c);
  return specs.size() == kSteps.size() &&
         std::ranges::equal(specs, kSteps, {},
                            [](const TensorSpec& s) -> std::string_view { return s.name; });
}

StepDifference compare_step(const ExpectedTensor& a, const ExpectedTensor& b) {
  StepDifference d;
  const Dtype dtype = a.spec.dtype;
  const auto open = [](const ExpectedTensor& t, std::size_t i) {
    return i < t.ignore.size() && t.ignore[i] != 0;
  };
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    if (open(a, i) || open(b, i)) continue;
    ++d.elements;
    if (std::isnan(a.value[i]) && std::isnan(b.value[i])) continue;
    const auto at = static_cast<std::int64_t>(i);
    const std::uint64_t left = load_code(dtype, a.bits.data(), at);
    const std::uint64_t right = load_code(dtype, b.bits.data(), at);
    if (left == right) continue;
    ++d.differing;
    if (d.first < 0) d.first = at;
    if (dtype != Dtype::F32)
      d.largest = std::max(d.largest, static_cast<std::int64_t>(ulp_distance(dtype, left, right)));
  }
  return d;
}

// Factors of which one is the reciprocal of the other by convention, not by a difference.
bool same_convention(const ExpectedTensor& a, const ExpectedTensor& b) {
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    const double x = a.value[i];
    const double y = b.value[i];
    if (!std::isfinite(x) || !std::isfinite(y) || x == 0 || y == 0) continue;
    if (std::fabs(x * y - 1) < 1e-3 && std::fabs(x / y - 1) > 1e-3) return false;
  }
  return true;
}

// Rows of a matrix of doubles; a GEMM needs no more than the first of them.
constexpr std::int64_t kGemmRows = 64;

}  // namespace

std::string ChainName::text() const {
  return options.empty() ? chain : fmt::format("{}[{}]", chain, options.str());
}

ChainName parse_chain(const std::string& text) {
  ChainName name;
  const std::size_t open = text.find('[');
  name.chain = text.substr(0, open);
  if (open != std::string::npos) {
    if (!text.ends_with(']')) throw UsageError(fmt::format("'{}': a ']' is missing", text));
    name.options = Options::parse(text.substr(open + 1, text.size() - open - 2));
  }
  const ChainDef* def = registry().chain(name.chain);
  if (def == nullptr) {
    std::vector<std::string> known;
    for (const ChainDef& chain : registry().chains) known.emplace_back(chain.name);
    const std::string near = nearest(name.chain, known);
    throw UsageError(fmt::format("no chain '{}'{}", name.chain,
                                 near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  if (!can_be_traced(*def))
    throw UsageError(
        fmt::format("chain {} is no NVFP4 chain: only those share all steps", name.chain));
  return name;
}

std::vector<ChainName> traced_chains() {
  std::vector<ChainName> names;
  for (const ChainDef& chain : registry().chains)
    if (can_be_traced(chain)) names.push_back({.chain = std::string(chain.name)});
  return names;
}

ChainTrace trace_of(const ChainName& name, const Tensor& x) {
  ChainTrace trace{.name = name};
  const Case c = traced_case(name, x);
  const OpDef& op = registry().op_or_throw("quantize");
  if (trace.refused = op.refuses(c); !trace.refused.empty()) return trace;
  Tensors inputs;
  for (TensorSpec& spec : op.inputs(c)) {
    Tensor tensor = make_tensor(spec);
    if (spec.name == "x") {
      tensor.bytes = x.bytes;
    } else if (!op.derive(c, tensor)) {
      throw UsageError(fmt::format("{}: the input '{}' is in no file", name.text(), spec.name));
    }
    inputs.add(std::move(tensor));
  }
  trace.steps = registry().chain(name.chain)->quantize(c, inputs, "");
  trace.refused = trace.steps.refused;
  return trace;
}

int ChainDifference::first() const {
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].differing > 0 && steps[i].comparable) return static_cast<int>(i);
  return -1;
}

ChainDifference difference(const ChainTrace& a, const ChainTrace& b) {
  ChainDifference d;
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const ExpectedTensor* left = a.steps.find(kSteps[i]);
    const ExpectedTensor* right = b.steps.find(kSteps[i]);
    if (left == nullptr || right == nullptr || left->value.size() != right->value.size())
      throw Failure(fmt::format("chains {} and {} have no step '{}' in common", a.name.text(),
                                b.name.text(), kSteps[i]));
    d.steps[i] = compare_step(*left, *right);
    if (kSteps[i] == "encode_scale") d.steps[i].comparable = same_convention(*left, *right);
  }
  return d;
}

double sqnr(std::span<const double> x, std::span<const double> y) {
  double signal = 0;
  double noise = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    signal += x[i] * x[i];
    noise += (x[i] - y[i]) * (x[i] - y[i]);
  }
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

double gemm_sqnr(const ChainTrace& x, const Tensor& exact_x, const ChainTrace& w,
                 const Tensor& exact_w) {
  const std::int64_t columns = exact_x.spec.dims.back().extent;
  const auto product = [&](const std::vector<double>& a, const std::vector<double>& b) {
    const std::int64_t rows = std::min(kGemmRows, std::ssize(a) / columns);
    const std::int64_t others = std::ssize(b) / columns;
    std::vector<double> y;
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t n = 0; n < others; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < columns; ++k)
          sum += a[static_cast<std::size_t>(m * columns + k)] *
                 b[static_cast<std::size_t>(n * columns + k)];
        y.push_back(sum);
      }
    return y;
  };
  return sqnr(product(exact_x.widened(), exact_w.widened()),
              product(x.steps.find("dequant_f32")->value, w.steps.find("dequant_f32")->value));
}

Tensor normal_matrix(Dtype dtype, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  Rng{seed, 0}.fill_normal(0, values);
  return make_tensor(
      {.name = "x", .role = Role::Input, .dtype = dtype, .dims = {{"M", rows}, {"K", columns}}},
      values);
}

}  // namespace parity::cli
