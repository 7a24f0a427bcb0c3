// Kimi Delta Attention as LibTorch's eager operations: what a first PyTorch version looks like, as
// a candidate and as a rival. Gradients are autograd's.
//
//   kda.torch_chunk_f32   batched chunk form (kda.md §4): everything inside chunks at once, then a
//   scan over them. Decays
//                         between blocks of 16 rows are anchored at the first row of the lower
//                         block; inside a block they are formed pair by pair, or, with option
//                         diagonal=anchored, around the block's first row, which is faster and
//                         overflows for gates below -5.5 a token
//   kda.torch_loop_f32    token by token
// f32 throughout; packed sequences one after another.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <limits>
#include <torch/csrc/autograd/autograd.h>
#include <tuple>
#include <vector>

#include "harness/failure.hpp"
#include "harness/kernel.hpp"

namespace parity {
namespace {

using at::Tensor;
using at::indexing::Slice;

struct Setup {
  std::int64_t C = 64;
  bool anchored = false, loop = false, l2norm = false, headwise = false, v_first = false,
       lower = false;
  std::string gate, beta;
  double lb = -5, scale = 1;
};

Setup setup_of(const Launch& l, bool loop) {
  const Options& o = l.problem.options;
  Setup s;
  s.C = l.options.integer("chunk", 64);
  s.anchored = l.options.get("diagonal", "pairs") == "anchored";
  s.loop = loop;
  s.l2norm = o.flag("l2norm"), s.headwise = o.flag("headwise"), s.v_first = o.flag("vfirst");
  s.gate = o.get("gate", "given"), s.beta = o.get("beta", "given");
  s.lb = o.real("lb", -5);
  s.scale = o.real("scale", 1 / std::sqrt(static_cast<double>(l.problem.sizes["K"])));
  return s;
}

at::ScalarType scalar_type(Dtype dtype) {
  if (dtype == Dtype::F32) return at::kFloat;
  if (dtype == Dtype::BF16) return at::kBFloat16;
  if (dtype == Dtype::I64) return at::kLong;
  throw Failure("LibTorch candidates take f32 and bf16");
}

Tensor wrap(const TensorView& view) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : view.spec->dims) sizes.push_back(dim.extent);
  return at::from_blob(view.data, sizes, at::TensorOptions().dtype(scalar_type(view.spec->dtype)));
}

// Inputs as f32 leaves, in the order of the launch.
struct Leaves {
  std::vector<std::string> names = {};
  std::vector<Tensor> tensors = {};
  Tensor operator[](std::string_view name) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) return tensors[i];
    return {};
  }
};

Leaves leaves_of(const Launch& l, bool gradients) {
  Leaves leaves;
  for (const TensorView& view : l.inputs) {
    Tensor t = wrap(view);
    if (view.spec->dtype != Dtype::I64) t = t.to(at::kFloat);
    const bool cotangent = view.spec->name.starts_with("cotangents/");
    if (gradients && !cotangent && view.spec->dtype != Dtype::I64)
      t = t.detach().requires_grad_(true);
    leaves.names.push_back(view.spec->name);
    leaves.tensors.push_back(t);
  }
  return leaves;
}

// What the recurrence sees: q (times scale) k [B,HV,T,K], v [B,HV,T,V], g [B,HV,T,K], beta
// [B,HV,T,1 or V].
struct Operands {
  Tensor q, k, v, g, beta;
};

Operands activate(const Setup& s, const Leaves& in) {
  const auto by_head = [](const Tensor& t) { return t.transpose(1, 2); };
  const auto norm = [&](const Tensor& x) {
    return s.l2norm ? x * at::rsqrt((x * x).sum(-1, true) + 1e-6) : x;
  };
  Operands x;
  x.v = by_head(in["v"]);
  const std::int64_t group = in["v"].size(2) / in["q"].size(2);
  x.q = by_head(norm(in["q"]) * s.scale).repeat_interleave(group, 1);
  x.k = by_head(norm(in["k"])).repeat_interleave(group, 1);
  if (s.gate == "given") {
    x.g = in["g"];
  } else {
    Tensor z = in["g_raw"];
    if (in["dt_bias"].defined()) z = z + in["dt_bias"];
    Tensor coefficient = at::ones({1});
    if (in["A_log"].defined()) coefficient = in["A_log"].exp().view({1, 1, -1, 1});
    x.g =
        s.gate == "softplus" ? -coefficient * at::softplus(z) : s.lb * at::sigmoid(coefficient * z);
  }
  x.g = by_head(x.g);
  Tensor beta = s.beta == "given" ? in["beta"]
                                  : at::sigmoid(in["beta_logit"]) * (s.beta == "neg" ? 2.0 : 1.0);
  if (!s.headwise) beta = beta.unsqueeze(-1);
  x.beta = by_head(beta);
  return x;
}

using Result = std::pair<Tensor, Tensor>;  // o [B,HV,T,V], state [B,HV,K,V]

