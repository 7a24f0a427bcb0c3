#include "harness/testing/scaled.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/walk.hpp"

namespace parity::test {
namespace {

struct Extents {
  std::size_t n, d;
  explicit Extents(const Case& c)
      : n(static_cast<std::size_t>(c.sizes["N"])), d(static_cast<std::size_t>(c.sizes["D"])) {}
};

std::vector<Dim> dims_nd(const Case& c) { return {{"N", c.sizes["N"]}, {"D", c.sizes["D"]}}; }
std::vector<Dim> dims_d(const Case& c) { return {{"D", c.sizes["D"]}}; }

std::vector<TensorSpec> inputs(const Case& c) {
  return {{.name = "x", .dtype = c.dtype, .dims = dims_nd(c)},
          {.name = "w", .dtype = c.dtype, .dims = dims_d(c)},
          {.name = "cotangents/y", .role = Role::Cotangent, .dtype = c.dtype, .dims = dims_nd(c)}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  std::vector<TensorSpec> list = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = dims_nd(c)}};
  if (c.options.flag("codes"))
    list.push_back({.name = "codes", .role = Role::Codes, .dtype = Dtype::U8, .dims = dims_nd(c)});
  list.push_back({.name = "grads/x", .role = Role::Gradient, .dtype = c.dtype, .dims = dims_nd(c)});
  list.push_back({.name = "grads/w", .role = Role::Gradient, .dtype = c.dtype, .dims = dims_d(c)});
  return list;
}

Expected reference(const Case& c, const Tensors& in, bool gradients) {
  const auto [n, d] = Extents(c);
  const std::vector<double> x_ND = in.at("x").widened(), w_D = in.at("w").widened();
  Expected expected;
  for (TensorSpec& spec : outputs(c)) {
    if (spec.role == Role::Gradient && !gradients) continue;
    const std::string name = spec.name;
    ExpectedTensor t{.spec = std::move(spec)};
    if (name == "codes") {
      for (const double x : x_ND) t.bits.push_back(static_cast<std::byte>(x > 0));
    } else if (name == "grads/w") {
      const std::vector<double> dy_ND = in.at("cotangents/y").widened();
      t.value.assign(d, 0.0), t.scale.assign(d, 0.0);
      for (std::size_t i = 0; i < n * d; ++i) {
        t.value[i % d] += dy_ND[i] * x_ND[i];
        t.scale[i % d] += std::abs(dy_ND[i] * x_ND[i]);
      }
    } else {
      const std::vector<double> a_ND = name == "y" ? x_ND : in.at("cotangents/y").widened();
      for (std::size_t i = 0; i < n * d; ++i) t.value.push_back(a_ND[i] * w_D[i % d]);
      for (const double v : t.value) t.scale.push_back(std::abs(v));
    }
    expected.tensors.push_back(std::move(t));
  }
  return expected;
}

// Variants add up in another order of n.
Evaluation base(const BaseRequest& r) {
  const auto [n, d] = Extents(r.problem);
  const Dtype dtype = r.problem.dtype;
  const std::vector<double> x_ND = r.inputs.at("x").widened(), w_D = r.inputs.at("w").widened();
  const auto product = [](double a, double b) {
    return static_cast<float>(a) * static_cast<float>(b);
  };
  Evaluation evaluation;
  Values y{.name = "y"};
  for (std::size_t i = 0; i < n * d; ++i)
    y.value.push_back(round_to(dtype, product(x_ND[i], w_D[i % d])));
  if (r.fault == "P-half") y.value.front() *= 0.5;
  evaluation.push_back(std::move(y));
  if (r.problem.options.flag("codes")) {
    Values codes{.name = "codes"};
    for (const double x : x_ND) codes.bits.push_back(static_cast<std::byte>(x > 0));
    evaluation.push_back(std::move(codes));
  }
  if (!r.gradients) return evaluation;
  const std::vector<double> dy_ND = r.inputs.at("cotangents/y").widened();
  Values dx{.name = "grads/x"}, dw{.name = "grads/w"};
  for (std::size_t i = 0; i < n * d; ++i)
    dx.value.push_back(round_to(dtype, product(dy_ND[i], w_D[i % d])));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  const Rng rng{.seed = r.seed};
  if (r.variation > 0)
    for (std::size_t i = n; i > 1; --i)
      std::swap(
          order[i - 1],
          order[static_cast<std::size_t>(rng.integer(i, 0, static_cast<std::int64_t>(i) - 1))]);
  for (std::size_t j = 0; j < d; ++j) {
    float sum = 0;
    for (const std::size_t i : order) sum += product(dy_ND[i * d + j], x_ND[i * d + j]);
    dw.value.push_back(round_to(dtype, r.fault == "P-sign" ? -sum : sum));
  }
  evaluation.push_back(std::move(dx));
  evaluation.push_back(std::move(dw));
  return evaluation;
}

Bound bound(const Case& c, const Contract& contract, const TensorSpec& spec) {
  const bool sum = spec.name == "grads/w";
  return {.kind = BoundKind::Proved,
          .c_acc = 1,
          .growth = {.kind = Growth::Kind::WorstCase,
                     .n = sum ? static_cast<double>(c.sizes["N"]) + 1 : 1},
          .accumulate = contract.accumulate,
          .why = "one rounded product per term, n - 1 rounded sums (Higham 2002, 3.1)"};
}

void normal(const RowDraw& draw, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = draw.rng.normal(static_cast<std::uint64_t>(draw.first) + i);
}

// Two rows in a call with all rows: the same bits as when they come alone.
std::vector<BitDifference> batch_differences(const Case& c, const Tensors& in,
                                             const Options& options, const RunKernel& run) {
  const Tensors whole = run(c, in, options, 1);
  Case half = c;
  half.sizes.set({"N", c.sizes["N"] / 2, {}});
  Tensors part;
  for (const TensorSpec& spec : inputs(half)) {
    Tensor t = make_tensor(spec);
    std::copy_n(in.at(spec.name).bytes.begin(), t.bytes.size(), t.bytes.begin());
    part.add(std::move(t));
  }
  const Tensors alone = run(half, part, options, 1);
  const std::vector<std::byte>&a = whole.at("y").bytes, &b = alone.at("y").bytes;
  std::vector<BitDifference> differences;
  if (!std::equal(b.begin(), b.end(), a.begin()))
    differences.push_back(
        {.tensor = "y", .differing = 1, .first = 0, .detail = "the first half alone differs"});
  return differences;
}

template <class F>
void split_rows(int threads, std::size_t rows, F&& work) {
  std::vector<std::jthread> pool;
  const auto count = static_cast<std::size_t>(std::max(threads, 1));
  for (std::size_t t = 0; t < count; ++t)
    pool.emplace_back([&, t] { work(rows * t / count, rows * (t + 1) / count); });
}

std::vector<double> widened(const Launch& l, std::string_view name, std::size_t size) {
  std::vector<double> values(size);
  const std::byte* bytes = name == "saved" ? l.save<std::byte>("saved_x") : l.in<std::byte>(name);
  widen(l.problem.dtype, bytes, 0, values);
  return values;
}

// y_ND = a_ND w_D, or with the last column left as it comes (P-tail).
void scale_rows(const Launch& l, const std::vector<double>& a_ND, std::string_view out) {
  const auto [n, d] = Extents(l.problem);
  const std::vector<double> w_D = widened(l, "w", d);
  const bool no_tail = l.fault == "F-901";
  split_rows(l.threads, n, [&, d = d](std::size_t begin, std::size_t end) {
    std::vector<double> row(d);
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t j = 0; j < d; ++j)
        row[j] = static_cast<float>(a_ND[i * d + j]) *
                 static_cast<float>(no_tail && j + 1 == d ? 1.0 : w_D[j]);
      narrow(l.problem.dtype, row, static_cast<std::int64_t>(i * d), l.out<std::byte>(out));
    }
  });
}

}  // namespace

