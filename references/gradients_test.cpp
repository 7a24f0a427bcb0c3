// Hand-derived gradients of every composite against central differences of its own fp64 forward, on
// its declared cases: every input tensor, a sample of its elements.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <set>

#include "harness/numeric/philox.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

constexpr double kStep = 0x1p-17;
constexpr std::int64_t kElements = 3;  // of each tensor

// sum over outputs of <output, cotangent>; an output without a cotangent does not count, a "loss"
// counts once.
double loss_of(const Expected& expected, const Tensors& inputs) {
  double loss = 0;
  for (const ExpectedTensor& tensor : expected.tensors) {
    const Tensor* cotangent = inputs.find("cotangents/" + tensor.spec.name);
    if (tensor.spec.name == "loss") loss += tensor.value.at(0);
    if (!cotangent) continue;
    const std::vector<double> weight = cotangent->widened();
    for (std::size_t i = 0; i < weight.size(); ++i) loss += weight[i] * tensor.value[i];
  }
  return loss;
}

std::string input_of(const TensorSpec& gradient) {  // "grads/inputs/x" -> "x"
  std::string of = gradient.name.substr(std::string_view("grads/").size());
  if (of.starts_with("inputs/")) of = of.substr(std::string_view("inputs/").size());
  return of;
}

// One case a fill and set of options: fp64 inputs of the smallest declared size.
std::vector<Case> cases_of(const OpDef& op) {
  std::vector<Case> chosen;
  std::set<std::string> seen;
  for (const Case& declared : expand(registry(), Lane::Smoke)) {
    if (declared.op != op.name || declared.check != Check::Parity) continue;
    if (!seen.insert(declared.fill + "/" + declared.options.str()).second) continue;
    Case wide = declared;
    wide.dtype = Dtype::F64;
    chosen.push_back(std::move(wide));
  }
  return chosen;
}

void check(const OpDef& op, const Case& problem) {
  Tensors inputs = generate(problem, op, 1);
  Case plain = problem;
  plain.dtype = Dtype::F32;  // of no interest to the reference, but for its companion, which costs
  const auto run = [&](bool gradients) { return op.reference(plain, inputs, gradients); };
  const Expected expected = run(true);
  const Rng rng{.seed = 7, .stream = 0};
  int checked = 0;
  for (const ExpectedTensor& gradient : expected.tensors) {
    if (gradient.spec.role != Role::Gradient ||
        gradient.spec.name.find("tap/") != std::string::npos)
      continue;
    Tensor* input = inputs.find(input_of(gradient.spec));
    ASSERT_NE(input, nullptr) << gradient.spec.name;
    ASSERT_EQ(input->spec.dtype, Dtype::F64) << input->spec.name << " cannot be moved";
    const std::span<double> x = input->as<double>();
    double size = 0;
    for (const double g : gradient.value) size = std::max(size, std::abs(g));
    for (std::int64_t draw = 0; draw < std::min<std::int64_t>(kElements, input->elements());
         ++draw) {
      const auto i = static_cast<std::size_t>(
          rng.integer(static_cast<std::uint64_t>(checked++), 0, input->elements() - 1));
      const double kept = x[i], h = kStep * std::max(1.0, std::abs(kept));
      const auto at = [&](double moved) {
        x[i] = kept + moved;
        const double loss = loss_of(run(false), inputs);
        x[i] = kept;
        return loss;
      };
      // Richardson: the h^2 term cancels.
      const double d = (8 * (at(h / 2) - at(-h / 2)) - (at(h) - at(-h))) / (6 * h);
      EXPECT_NEAR(d, gradient.value[i], 2e-8 * size + 1e-9 * std::abs(loss_of(expected, inputs)))
          << problem.id() << " " << gradient.spec.name << "[" << i << "]";
    }
  }
  EXPECT_GT(checked, 0) << problem.id();
}

TEST(Gradients, OfCompositesAreThoseOfTheirForward) {
  int ops = 0;
  for (const OpDef& op : registry().ops) {
    if (op.kind != OpKind::Composite || !std::ranges::count(op.directions, Direction::Backward))
      continue;
    const std::vector<Case> cases = cases_of(op);
    EXPECT_FALSE(cases.empty()) << op.name;
    for (const Case& problem : cases) check(op, problem);
    ++ops;
  }
  EXPECT_GT(ops, 0);
}

}  // namespace
}  // namespace parity
