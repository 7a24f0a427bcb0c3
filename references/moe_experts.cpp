// moe_experts: the experts of a mixture, given the routing (blocks/moe.hpp), by tokens T, width L,
// expert width F, experts E and choices K.
//   in   x [T,L], ids [T,K] ascending, weights [T,K] f32 beside bf16,
//        params/experts.<e>.{w1,w3,w2}.weight
//   out  y [T,L] = sum_k weights E_ids(x)
//   option act=situ (usual) or silu, situ_beta (4), situ_linear_beta (25)
#include "references/blocks/moe_specs.hpp"
#include "references/blocks/open.hpp"

namespace parity::net {
namespace {

std::vector<TensorSpec> inputs(const Case& c) {
  const Dim tokens{"T", c.sizes["T"]}, width{"L", c.sizes["L"]}, choices{"K", c.sizes["K"]};
  std::vector<TensorSpec> specs = {
      {.name = "x", .dtype = c.dtype, .dims = {tokens, width}},
      {.name = "ids", .role = Role::Ids, .dtype = Dtype::I64, .dims = {tokens, choices}},
      {.name = "weights", .dtype = wide_of(c.dtype), .dims = {tokens, choices}}};
  add_experts(specs, c, width);
  specs.push_back(
      {.name = "cotangents/y", .role = Role::Cotangent, .dtype = c.dtype, .dims = {tokens, width}});
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  std::vector<TensorSpec> specs = {{.name = "y",
                                    .role = Role::Output,
                                    .dtype = c.dtype,
                                    .dims = {{"T", c.sizes["T"]}, {"L", c.sizes["L"]}}}};
  for (const TensorSpec& in : inputs(c))
    if (in.role == Role::Input) specs.push_back(gradient_of(in));
  return specs;
}

std::string refuses(const Case& c) { return c.sizes["K"] > c.sizes["E"] ? "K exceeds E" : ""; }

template <class T>
void formulas(Run<T>& run) {
  const Array<T>& x = run.in("x");
  Routing<T> r;
  r.ids = run.ids("ids");
  r.weights = run.in("weights");
  r.load.assign(static_cast<std::size_t>(run.problem().sizes["E"]), 0);
  for (const std::int64_t e : r.ids) ++r.load.at(static_cast<std::size_t>(e));
  const Experts all{.unit = unit_of(run.problem(), "situ")};
  const Mixture<T> m = experts(run, x, r, all);
  run.put("y", m.sum);
  if (!run.wants_gradients()) return;
  const MixtureGradients<T> d = experts_backward(run, x, r, m, run.in("cotangents/y"), all);
  run.grad("inputs/x", d.z);
  run.grad("inputs/weights", d.weights);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), kFormulas, c, tensors, gradients);
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

const Register op{OpDef{
    .name = "moe_experts",
    .what = "y = sum_k p_k E_k(x), routing given",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi K3 (arXiv 2607.24653)", "DeepSeek-V3 (arXiv 2412.19437)"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .faults = {{"A-MR01", "", "gradient of an expert without tokens is never written"},
               {"A-MR07", "", "square expert weights are transposed"},
               {"A-CK01", "", "experts in the order of their names as text"},
               {"P-moe-gate-up", "", "w1 and w3 change places"},
               {"P-moe-swiglu", "", "SwiGLU in place of SiTU"},
               {"P-moe-no-linear-beta", "", "the up branch is not limited"},
               {"P-moe-unweighted", "", "experts are summed without their weights"},
               {"P-moe-last-expert", "", "the last chosen expert is left out of the sum"},
               {"P-moe-dy-unweighted", "", "gradient of an expert's output without its weight"},
               {.id = "A-MR05",
                .what = "bias of the second layer not weighted",
                .unsupported = "experts of Kimi K3 have no bias"}},
}};

const Register bound{BoundDef{.op = "moe_experts", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