void forward(const Launch& l) {
  const auto [n, d] = Extents(l.problem);
  const std::vector<double> x_ND = widened(l, "x", n * d);
  scale_rows(l, x_ND, "y");
  if (auto* codes = l.out<std::uint8_t>("codes"))
    for (std::size_t i = 0; i < n * d; ++i) codes[i] = x_ND[i] > 0;
  if (auto* saved = l.save<std::byte>("saved_x"))
    std::copy_n(l.in<std::byte>("x"), bytes_for(l.problem.dtype, static_cast<std::int64_t>(n * d)),
                saved);
}

void backward(const Launch& l) {
  const auto [n, d] = Extents(l.problem);
  const std::vector<double> dy_ND = widened(l, "cotangents/y", n * d),
                            x_ND = widened(l, "saved", n * d);
  scale_rows(l, dy_ND, "grads/x");
  std::vector<double> dw_D(d);
  for (std::size_t j = 0; j < d; ++j) {
    float sum = 0;
    for (std::size_t i = 0; i < n - (l.fault == "P-last" ? 1 : 0); ++i)
      sum += static_cast<float>(dy_ND[i * d + j]) * static_cast<float>(x_ND[i * d + j]);
    dw_D[j] = sum;
  }
  narrow(l.problem.dtype, dw_D, 0, l.out<std::byte>("grads/w"));
}

