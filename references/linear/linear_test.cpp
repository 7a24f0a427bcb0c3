// Products and recipes: orders of a sum agree within their bound, gradients follow from the stored
// operands, shards sum to the whole.
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"
#include "references/linear/evaluate.hpp"

namespace parity::linear {
namespace {

Dense numbers(std::int64_t rows, std::int64_t columns, double step) {
  Dense d{.rows = rows, .columns = columns};
  for (std::int64_t i = 0; i < rows * columns; ++i)
    d.values.push_back(static_cast<double>(static_cast<float>(std::sin(step * double(i + 1)))));
  return d;
}

TEST(Product, OrdersStayWithinGamma) {
  const Dense a = numbers(5, 96, 0.7), b = numbers(7, 96, 1.3);
  const Product p = times_transposed(a, b);
  for (std::uint64_t order = 0; order < 20; ++order) {
    const Dense y = times_transposed_f32(a, b, order);
    for (std::size_t i = 0; i < p.size.size(); ++i)
      EXPECT_LE(std::fabs(y.values[i] - p.value.values[i]), 97 * 0x1p-24 * p.size[i]);
  }
}

Case problem(const Options& options) {
  Case c;
  c.op = "quantized_linear";
  c.fill = "test";
  c.options = options;
  c.sizes = Sizes{{"M", 16, {}}, {"N", 64, {}}, {"K", 64, {}}};
  return c;
}

Tensors tensors(const Case& c) {
  Tensors all;
  double step = 0.37;
  for (const TensorSpec& spec : inputs(c)) {
    const std::int64_t n = elements(spec.dims);
    all.add(make_tensor(spec, numbers(1, n, step += 0.31).values));
  }
  return all;
}

// dx and dw are linear in dy: the gradients of sum(y dy) through the stored operands.
TEST(Recipes, GradientsAreThoseOfTheStoredOperands) {
  for (const char* recipe : {"int4_weight", "nvfp4_weight"}) {
    const Case c = problem({{"recipe", recipe}});
    const Tensors t = tensors(c);
    const Expected e = reference(c, t, true);
    ASSERT_EQ(e.refused, "");
    // sum(y dy) = sum(x dx): both are x w^T dy.
    const std::vector<double> dy = t.at("cotangents/y").widened(), x = t.at("x").widened();
    double forward = 0, backward = 0, size = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      forward += e.find("y")->value[i] * dy[i];
      size += std::fabs(e.find("y")->scale[i] * dy[i]);
    }
    for (std::size_t i = 0; i < x.size(); ++i) backward += e.find("grads/x")->value[i] * x[i];
    EXPECT_NEAR(forward, backward, 1e-12 * size);
  }
}

TEST(Recipes, ShardsSumToTheWhole) {
  Case c = problem({{"recipe", "int4_weight"}});
  const Tensors t = tensors(c);
  const Expected whole = reference(c, t, true);
  c.options.set("tp", "row");
  const Evaluation parts =
      base({.problem = c, .contract = {.name = "test"}, .inputs = t, .gradients = true});
  for (const Values& v : parts) {
    const ExpectedTensor& e = *whole.find(v.name);
    for (std::size_t i = 0; i < v.value.size(); ++i)
      EXPECT_LE(std::fabs(v.value[i] - e.value[i]),
                80 * 0x1p-24 * e.scale[i] + 0x1p-23 * std::fabs(e.value[i]))
          << v.name;
  }
}

TEST(Recipes, KnowWhatTheyRefuse) {
  EXPECT_NE(refuses(problem({{"recipe", "no_such"}})), "");
  Case c = problem({{"recipe", "int4_weight"}, {"tp", "row"}, {"ranks", "3"}});
  EXPECT_NE(refuses(c), "");
}

}  // namespace
}  // namespace parity::linear