Result token_loop(const Operands& x, Tensor S) {
  // unbind, whose gradient is one stack; that of each select is a tensor of all tokens.
  const auto tokens = [](const Tensor& y) { return y.unbind(2); };
  const std::vector<Tensor> q = tokens(x.q.unsqueeze(-1)), k = tokens(x.k.unsqueeze(-1)),
                            v = tokens(x.v), decay = tokens(x.g.exp().unsqueeze(-1)),
                            beta = tokens(x.beta);
  std::vector<Tensor> o;
  for (std::size_t t = 0; t < q.size(); ++t) {
    S = S * decay[t];
    const Tensor u = beta[t] * (v[t] - (S * k[t]).sum(-2));
    S = S + k[t] * u.unsqueeze(-2);
    o.push_back((S * q[t]).sum(-2));
  }
  return {o.empty() ? x.v : at::stack(o, 2), S};
}

// Decayed products of rows, x [..,C,K] with k [..,C,K], lower triangle with its diagonal.
Tensor scores(const Setup& s, const Tensor& x, const Tensor& k, const Tensor& G) {
  constexpr std::int64_t kBlock = 16;
  const auto rows = [](const Tensor& t, std::int64_t first, std::int64_t last) {
    return t.narrow(-2, first, last - first);
  };
  const Tensor ones = at::ones({kBlock, kBlock}, at::kBool);
  std::vector<Tensor> blocks;
  for (std::int64_t r = 0; r < s.C; r += kBlock) {
    const Tensor anchor = rows(G, r, r + 1), Gr = rows(G, r, r + kBlock),
                 left = rows(x, r, r + kBlock) * (Gr - anchor).exp();
    std::vector<Tensor> row;
    if (r > 0)
      row.push_back(
          left.matmul((rows(k, 0, r) * (anchor - rows(G, 0, r)).exp()).transpose(-1, -2)));
    if (s.anchored) {
      row.push_back(
          left.matmul((rows(k, r, r + kBlock) * (anchor - Gr).exp()).transpose(-1, -2)).tril());
    } else {
      const Tensor exponent =
          (Gr.unsqueeze(-2) - Gr.unsqueeze(-3))
              .masked_fill(ones.triu(1).unsqueeze(-1), -std::numeric_limits<float>::infinity());
      row.push_back((rows(x, r, r + kBlock).unsqueeze(-2) * rows(k, r, r + kBlock).unsqueeze(-3) *
                     exponent.exp())
                        .sum(-1));
    }
    if (r + kBlock < s.C) {
      std::vector<std::int64_t> sizes = left.sizes().vec();
      sizes.back() = s.C - r - kBlock;
      row.push_back(at::zeros(sizes));
    }
    blocks.push_back(at::cat(row, -1));
  }
  return at::cat(blocks, -2);
}

Result chunk_form(const Setup& s, const Operands& x, Tensor S) {
  const std::int64_t T = x.q.size(2), chunks = (T + s.C - 1) / s.C, B = x.q.size(0),
                     HV = x.q.size(1);
  if (T == 0) return {x.v, S};
  const auto split = [&](const Tensor& t) {
    const Tensor padded =
        chunks * s.C == T ? t : at::constant_pad_nd(t, {0, 0, 0, chunks * s.C - T});
    return padded.reshape({B, HV, chunks, s.C, t.size(3)});
  };
  const Tensor q = split(x.q), k = split(x.k), v = split(x.v), beta = split(x.beta),
               G = split(x.g).cumsum(-2);
  const Tensor Aqk = scores(s, q, k, G), N = scores(s, k, k, G).tril(-1);
  const Tensor last = G.narrow(-2, s.C - 1, 1);
  const Tensor Kt = k * G.exp(), qg = q * G.exp(), kg = k * (last - G).exp(),
               through = last.exp().transpose(-1, -2);
  // Headwise beta has a system a value column; otherwise one inverse serves the chunk.
  Tensor W, U;
  if (!s.headwise) {
    const Tensor eye = at::eye(s.C), M = at::linalg_solve_triangular(
                                         eye + beta * N, eye.expand_as(N), false, true, true);
    W = M.matmul(beta * Kt), U = M.matmul(beta * v);
  }
  using Chunks = std::vector<Tensor>;
  const auto each = [](const Tensor& t) { return t.defined() ? t.unbind(2) : Chunks(); };
  const Chunks Us = each(U), Ws = each(W), betas = each(beta), Ns = each(N), vs = each(v),
               Kts = each(Kt), qgs = each(qg), Aqks = each(Aqk), throughs = each(through),
               kgs = each(kg.transpose(-1, -2));
  Chunks o;
  for (std::size_t c = 0; c < qgs.size(); ++c) {
    Tensor u;
    if (!s.headwise) {
      u = Us[c] - Ws[c].matmul(S);
    } else {
      const Tensor system =
          at::eye(s.C) + betas[c].transpose(-1, -2).unsqueeze(-1) * Ns[c].unsqueeze(-3);
      const Tensor right = (betas[c] * (vs[c] - Kts[c].matmul(S))).transpose(-1, -2).unsqueeze(-1);
      u = at::linalg_solve_triangular(system, right, false, true, true)
              .squeeze(-1)
              .transpose(-1, -2);
    }
    o.push_back(qgs[c].matmul(S) + Aqks[c].matmul(u));
    S = throughs[c] * S + kgs[c].matmul(u);
  }
  return {at::stack(o, 2).reshape({B, HV, chunks * s.C, -1}).narrow(2, 0, T), S};
}

