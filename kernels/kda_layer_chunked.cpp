// kda_layer.chunked: Kimi Delta Attention with its projections (references/blocks/kda_layer.hpp) on
// the CPU: dense f32 products around short_conv.rows, kda.chunked_f32 (with its gate, betas and
// norms of q and k) and gated_rms_norm.rows.
//   accumulate  f32 everywhere; bf16 is widened, nothing between is rounded
//   rounding    none but that of the results
//   threads     as in the parts: the same bits for any number of them
// The backward runs the forward again.
#include <array>

#include "kernels/moe/matrix.hpp"
#include "kernels/unit/nested.hpp"
#include "kernels/unit/rows.hpp"

namespace parity::kda_layer_kernel {
namespace {

using moe_kernel::Matrix;
using unit_kernel::Nested;

Matrix matrix(std::span<const float> x, std::int64_t rows) {
  Matrix m(rows, std::ssize(x) / rows);
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(x.data() + r * m.cols, m.cols, m.row(r));
  return m;
}
void put(const Matrix& x, std::span<float> to) {
  for (std::int64_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r), x.cols, to.data() + r * x.cols);
}

constexpr std::array kParts = {"q", "k", "v"};

struct Layer {
  const Launch& l;
  std::int64_t B, T, D, H, HV, K, V, W, F, G;
  bool softplus, full_forget, low_output, gate_bias, conv_bias;

  explicit Layer(const Launch& launch) : l(launch) {
    const Sizes& s = l.problem.sizes;
    const Options& o = l.problem.options;
    B = s.get("B", 1), T = s["T"], D = s["D"], H = s["H"], HV = s.get("HV", H), K = s["K"];
    V = s.get("V", K), W = s.get("W", 4), F = s.get("F", K), G = s.get("G", K);
    softplus = o.get("gate", "lower") == "softplus";
    full_forget = o.get("forget", "low") == "full", low_output = o.get("output", "full") == "low";
    gate_bias = o.flag("gbias") && low_output, conv_bias = o.flag("cbias");
  }
  std::int64_t rows() const { return B * T; }
  std::int64_t channels(std::size_t part) const { return part == 2 ? HV * V : H * K; }
  bool fault(std::string_view id) const { return !l.fault.empty() && l.fault == id; }

  Matrix param(const std::string& name, std::int64_t out, std::int64_t in) const {
    return moe_kernel::load(l.problem.dtype, l.in<std::byte>("params/" + name), out, in);
  }
  // A parameter that stays in f32 beside bf16.
  std::span<const float> wide(const char* name, std::int64_t n) const {
    return {l.in<float>(std::string("params/") + name), static_cast<std::size_t>(n)};
  }
  void store(const Matrix& d, const std::string& name) const {
    moe_kernel::store(d, l.problem.dtype, l.out<std::byte>("grads/" + name));
  }
  Matrix map(const Matrix& x, const std::string& name, std::int64_t out) const {
    return moe_kernel::times_transposed(l.threads, x, param(name + ".weight", out, x.cols));
  }
  // dx = dy w; dw = dy^T x is stored.
  Matrix map_backward(const Matrix& x, const Matrix& dy, const std::string& name) const {
    moe_kernel::transposed_times(l.threads, dy, x, 0, x.rows, l.problem.dtype,
                                 l.out<std::byte>("grads/params/" + name + ".weight"));
    return moe_kernel::times(l.threads, dy, param(name + ".weight", dy.cols, x.cols));
  }

