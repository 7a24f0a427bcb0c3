// attn_res_stack.online: layers of latent attention and gated units between reads of block
// attention residuals (formulas in references/blocks/decoder.hpp), f32 throughout. Reads are
// two-phase (kernels/attn_res/token.hpp): an online softmax over the bank, into which the prefix is
// merged.
//   rounding    none but that of the results
//   threads     over rows of products, heads and tiles of the softmax, and 16 slots of tokens whose
//               partial gradients are added in order: the same bits for any number of them
// The backward runs the forward again.
#include <optional>

#include "kernels/attn_res/token.hpp"
#include "kernels/mla/layer.hpp"
#include "kernels/moe/unit.hpp"

namespace parity::attn_res_kernel {
namespace {

using mla_kernel::Matrix;

struct LayerTrace {
  std::int64_t before = 0;  // entries of the bank at the first read
  Matrix entering = {}, attn_read = {};
  std::optional<mla_kernel::Trace> attention = {};
  Matrix middle = {}, ffn_read = {}, ffn_normed = {}, gate = {}, up = {}, act = {};
};

struct Stack {
  const Launch& l;
  std::int64_t B, T, D, V, L, F, block;
  float eps;
  moe_kernel::GatedUnit unit = {};
  // Of the forward.
  std::vector<Matrix> bank = {};
  std::vector<LayerTrace> layers = {};
  Matrix prefix = {}, output_read = {}, normed = {};

  explicit Stack(const Launch& launch) : l(launch) {
    const Sizes& s = l.problem.sizes;
    const Options& o = l.problem.options;
    B = s.get("B", 1), T = s["T"], D = s["D"], V = s["V"], L = s["L"];
    F = o.integer("ffn", 0), block = o.integer("block", 0);
    eps = static_cast<float>(o.real("eps", 1e-5));
    if (o.get("act", "situ") == "situ")
      unit = {.beta = static_cast<float>(o.real("situ_beta", 4)),
              .linear_beta = static_cast<float>(o.real("situ_linear_beta", 25))};
  }
  std::int64_t rows() const { return B * T; }
  bool opens(std::int64_t layer) const { return block > 0 && layer % block == 0; }