// o [B,T,HV,V] and final_state as the op has them.
Result evaluate(const Setup& s, const Leaves& in) {
  const Operands x = activate(s, in);
  const Tensor cu = in["cu_seqlens"];
  const std::int64_t HV = x.v.size(1), K = x.q.size(3), V = x.v.size(3),
                     N = cu.defined() ? cu.size(0) - 1 : x.q.size(0);
  Tensor S = in["initial_state"].defined() ? in["initial_state"] : at::zeros({N, HV, K, V});
  if (s.v_first && in["initial_state"].defined()) S = S.transpose(-1, -2);
  const auto run = [&](const Operands& part, const Tensor& state) {
    return s.loop ? token_loop(part, state) : chunk_form(s, part, state);
  };
  Result r;
  if (!cu.defined()) {
    r = run(x, S);
  } else {
    std::vector<Tensor> o, states;
    const auto* starts = cu.const_data_ptr<std::int64_t>();
    for (std::int64_t n = 0; n < N; ++n) {
      const auto part = [&](const Tensor& t) {
        return t.narrow(2, starts[n], starts[n + 1] - starts[n]);
      };
      const Result one =
          run({part(x.q), part(x.k), part(x.v), part(x.g), part(x.beta)}, S.narrow(0, n, 1));
      o.push_back(one.first);
      states.push_back(one.second);
    }
    o.push_back(at::zeros_like(x.v.narrow(2, starts[N], x.v.size(2) - starts[N])));
    r = {at::cat(o, 2), at::cat(states, 0)};
  }
  if (s.v_first) r.second = r.second.transpose(-1, -2);
  return {r.first.transpose(1, 2), r.second};
}

void put(const Launch& l, std::string_view name, const Tensor& value) {
  for (const TensorView& view : l.outputs)
    if (view.spec->name == name) wrap(view).copy_(value);
}

template <bool kLoop>
void forward(const Launch& l) {
  at::NoGradGuard no_grad;
  at::set_num_threads(l.threads);
  const Result r = evaluate(setup_of(l, kLoop), leaves_of(l, false));
  put(l, "o", r.first);
  put(l, "final_state", r.second);
}

template <bool kLoop>
void backward(const Launch& l) {
  at::set_num_threads(l.threads);
  const Leaves in = leaves_of(l, true);
  const Result r = evaluate(setup_of(l, kLoop), in);
  std::vector<Tensor> outputs = {r.first}, cotangents = {in["cotangents/o"]}, wanted;
  if (in["cotangents/final_state"].defined()) {
    outputs.push_back(r.second);
    cotangents.push_back(in["cotangents/final_state"]);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < in.tensors.size(); ++i)
    if (in.tensors[i].requires_grad())
      wanted.push_back(in.tensors[i]), names.push_back(in.names[i]);
  const auto gradients =
      torch::autograd::grad(outputs, wanted, cotangents, std::nullopt, false, true);
  at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < names.size(); ++i)
    put(l, "grads/" + names[i], gradients[i].defined() ? gradients[i] : at::zeros_like(wanted[i]));
}

// A dozen small operations a token.
std::string refuses_long(const Case& c, const Options&) {
  constexpr std::int64_t kLongest = 128;
  for (const std::int64_t length : c.sizes.find("T")->parts)
    if (length > kLongest) return "token by token in eager LibTorch: sequences up to 128 tokens";
  return c.options.flag("taps") ? "no taps on the gate and beta" : "";
}

std::string refuses_chunk(const Case& c, const Options& options) {
  if (c.options.flag("taps")) return "no taps on the gate and beta";
  const std::int64_t chunk = options.integer("chunk", 64);
  return chunk % 16 == 0 && chunk > 0 ? "" : "chunk is a multiple of 16";
}

KernelDef eager(std::string_view name, std::string_view what, bool loop) {
  return {.op = "kda",
          .name = name,
          .what = what,
          .environment = "torch",
          .contract = {.name = "f32",
                       .dtypes = {Dtype::F32},
                       .accumulate = Dtype::F32,
                       .chunk = loop ? 0 : 64,
                       .fidelity = Fidelity::Partial},
          .refuses = loop ? refuses_long : refuses_chunk,
          .forward = loop ? forward<true> : forward<false>,
          .backward = loop ? backward<true> : backward<false>};
}

const Register chunk{eager("kda.torch_chunk_f32",
                           "LibTorch, eager, batched chunk form; gradients by autograd", false)};
const Register token{
    eager("kda.torch_loop_f32", "LibTorch, eager, token by token; gradients by autograd", true)};

}  // namespace
}  // namespace parity