  Case part(std::initializer_list<Size> more) const {
    Case c;
    c.sizes = Sizes{{"B", B, {}}, *l.problem.sizes.find("T")};
    for (const Size& size : more) c.sizes.set(size);
    return c;
  }
  Case conv_case(std::size_t i) const {
    Case c = part({{"D", channels(i), {}}, {"W", W, {}}});
    if (fault("P-layer-conv-runs-on")) c.sizes.set({"T", T, {}});
    if (conv_bias) c.options.set("bias", "1");
    return c;
  }
  Case core_case() const {
    Case c = part({{"H", H, {}}, {"HV", HV, {}}, {"K", K, {}}, {"V", V, {}}});
    const Options& o = l.problem.options;
    c.options.set("gate", softplus ? "softplus" : "lower");
    if (!softplus) c.options.set("lb", o.get("lb", "-5"));
    c.options.set("beta", o.real("beta", 1) == 2 ? "neg" : "sigmoid");
    c.options.set("bias", "1");
    c.options.set("l2norm", "1");
    return c;
  }
  Case norm_case() const {
    Case c = part({{"HV", HV, {}}, {"V", V, {}}});
    c.options.set("eps", l.problem.options.get("eps", "1e-5"));
    return c;
  }
};

// Rows of padding are read, and answered, as zeros.
void mask(const Layer& y, Matrix& x) {
  const auto* mask = y.l.in<std::int64_t>("attention_mask");
  for (std::int64_t r = 0; r < x.rows && mask; ++r)
    if (mask[r] == 0) std::fill_n(x.row(r), x.ld, 0.0F);
}

struct Trace {
  Matrix x = {}, forget_in = {}, gate_in = {}, normed = {}, y = {};
  std::vector<Nested> conv = {}, core = {}, norm = {};  // three, one and one
};

Trace run(const Layer& y) {
  Trace t;
  const int threads = y.l.threads;
  t.x = moe_kernel::load(y.l.problem.dtype, y.l.in<std::byte>("x"), y.rows(), y.D);
  mask(y, t.x);
  Nested& core = t.core.emplace_back("kda.chunked_f32", y.core_case(), threads);
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const std::string name = kParts[i];
    Nested& conv = t.conv.emplace_back("short_conv.rows", y.conv_case(i), threads);
    put(y.map(t.x, name + "_proj", y.channels(i)), conv.in("x"));
    put(y.param(name + "_conv1d.weight", y.channels(i), y.W), conv.in("weight"));
    if (y.conv_bias) put(y.param(name + "_conv1d.bias", 1, y.channels(i)), conv.in("bias"));
    conv.forward();
    core.set(name, conv.out("y"));
  }
  t.forget_in = y.full_forget ? t.x : y.map(t.x, "f_a_proj", y.F);
  put(y.map(t.forget_in, y.full_forget ? "f_proj" : "f_b_proj", y.HV * y.K), core.in("g_raw"));
  put(y.map(t.x, "b_proj", y.HV), core.in("beta_logit"));
  core.set("A_log", y.wide("A_log", y.HV));
  core.set("dt_bias", y.wide("dt_bias", y.HV * y.K));
  core.forward();

  Nested& norm = t.norm.emplace_back("gated_rms_norm.rows", y.norm_case(), threads);
  norm.set("x", core.out("o"));
  t.gate_in = y.low_output ? y.map(t.x, "g_a_proj", y.G) : t.x;
  Matrix gate = y.map(t.gate_in, y.low_output ? "g_b_proj" : "g_proj", y.HV * y.V);
  if (y.gate_bias) {
    const Matrix bias = y.param("g_b_proj.bias", 1, gate.cols);
    for (std::int64_t r = 0; r < gate.rows; ++r)
      for (std::int64_t i = 0; i < gate.cols; ++i) gate.row(r)[i] += bias.row(0)[i];
  }
  put(gate, norm.in("gate"));
  put(y.param("o_norm.weight", 1, y.V), norm.in("weight"));
  norm.forward();
  t.normed = matrix(norm.out("y"), y.rows());
  t.y = y.map(t.normed, "o_proj", y.D);
  return t;
}

void forward(const Launch& l) {
  const Layer y(l);
  moe_kernel::store(run(y).y, l.problem.dtype, l.out<std::byte>("y"));
}

// The sum over rows, in their order.
Matrix column_sums(const Matrix& x) {
  Matrix sum(1, x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t i = 0; i < x.cols; ++i) sum.row(0)[i] += x.row(r)[i];
  return sum;
}