  Matrix param(const std::string& name, std::int64_t out, std::int64_t in) const {
    return moe_kernel::load(l.problem.dtype, l.in<std::byte>("params/" + name), out, in);
  }
  std::byte* gradient(const std::string& name) const {
    return l.out<std::byte>("grads/params/" + name);
  }
  Matrix map(const Matrix& x, const std::string& name, std::int64_t out) const {
    return moe_kernel::times_transposed(l.threads, x, param(name, out, x.cols));
  }
  Matrix map_backward(const Matrix& x, const Matrix& dy, const std::string& name) const {
    moe_kernel::transposed_times(l.threads, dy, x, 0, x.rows, l.problem.dtype, gradient(name));
    return moe_kernel::times(l.threads, dy, param(name, dy.cols, x.cols));
  }
  Matrix norm(const Matrix& x, const std::string& name) const {
    return mla_kernel::normed(x, param(name, 1, D), eps);
  }
  Matrix norm_backward(const Matrix& x, const Matrix& dy, const std::string& name) const {
    return mla_kernel::normed_backward(x, dy, param(name, 1, D), eps, l.problem.dtype,
                                       gradient(name));
  }
  mla_kernel::Layer attention(const std::string& name) const {
    const Options& o = l.problem.options;
    return {.l = l,
            .prefix = "params/" + name + "self_attn.",
            .B = B,
            .D = D,
            .H = o.integer("heads", 1),
            .Q = o.integer("ql", 0),
            .C = o.integer("kl", 0),
            .N = o.integer("nope", 0),
            .R = o.integer("rope", 0),
            .V = o.integer("vd", 0),
            .T = {"T", T, {}},
            .gate = o.integer("mla_gate", 1) != 0,
            .eps = static_cast<float>(o.real("latent_eps", 1e-6))};
  }
};

std::string layer_name(std::int64_t i) { return "model.layers." + std::to_string(i) + "."; }

std::vector<float> query_of(const Stack& s, const std::string& name) {
  const Matrix norm = s.param(name + "_norm.weight", 1, s.D),
               proj = s.param(name + "_proj.weight", 1, s.D);
  std::vector<float> query(static_cast<std::size_t>(s.D));
  for (std::size_t d = 0; d < query.size(); ++d) query[d] = norm.data[d] * proj.data[d];
  return query;
}

// Calls token(t, sources, slot), by slots; the sources are the first `entries` of the bank and the
// prefix.
template <class Token>
void for_tokens(const Stack& s, std::int64_t entries, const Matrix& prefix, const Token& token) {
  unit_kernel::for_slots(s.l.threads, unit_kernel::kSlots, [&](std::int64_t slot) {
    const auto edge = [&](std::int64_t i) {
      return unit_kernel::slot_edge(i, unit_kernel::kSlots, s.rows());
    };
    for (std::int64_t t = edge(slot); t < edge(slot + 1); ++t)
      token(
          t,
          [&, t](std::int64_t n) {
            return n < entries ? s.bank[static_cast<std::size_t>(n)].row(t) : prefix.row(t);
          },
          slot);
  });
}

Matrix read_residuals(const Stack& s, std::int64_t entries, const Matrix& prefix,
                      const std::string& name) {
  const Read r{entries + 1, s.D, s.eps, s.l.fault};
  const std::vector<float> query = query_of(s, name);
  Matrix y(s.rows(), s.D);
  for_tokens(s, entries, prefix, [&](std::int64_t t, const auto& at, std::int64_t) {
    std::vector<float> weights(static_cast<std::size_t>(r.N));
    read(r, query.data(), at, y.row(t), weights.data());
  });
  return y;
}

// Adds the gradients of the bank's entries; returns that of the prefix.
Matrix read_residuals_backward(const Stack& s, std::int64_t entries, const Matrix& prefix,
                               const Matrix& dy, const std::string& name,
                               std::vector<Matrix>& d_bank) {
  const Read r{entries + 1, s.D, s.eps, s.l.fault};
  const std::vector<float> query = query_of(s, name);
  Matrix d_prefix(s.rows(), s.D), parts(unit_kernel::kSlots, s.D);
  for_tokens(s, entries, prefix, [&](std::int64_t t, const auto& at, std::int64_t slot) {
    const auto put = [&](std::int64_t n, std::int64_t d, float x) {
      if (n == entries)
        d_prefix.row(t)[d] = x;
      else
        d_bank[static_cast<std::size_t>(n)].row(t)[d] += x;
    };
    read_backward(r, query.data(), at, dy.row(t), put, parts.row(slot));
  });
  Matrix d_norm = s.param(name + "_norm.weight", 1, s.D),
         d_proj = s.param(name + "_proj.weight", 1, s.D);
  for (std::int64_t d = 0; d < s.D; ++d) {
    float sum = 0;
    for (std::int64_t slot = 0; slot < unit_kernel::kSlots; ++slot) sum += parts.row(slot)[d];
    const float norm = d_norm.row(0)[d];
    d_norm.row(0)[d] = d_proj.row(0)[d] * sum;
    d_proj.row(0)[d] = norm * sum;
  }
  moe_kernel::store(d_norm, s.l.problem.dtype, s.gradient(name + "_norm.weight"));
  moe_kernel::store(d_proj, s.l.problem.dtype, s.gradient(name + "_proj.weight"));
  return d_prefix;
}

Matrix sum_of(Matrix a, const Matrix& b) {
  moe_kernel::add(a, b);
  return a;
}

void unit_rows(const Stack& s, LayerTrace& t) {
  t.act = Matrix(t.gate.rows, t.gate.cols);
  for (std::int64_t r = 0; r < t.gate.rows; ++r)
    moe_kernel::unit_row(t.gate.row(r), t.up.row(r), t.gate.ld, s.unit, t.act.row(r));
}

Matrix ffn_backward(const Stack& s, const LayerTrace& t, const Matrix& dy,
                    const std::string& name) {
  const Matrix d_act = s.map_backward(t.act, dy, name + "mlp.down_proj.weight");
  Matrix value(1, s.F), d_gate(d_act.rows, s.F), d_up(d_act.rows, s.F);
  for (std::int64_t r = 0; r < d_act.rows; ++r) {
    moe_kernel::unit_row(t.gate.row(r), t.up.row(r), t.gate.ld, s.unit, value.row(0), d_gate.row(r),
                         d_up.row(r));
    for (std::int64_t i = 0; i < s.F; ++i) {
      d_gate.row(r)[i] *= d_act.row(r)[i];
      d_up.row(r)[i] *= d_act.row(r)[i];
    }
    std::fill(d_gate.row(r) + s.F, d_gate.row(r) + d_gate.ld, 0.0F);  // the padding stays zero
    std::fill(d_up.row(r) + s.F, d_up.row(r) + d_up.ld, 0.0F);
  }
  return sum_of(s.map_backward(t.ffn_normed, d_gate, name + "mlp.gate_proj.weight"),
                s.map_backward(t.ffn_normed, d_up, name + "mlp.up_proj.weight"));
}

// The embedding's rows by token.
Matrix embedded(const Stack& s) {
  const auto* tokens = s.l.in<std::int64_t>("tokens");
  const Matrix table = s.param("model.embed_tokens.weight", s.V, s.D);
  Matrix x(s.rows(), s.D);
  for (std::int64_t r = 0; r < s.rows(); ++r) std::copy_n(table.row(tokens[r]), s.D, x.row(r));
  return x;
}

void run_layer(Stack& s, std::int64_t i) {
  const std::string name = layer_name(i);
  LayerTrace t{.before = std::ssize(s.bank), .entering = s.prefix};
  t.attn_read =
      t.before > 0 ? read_residuals(s, t.before, s.prefix, name + "self_attention_res") : s.prefix;
  if (s.opens(i)) s.bank.push_back(s.prefix);
  t.attention.emplace(
      mla_kernel::forward(s.attention(name), s.norm(t.attn_read, name + "input_layernorm.weight")));
  t.middle = s.opens(i) ? t.attention->y : sum_of(s.prefix, t.attention->y);
  t.ffn_read = read_residuals(s, std::ssize(s.bank), t.middle, name + "mlp_res");
  t.ffn_normed = s.norm(t.ffn_read, name + "post_attention_layernorm.weight");
  t.gate = s.map(t.ffn_normed, name + "mlp.gate_proj.weight", s.F);
  t.up = s.map(t.ffn_normed, name + "mlp.up_proj.weight", s.F);
  unit_rows(s, t);
  s.prefix = sum_of(s.map(t.act, name + "mlp.down_proj.weight", s.D), t.middle);
  s.layers.push_back(std::move(t));
}

Stack run(const Launch& l) {
  Stack s(l);
  s.prefix = embedded(s);
  for (std::int64_t i = 0; i < s.L; ++i) run_layer(s, i);
  s.output_read = read_residuals(s, std::ssize(s.bank), s.prefix, "model.output_attn_res");
  s.normed = s.norm(s.output_read, "model.norm.weight");
  return s;
}

void forward(const Launch& l) {
  const Stack s = run(l);
  moe_kernel::store(s.map(s.normed, "lm_head.weight", s.V), l.problem.dtype,
                    l.out<std::byte>("logits"));
}

// From the gradient of the prefix behind layer i to that before it.
Matrix layer_backward(Stack& s, std::int64_t i, Matrix dp, std::vector<Matrix>& d_bank) {
  const std::string name = layer_name(i);
  LayerTrace& t = s.layers[static_cast<std::size_t>(i)];
  const Matrix d_read = s.norm_backward(t.ffn_read, ffn_backward(s, t, dp, name),
                                        name + "post_attention_layernorm.weight");
  moe_kernel::add(dp, read_residuals_backward(s, t.before + s.opens(i), t.middle, d_read,
                                              name + "mlp_res", d_bank));
  const Matrix d_normed = mla_kernel::backward(s.attention(name), *t.attention, dp);
  const Matrix d_attn_read =
      s.norm_backward(t.attn_read, d_normed, name + "input_layernorm.weight");
  if (s.opens(i)) dp = Matrix(s.rows(), s.D);  // the prefix began anew
  const std::string read = name + "self_attention_res";
  if (t.before > 0) {
    moe_kernel::add(dp,
                    read_residuals_backward(s, t.before, t.entering, d_attn_read, read, d_bank));
  } else {
    moe_kernel::add(dp, d_attn_read);
    const Matrix none(1, s.D);  // nothing was read
    moe_kernel::store(none, s.l.problem.dtype, s.gradient(read + "_norm.weight"));
    moe_kernel::store(none, s.l.problem.dtype, s.gradient(read + "_proj.weight"));
  }
  if (s.opens(i)) {
    if (s.l.fault != "P-decoder-bank-detached") moe_kernel::add(dp, d_bank.back());
    d_bank.pop_back();
  }
  return dp;
}

void backward(const Launch& l) {
  Stack s = run(l);
  const Matrix d_logits =
      moe_kernel::load(l.problem.dtype, l.in<std::byte>("cotangents/logits"), s.rows(), s.V);
  const Matrix d_read = s.norm_backward(
      s.output_read, s.map_backward(s.normed, d_logits, "lm_head.weight"), "model.norm.weight");
  std::vector<Matrix> d_bank(s.bank.size(), Matrix(s.rows(), s.D));
  Matrix dp = read_residuals_backward(s, std::ssize(s.bank), s.prefix, d_read,
                                      "model.output_attn_res", d_bank);
  for (std::int64_t i = s.L - 1; i >= 0; --i) dp = layer_backward(s, i, std::move(dp), d_bank);
  const auto* tokens = l.in<std::int64_t>("tokens");
  Matrix d_table(s.V, s.D);
  for (std::int64_t r = 0; r < s.rows(); ++r)
    for (std::int64_t d = 0; d < s.D; ++d) d_table.row(tokens[r])[d] += dp.row(r)[d];
  moe_kernel::store(d_table, l.problem.dtype, s.gradient("model.embed_tokens.weight"));
}

std::string refuses(const Case& c, const Options&) {
  const Options& o = c.options;
  if (o.get("full", "all") != "all" || o.integer("dense", c.sizes["L"]) < c.sizes["L"])
    return "latent attention and dense layers alone";
  if (o.integer("block", 0) == 0) return "no residual reads";
  if (o.get("rotary", "none") != "none") return "no rotation";
  if (o.flag("loss") || o.flag("taps") || !o.get("images", "").empty())
    return "logits alone: no loss, no taps, no images";
  return "";
}

const Register kernel{KernelDef{
    .op = "attn_res_stack",
    .name = "attn_res_stack.online",
    .what = "two-phase reads between online attention and gated units, f32",
    .contract = unit_kernel::kF32Contract,
    .refuses = refuses,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-AT06", "", "a larger score comes and what was summed is not rescaled"},
               {"P-res-bank-reused", "",
                "the bank's last entry was overwritten in a shared buffer"},
               {"P-decoder-bank-detached", "", "an entry of the bank passes no gradient on"},
               {"P-at-no-delta", "", "the softmax's backward without delta"},
               {"P-mla-dkr-head", "", "gradient of k_r from one head alone"}},
}};

}  // namespace
}  // namespace parity::attn_res_kernel
