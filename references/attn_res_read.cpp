// attn_res_read: one read of block attention residuals (k3.md §4), by tokens T, sources N and width
// D.
//   in   bank [T,N-1,D], prefix [T,D], params/norm.weight [D], params/proj.weight [1,D] sources:
//   bank first, prefix last out  y = sum_n pi_n V_n, pi = softmax_n(K_n . q), K_n = V_n r_n, r_n =
//   1/sqrt(mean V_n^2 + eps), q = norm * proj backward, g = dy:  c_n = V_n . g;  ds = pi (c - pi .
//   c);  dq = sum ds_n K_n;  dnorm = proj dq;  dproj = norm dq;
//        dV_n = pi_n g + r_n (dK_n - K_n mean(dK_n K_n)), dK_n = ds_n q
//   option eps (1e-5); option taps=1: tap/probs [T,N]
#include "harness/text.hpp"
#include "references/blocks/attn_res.hpp"
#include "references/blocks/stored.hpp"

namespace parity::net {
namespace {

constexpr double kUsualEps = 1e-5;

struct Extents {
  std::int64_t T = 0, N = 0, D = 0;
};
Extents extents(const Case& c) { return {c.sizes["T"], c.sizes["N"], c.sizes["D"]}; }

std::vector<TensorSpec> inputs(const Case& c) {
  const auto [T, N, D] = extents(c);
  return {{.name = "bank", .dtype = c.dtype, .dims = {{"T", T}, {"N", N - 1}, {"D", D}}},
          {.name = "prefix", .dtype = c.dtype, .dims = {{"T", T}, {"D", D}}},
          {.name = "params/norm.weight", .dtype = c.dtype, .dims = {{"D", D}}},
          {.name = "params/proj.weight", .dtype = c.dtype, .dims = {{"O", 1}, {"D", D}}},
          {.name = "cotangents/y",
           .role = Role::Cotangent,
           .dtype = c.dtype,
           .dims = {{"T", T}, {"D", D}}}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const auto [T, N, D] = extents(c);
  std::vector<TensorSpec> specs = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = {{"T", T}, {"D", D}}}};
  if (c.options.flag("taps"))
    specs.push_back({.name = "tap/probs",
                     .role = Role::Output,
                     .dtype = c.dtype,
                     .dims = {{"T", T}, {"N", N}}});
  for (const TensorSpec& in : inputs(c)) {
    if (in.role == Role::Cotangent || elements(in.dims) == 0) continue;
    const bool parameter = in.name.starts_with("params/");
    specs.push_back({.name = parameter ? "grads/" + in.name : "grads/inputs/" + in.name,
                     .role = Role::Gradient,
                     .dtype = c.dtype,
                     .dims = in.dims,
                     .parameter = parameter ? in.name.substr(7) : ""});
  }
  return specs;
}

template <class T>
void formulas(Run<T>& run) {
  const double eps = run.options().real("eps", kUsualEps);
  const AttnRes read{.norm = "norm.weight", .proj = "proj.weight", .eps = eps};
  const Array<T>&bank = run.in("bank"), &prefix = run.in("prefix");
  AttnResRead<T> out = attn_res(run, bank, prefix, read);
  run.put("y", std::move(out.y));
  run.put("tap/probs", std::move(out.probs));
  if (!run.wants_gradients()) return;
  const AttnResGradients<T> d = attn_res_backward(run, bank, prefix, run.in("cotangents/y"), read);
  if (bank.count() > 0) run.grad("inputs/bank", d.bank);
  run.grad("inputs/prefix", d.prefix);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), kFormulas, c, tensors, gradients);
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "attn_res_read";
  c.dtype = stored_dtype(stored);
  const std::vector<std::int64_t> bank = stored_shape(stored, "inputs/bank");
  c.sizes = Sizes{{"T", bank.at(0), {}}, {"N", bank.at(1) + 1, {}}, {"D", bank.at(2), {}}};
  c.options.set("taps", "1");
  if (const double eps = stored_real(stored, "eps", kUsualEps); eps != kUsualEps)
    c.options.set("eps", shortest(eps));
  import_composite(stored, registry().op_or_throw(c.op), imported);
  return imported;
}

const Register op{OpDef{
    .name = "attn_res_read",
    .what = "y = sum_n softmax_n(rms(V_n) . (norm * proj)) V_n",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi K3 (arXiv 2607.24653)", "torchtitan models.kimi_k3 attention residuals"},
    .inputs = inputs,
    .outputs = outputs,
    .reference = reference,
    .base = base,
    .contract = composite_contract,
    .import = import_case,
    .faults = {{"P-res-eps", "", "eps added to the sum of squares, not to their mean"},
               {"P-res-normed-values", "", "the keys are mixed in place of the values"},
               {"P-res-no-norm-weight", "", "the norm's weight is left out of the query"},
               {"P-res-scaled", "", "scores divided by sqrt(D), as attention does"},
               {"P-res-prefix-first", "", "the prefix takes the place of the first source"},
               {"P-res-dnorm", "", "gradient of the norm's weight without the projection"},
               {"P-res-key-path", "", "the keys' part of the sources' gradient is dropped"},
               {.id = "A-CM03",
                .what = "query gradient not reduced over tensor-parallel ranks",
                .unsupported = "needs ranks"}},
}};

const Register bound{BoundDef{.op = "attn_res_read", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
