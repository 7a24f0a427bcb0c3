// Integer linears of torchao.
//   int8_training  every operand int8 with one scale a row along the contracted axis; exact integer
//                  products, out = R(R(R(fl(i32)) s_B) s_A), the column scale first:
//                  y = mm(x, w^T), dx = mm(dy, w), dw = mm(x^T, dy)^T
//   int4_weight    weights alone, symmetric int4 groups (group=32): what a serving kernel
//                  dequantises on the way
#include <cmath>

#include "harness/failure.hpp"
#include "references/linear/recipe.hpp"

namespace parity::linear {
namespace {

const Options kRows{{"chain", "int8_rowwise"}};

// a[R,D], b[S,D] quantised along D.
Gemm int8_gemm(const Problem& p, const Tensor& a, const Tensor& b, bool turned) {
  const Operand qa = run_chain(kRows, a), qb = run_chain(kRows, b);
  const Dense ia = dense_of(qa.part("codes")), ib = dense_of(qb.part("codes"));
  const std::vector<double>&sa = qa.part("scale").value, &sb = qb.part("scale").value;
  const Product exact = times_transposed(ia, ib);
  const Dtype out = p.c.dtype;
  Dense y{.rows = ia.rows, .columns = ib.rows};
  const bool row_first = p.faulty("P-lin-scale-order");
  for (std::int64_t r = 0; r < y.rows; ++r)
    for (std::int64_t s = 0; s < y.columns; ++s) {
      const auto i = static_cast<std::size_t>(r * y.columns + s);
      const double first =
          row_first ? sa[static_cast<std::size_t>(r)] : sb[static_cast<std::size_t>(s)];
      const double second =
          row_first ? sb[static_cast<std::size_t>(s)] : sa[static_cast<std::size_t>(r)];
      const auto R = [&](double v) {  // one f32 operation, one rounding to the output's format
        return round_to(out, static_cast<double>(static_cast<float>(v)));
      };
      y.values.push_back(R(R(R(exact.value.values[i]) * first) * second));
    }
  Gemm g{.a = ia, .b = ib, .transposed = turned, .stated = turned ? transposed(y) : std::move(y)};
  for (std::int64_t r = 0; r < ia.rows; ++r)
    for (std::int64_t k = 0; k < ia.columns; ++k)
      g.a.values[static_cast<std::size_t>(r * ia.columns + k)] *= sa[static_cast<std::size_t>(r)];
  for (std::int64_t s = 0; s < ib.rows; ++s)
    for (std::int64_t k = 0; k < ib.columns; ++k)
      g.b.values[static_cast<std::size_t>(s * ib.columns + k)] *= sb[static_cast<std::size_t>(s)];
  return g;
}

Plan int8_plan(const Problem& p) {
  Plan plan;
  if (p.c.options.get("tp", "none") != "none") {
    plan.refused = "integer sums are scaled after the reduction over all of K: no shards of it";
    return plan;
  }
  const Tensor &x = p.tensors.at("x"), &w = p.tensors.at("params/weight");
  plan.fprop = int8_gemm(p, x, w, false);
  if (!p.has("cotangents/y")) return plan;
  const Tensor& dy = p.tensors.at("cotangents/y");
  plan.dgrad = int8_gemm(p, dy, transposed(w), false);
  plan.wgrad = int8_gemm(p, transposed(x), transposed(dy), true);
  return plan;
}

std::vector<TensorSpec> no_taps(const Case&) { return {}; }

// ---- int4 weights ----

Options int4_options(const Case& c) {
  return {{"chain", "int_affine"},
          {"mapping", "symmetric"},
          {"qmin", "-8"},
          {"qmax", "7"},
          {"block", "1x" + c.options.get("group", "32")}};
}
const std::vector<std::string_view> kInt4Taps = {"codes", "scale"};

Plan int4_plan(const Problem& p) {
  Plan plan;
  const Operand w = run_chain(int4_options(p.c), p.tensors.at("params/weight"));
  if (plan.refused = w.refused; !plan.refused.empty()) return plan;
  Dense stored = dense_of(w.part("codes"));
  const std::vector<double>& scales = w.part("scale").value;
  const std::int64_t group = p.c.options.integer("group", 32);
  const std::int64_t per_row = stored.columns / group;
  const std::int64_t shift = p.faulty("P-lin-scales") ? 1 : 0;
  for (std::int64_t n = 0; n < stored.rows; ++n)
    for (std::int64_t k = 0; k < stored.columns; ++k)
      stored.values[static_cast<std::size_t>(n * stored.columns + k)] *=
          scales[static_cast<std::size_t>((n * per_row + k / group + shift) % std::ssize(scales))];
  const Dense x = dense_of(p.tensors.at("x"));
  plan.fprop = {.a = x, .b = stored};
  if (p.has("cotangents/y")) {
    const Dense dy = dense_of(p.tensors.at("cotangents/y"));
    plan.dgrad = {.a = dy, .b = transposed(stored)};
    plan.wgrad = {.a = transposed(dy), .b = transposed(x)};
  }
  if (p.c.options.flag("taps")) add_taps(plan, w, "w", kInt4Taps);
  return plan;
}

std::vector<TensorSpec> int4_taps(const Case& c) {
  const auto [M, N, K] = extents(c);
  return chain_specs(int4_options(c), c.dtype, N, K, "w", kInt4Taps);
}

}  // namespace

Recipe int8_training() {
  return {.name = "int8_training",
          .what = "int8 rows of every operand, exact integer products, column scale first",
          .chain = "int8_rowwise",
          .plan = int8_plan,
          .taps = no_taps,
          .exact = true};
}
Recipe int4_weight() {
  return {.name = "int4_weight",
          .what = "x times int4 weights in groups, dequantised on the way",
          .chain = "int_affine",
          .plan = int4_plan,
          .taps = int4_taps};
}

}  // namespace parity::linear
