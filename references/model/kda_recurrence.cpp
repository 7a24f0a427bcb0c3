// S_t = (I - beta k k^T) diag(exp g) S + beta k v^T as products of K x K matrices, all heads of a
// sequence at once (kda.md §1, matrix form).
#include "references/model/kda_recurrence.hpp"

#include <ATen/ATen.h>
#include <cmath>

namespace parity::model {
namespace {

using Named = std::map<std::string, at::Tensor>;

at::Tensor tensor_of(const Tensor& t) {
  std::vector<double> values = t.widened();
  std::vector<std::int64_t> shape;
  for (const Dim& dim : t.spec.dims) shape.push_back(dim.extent);
  return at::from_blob(values.data(), shape, at::kDouble).clone();
}

std::vector<double> values_of(const at::Tensor& t) {
  const at::Tensor flat = t.detach().contiguous().reshape(-1);
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

at::Tensor unit(const at::Tensor& x) { return x * (x.square().sum(-1, true) + 1e-6).rsqrt(); }

// [B,T,HV,K], with parameters by head.
at::Tensor gate_of(const Case& c, const Named& in) {
  const std::string gate = c.options.get("gate", "given");
  if (gate == "given") return in.at("g");
  at::Tensor z = in.at("g_raw");
  if (c.options.flag("bias")) z = z + in.at("dt_bias");
  const at::Tensor A =
      gate == "lower_noA" ? at::ones({1, 1}, at::kDouble) : in.at("A_log").exp().unsqueeze(-1);
  if (gate == "softplus") return -A * at::softplus(z, 1, 20);
  return c.options.real("lb", -5) * at::sigmoid(A * z);
}

at::Tensor beta_of(const Case& c, const Named& in) {
  const std::string beta = c.options.get("beta", "given");
  if (beta == "given") return in.at("beta");
  return at::sigmoid(in.at("beta_logit")) * (beta == "neg" ? 2.0 : 1.0);
}

struct Sequence {
  at::Tensor o, state;  // [T,HV,V], [HV,K,V]
};

// q, k [T,HV,K], v [T,HV,V], g [T,HV,K], beta [T,HV,V].
Sequence run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
             const at::Tensor& beta, at::Tensor S, double scale, bool headwise) {
  const std::int64_t T = q.size(0), K = q.size(2);
  std::vector<at::Tensor> o;
  for (std::int64_t t = 0; t < T; ++t) {
    const at::Tensor decayed = at::diag_embed(g[t].exp()).bmm(S);
    const at::Tensor outer = at::einsum("hi,hj->hij", {k[t], k[t]});
    if (headwise) {
      S = decayed - outer.bmm(decayed) * beta[t].unsqueeze(1);
    } else {
      const at::Tensor transition =
          at::eye(K, at::kDouble) - beta[t].narrow(1, 0, 1).unsqueeze(-1) * outer;
      S = transition.bmm(decayed);
    }
    S = S + at::einsum("hi,hj->hij", {k[t], beta[t] * v[t]});
    o.push_back(at::einsum("hij,hi->hj", {S, scale * q[t]}));
  }
  return {o.empty() ? at::zeros({0, v.size(1), v.size(2)}, at::kDouble) : at::stack(o), S};
}

std::vector<std::int64_t> lengths_of(const Case& c) {
  const Size& T = *c.sizes.find("T");
  if (T.parts.empty())
    return std::vector<std::int64_t>(static_cast<std::size_t>(c.sizes.get("B", 1)), T.extent);
  std::vector<std::int64_t> parts = T.parts;
  if (c.options.flag("unused")) parts.pop_back();
  return parts;
}

}  // namespace

std::map<std::string, std::vector<double>> kda_by_autograd(const Case& c, const Tensors& inputs) {
  Named in;
  for (const Tensor& t : inputs.list())
    if (t.spec.name != "cu_seqlens") {
      in[t.spec.name] = tensor_of(t);
      if (t.spec.role == Role::Input) in[t.spec.name].requires_grad_(true);
    }
  const bool v_first = c.options.flag("vfirst"), headwise = c.options.flag("headwise");
  const std::int64_t H = c.sizes.get("H", 1), HV = c.sizes.get("HV", H), V = c.sizes["V"],
                     K = c.sizes["K"];
  const double scale = c.options.real("scale", std::pow(static_cast<double>(K), -0.5));

  at::Tensor g = gate_of(c, in), beta = beta_of(c, in);
  g.retain_grad();
  beta.retain_grad();
  const auto tokens = [](const at::Tensor& x) { return x.flatten(0, 1); };  // [B*T, ...]
  const auto by_value_head = [&](const std::string& name) {
    const at::Tensor x = c.options.flag("l2norm") ? unit(in.at(name)) : in.at(name);
    return tokens(x).repeat_interleave(HV / H, 1);
  };
  const at::Tensor q = by_value_head("q"), k = by_value_head("k"), v = tokens(in.at("v"));
  const at::Tensor columns =
      headwise ? tokens(beta) : tokens(beta).unsqueeze(-1).expand({-1, -1, V});

  std::vector<at::Tensor> outputs, states;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths_of(c)) {
    at::Tensor S = at::zeros({HV, K, V}, at::kDouble);
    if (c.options.flag("h0")) {
      S = in.at("initial_state")[static_cast<std::int64_t>(states.size())];
      if (v_first) S = S.transpose(1, 2);
    }
    const auto cut = [&](const at::Tensor& x) { return x.narrow(0, first, length); };
    const Sequence s =
        run(cut(q), cut(k), cut(v), cut(tokens(g)), cut(columns), S, scale, headwise);
    outputs.push_back(s.o);
    states.push_back(v_first ? s.state.transpose(1, 2) : s.state);
    first += length;
  }
  outputs.push_back(
      at::zeros({q.size(0) - first, HV, V}, at::kDouble));  // beyond the last sequence
  const at::Tensor o = at::cat(outputs), state = at::stack(states);

  std::map<std::string, std::vector<double>> results = {{"o", values_of(o)},
                                                        {"final_state", values_of(state)},
                                                        {"g", values_of(g)},
                                                        {"beta", values_of(beta)}};
  if (!in.contains("cotangents/o")) return results;
  at::Tensor loss = (o * tokens(in.at("cotangents/o"))).sum();
  if (in.contains("cotangents/final_state"))
    loss = loss + (state * in.at("cotangents/final_state")).sum();
  loss.backward();
  const auto put = [&](const std::string& name, const at::Tensor& x) {
    results["grads/" + name] = values_of(x.grad().defined() ? x.grad() : at::zeros_like(x));
  };
  for (const Tensor& t : inputs.list())
    if (in.contains(t.spec.name) && t.spec.role == Role::Input)
      put(t.spec.name, in.at(t.spec.name));
  put("g", g);
  put("beta", beta);
  return results;
}

}  // namespace parity::model
