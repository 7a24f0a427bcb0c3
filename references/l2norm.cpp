// l2norm: rows divided by their length.
//   in   x_ND
//   out  y_ND = x / sqrt(sum_d x^2 + eps)           eps inside the root, added to the sum (option
//   eps, 1e-6) backward, r = 1/sqrt(...): dx = r (dy - y (y . dy)), exact with eps since dr/dx =
//   -r^3 x
// Companions count f32 roundoffs (Higham, Accuracy and Stability, 2nd ed., §3.1): a sum of n terms
// costs n, its root half.
#include "references/blocks/unit_op.hpp"

namespace parity::unit {
namespace {

std::vector<Dim> dims(const Case& c) { return {{"N", c.sizes["N"]}, {"D", c.sizes["D"]}}; }

std::vector<TensorSpec> inputs(const Case& c) {
  return {{.name = "x", .role = Role::Input, .dtype = c.dtype, .dims = dims(c)},
          {.name = "cotangents/y", .role = Role::Cotangent, .dtype = c.dtype, .dims = dims(c)}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  return {{.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = dims(c)},
          {.name = "grads/x", .role = Role::Gradient, .dtype = c.dtype, .dims = dims(c)}};
}

std::string refuses(const Case& c) {
  for (const auto& [name, value] : c.options.map())
    if (name != "eps") return "l2norm has no option '" + name + "'";
  if (!(c.options.real("eps", 1e-6) >= 0)) return "eps is negative";
  return c.sizes["D"] < 1 ? "a row needs an element" : "";
}

template <class T>
T reciprocal_length(std::span<const T> x_D, T eps, Vary& vary, std::string_view fault) {
  std::vector<T> squares_D;
  for (const T x : x_D) squares_D.push_back(vary(x * x));
  T sum = vary.sum(squares_D);
  if (fault == "P-eps-mean")
    sum /= static_cast<T>(x_D.size());  // RMSNorm's mean in place of the sum
  if (fault == "A-NR04") return 1 / (std::sqrt(sum) + eps);
  if (fault == "P-l2-max") return 1 / std::max(std::sqrt(sum), eps);  // F.normalize
  const T r = 1 / std::sqrt(sum + eps);
  return fault == "P-eps-mean" ? r / std::sqrt(static_cast<T>(x_D.size())) : r;
}

template <class T>
Results<T> evaluate(const Case& c, const Tensors& tensors, Vary vary, std::string_view fault) {
  const auto D = static_cast<std::size_t>(c.sizes["D"]);
  const std::vector<T> x_ND = widened<T>(tensors, "x");
  const std::vector<T> dy_ND = widened<T>(tensors, "cotangents/y");
  const T eps = static_cast<T>(c.options.real("eps", 1e-6));
  std::vector<T> y_ND(x_ND.size());
  std::vector<T> dx_ND(x_ND.size());
  std::vector<T> product_D(D);
  for (std::size_t row = 0; row < x_ND.size(); row += D) {
    const T r = vary(reciprocal_length(std::span(x_ND).subspan(row, D), eps, vary, fault));
    for (std::size_t d = 0; d < D; ++d) {
      y_ND[row + d] = x_ND[row + d] * r;
      product_D[d] = y_ND[row + d] * dy_ND[row + d];
    }
    const T dot = fault == "P-l2-dot" ? 0 : vary(vary.sum(product_D));
    for (std::size_t d = 0; d < D; ++d)
      dx_ND[row + d] = r * vary(dy_ND[row + d] - y_ND[row + d] * dot);
  }
  return {{"y", std::move(y_ND)}, {"grads/x", std::move(dx_ND)}};
}

Results<double> companions(const Case& c, const Tensors& tensors, const Results<double>& value) {
  const auto D = static_cast<std::size_t>(c.sizes["D"]);
  const std::vector<double> x_ND = widened<double>(tensors, "x");
  const std::vector<double> dy_ND = widened<double>(tensors, "cotangents/y");
  const std::vector<double>& y_ND = value.find("y")->second;
  const double n = static_cast<double>(D);
  const double r_units = 0.5 * (n + 1) + 2;  // sum and eps under the root, root, division
  std::vector<double> y_scale(y_ND.size());
  std::vector<double> dx_scale(y_ND.size());
  for (std::size_t row = 0; row < y_ND.size(); row += D) {
    double length_2 = c.options.real("eps", 1e-6);
    double dot = 0;
    for (std::size_t i = row; i < row + D; ++i) {
      length_2 += x_ND[i] * x_ND[i];
      dot += std::abs(y_ND[i] * dy_ND[i]);
    }
    const double r = 1 / std::sqrt(length_2);
    for (std::size_t i = row; i < row + D; ++i) {
      y_scale[i] = std::abs(y_ND[i]) * (r_units + 1);
      dx_scale[i] = r * (std::abs(dy_ND[i]) * (r_units + 2) +
                         std::abs(y_ND[i]) * dot * (n + 3 * r_units + 5));
    }
  }
  return {{"y", std::move(y_scale)}, {"grads/x", std::move(dx_scale)}};
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Results<double> value = evaluate<double>(c, tensors, {}, "");
  Results<double> scale = companions(c, tensors, value);
  return expected_of(outputs(c), std::move(value), std::move(scale), gradients);
}

Evaluation base(const BaseRequest& r) {
  return evaluation_of(outputs(r.problem), evaluate<float>(r.problem, r.inputs, Vary(r), r.fault),
                       r.gradients);
}

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "l2norm";
  c.dtype = stored.read("inputs/x").spec.dtype;
  const std::vector<std::int64_t> extents = shape(stored, "inputs/x", 2);
  c.sizes = Sizes{{"N", extents[0], {}}, {"D", extents[1], {}}};
  set_option(stored, c.options, "eps", "l2norm_eps", 1e-6);
  import_tensors(stored, registry().op_or_throw("l2norm"), imported);
  return imported;
}

const Register op{OpDef{
    .name = "l2norm",
    .what = "y = x / sqrt(sum x^2 + eps)",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"flash-linear-attention fla/modules/l2norm.py", "transformers models.kimi_linear"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"A-NR04", "F-24", "eps outside the root: 1/(sqrt(s) + eps)"},
               {"P-eps-mean", "", "eps on the mean of squares: D times as large (mlx-lm #1624)"},
               {"P-l2-max", "", "max(|x|, eps) in place of the root (torch F.normalize)"},
               {"P-l2-dot", "", "gradient without its projection on y"}},
}};

}  // namespace
}  // namespace parity::unit