Contract scaled_contract() {
  return {.name = "f32", .dtypes = {Dtype::F32, Dtype::BF16}, .invariant = {"threads", "batch"}};
}

KernelDef scaled_kernel(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .contract = scaled_contract(),
          .saved = [](const Case& c, const Options&) -> std::vector<TensorSpec> {
            return {{.name = "saved_x", .role = Role::State, .dtype = c.dtype, .dims = dims_nd(c)}};
          },
          .workspace = [](const Case&, const Options&, Direction) -> std::size_t { return 48; },
          .forward = forward,
          .backward = backward};
}

OpDef scaled_op(std::string_view name) {
  return {.name = name,
          .what = "y = x w",
          .directions = {Direction::Forward, Direction::Backward},
          .sources = {"none: a test"},
          .inputs = inputs,
          .outputs = outputs,
          .reference = reference,
          .base = base,
          .invariants = {{.name = "batch",
                          .what = "rows do not see each other",
                          .differences = batch_differences}}};
}

BoundDef scaled_bound(std::string_view op) { return {.op = op, .bound = bound}; }

CaseSet scaled_cases(std::string_view op, Check check) {
  return {.op = op,
          .what = check == Check::Bitwise ? "its own bits" : "all dtypes",
          .lane = Lane::Smoke,
          .check = check,
          .sizes = {Sizes::parse("N5,D7"), Sizes::parse("N64,D33")},
          .dtypes = {Dtype::F32, Dtype::BF16},
          .fills = {{.name = "normal", .what = "ordinary", .row = normal}},
          .options = {{}, {{"codes", "1"}}}};
}

Case scaled_case(std::string_view op, std::string_view sizes, Dtype dtype, Check check,
                 const Options& options) {
  for (const CaseSet& set : registry().case_sets)
    if (set.op == op && set.check == check)
      return {.op = std::string(op),
              .sizes = Sizes::parse(sizes),
              .dtype = dtype,
              .fill = "normal",
              .options = options,
              .check = check,
              .lane = Lane::Smoke,
              .set = &set};
  throw Failure("no such test op");
}

namespace {

KernelDef plain() {
  KernelDef k = scaled_kernel("test_scaled", "test_scaled.plain");
  k.variants = {{}, {{{"threads", "3"}}, Lane::Full}};
  k.faults = {
      {.id = "F-901", .alias = "A-TST1", .what = "the last column is not scaled"},
      {.id = "P-last", .what = "the last row is missing in dw"},
      {.id = "P-race", .what = "a race", .unsupported = "one thread of a CPU shows no race"}};
  return k;
}

KernelDef loose() {
  KernelDef k = scaled_kernel("test_loose", "test_loose.plain");
  k.faults = {{.id = "P-nothing", .what = "a fault that changes nothing"}};
  return k;
}

// Wrong without any fault.
KernelDef broken() {
  KernelDef k = scaled_kernel("test_broken", "test_broken.plain");
  k.forward = [](const Launch& l) {
    forward(l);
    l.out<std::byte>("y")[1] ^= std::byte{0x3F};
  };
  k.faults = {{.id = "P-last", .what = "the last row is missing in dw"}};
  return k;
}

OpDef with_faults() {
  OpDef op = scaled_op("test_scaled");
  op.faults = {{.id = "P-half", .what = "the first element is halved"},
               {.id = "P-sign", .what = "dw has the wrong sign"}};
  return op;
}

const Register op{with_faults()};
const Register bounds{scaled_bound("test_scaled")};
const Register cases{scaled_cases("test_scaled")};
const Register bits{scaled_cases("test_scaled", Check::Bitwise)};
const Register kernel{plain()};
const Register broken_op{scaled_op("test_broken")};
const Register broken_bounds{scaled_bound("test_broken")};
const Register broken_cases{scaled_cases("test_broken")};
const Register broken_kernel{broken()};
const Register loose_op{scaled_op("test_loose")};
const Register loose_bounds{scaled_bound("test_loose")};
const Register loose_cases{scaled_cases("test_loose")};
const Register loose_kernel{loose()};

}  // namespace
}  // namespace parity::test