Matrix gate_backward(const Layer& y, const Trace& t, const Matrix& d) {
  if (!y.low_output) return y.map_backward(t.x, d, "g_proj");
  if (y.gate_bias) y.store(column_sums(d), "params/g_b_proj.bias");
  return y.map_backward(t.x, y.map_backward(t.gate_in, d, "g_b_proj"), "g_a_proj");
}

Matrix forget_backward(const Layer& y, const Trace& t, const Matrix& d) {
  if (y.full_forget) return y.map_backward(t.x, d, "f_proj");
  return y.map_backward(t.x, y.map_backward(t.forget_in, d, "f_b_proj"), "f_a_proj");
}

void backward(const Launch& l) {
  const Layer y(l);
  Trace t = run(y);
  Nested &core = t.core.front(), &norm = t.norm.front();
  const Matrix dy =
      moe_kernel::load(l.problem.dtype, l.in<std::byte>("cotangents/y"), y.rows(), y.D);
  put(y.map_backward(t.normed, dy, "o_proj"), norm.in("cotangents/y"));
  norm.backward();
  y.store(matrix(norm.out("grads/weight"), 1), "params/o_norm.weight");
  core.set("cotangents/o", norm.out("grads/x"));
  core.backward();
  std::ranges::copy(core.out("grads/A_log"), l.out<float>("grads/params/A_log"));
  std::ranges::copy(core.out("grads/dt_bias"), l.out<float>("grads/params/dt_bias"));

  Matrix dx = gate_backward(y, t, matrix(norm.out("grads/gate"), y.rows()));
  moe_kernel::add(dx, forget_backward(y, t, matrix(core.out("grads/g_raw"), y.rows())));
  const Matrix d_beta =
      y.map_backward(t.x, matrix(core.out("grads/beta_logit"), y.rows()), "b_proj");
  if (!y.fault("P-layer-beta-detached")) moe_kernel::add(dx, d_beta);
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const std::string name = kParts[i];
    Nested& conv = t.conv[i];
    conv.set("cotangents/y", core.out("grads/" + (y.fault("P-layer-qk-gradients") && i < 2
                                                      ? std::string(kParts[1 - i])
                                                      : name)));
    conv.backward();
    y.store(matrix(conv.out("grads/weight"), y.channels(i)), "params/" + name + "_conv1d.weight");
    if (y.conv_bias) y.store(matrix(conv.out("grads/bias"), 1), "params/" + name + "_conv1d.bias");
    moe_kernel::add(dx, y.map_backward(t.x, matrix(conv.out("grads/x"), y.rows()), name + "_proj"));
  }
  mask(y, dx);
  y.store(dx, "inputs/x");
}

std::string refuses(const Case& c, const Options&) {
  if (c.options.integer("prefill", 0) > 0) return "no carried states";
  const double beta = c.options.real("beta", 1);
  if (beta != 1 && beta != 2) return "betas of one or two sigmoids";
  return c.options.flag("taps") ? "no taps" : "";
}

const Register kernel{KernelDef{
    .op = "kda_layer",
    .name = "kda_layer.chunked",
    .what = "f32 products around short_conv.rows, kda.chunked_f32 and gated_rms_norm.rows",
    .contract = {.name = "f32",
                 .dtypes = {Dtype::F32, Dtype::BF16},
                 .accumulate = Dtype::F32,
                 .fidelity = Fidelity::Partial,  // the base runs token by token
                 .invariant = {"threads"}},
    .refuses = refuses,
    .forward = forward,
    .backward = backward,
    .faults = {{"P-layer-conv-runs-on", "", "convolutions run on from document to document"},
               {"P-layer-beta-detached", "", "betas pass no gradient to x"},
               {"P-layer-qk-gradients", "", "gradients of q and k change places"}},
}};

}  // namespace
}  // namespace parity::kda_layer_kernel
