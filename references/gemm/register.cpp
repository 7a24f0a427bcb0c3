// gemm: matrix products, in real arithmetic or to the bits of a matrix unit.
//   in   x_MK w_NK        the case's dtype; w=DTYPE: another for w. With size T: tiles x_TMK w_TNK
//        c_MN             c=1: what the sum starts from, in y's dtype
//        scale_x scale_w  scale=tensor (1), row (M, N), mx (e8m0, 32 elements), nvfp4 (e4m3, 16)
//        alpha            alpha=1: a factor;  scale_result: result_scale=1: another
//        offs_G           with size G: ends of row ranges, each with its own w_GNK
//   out  y_MN             out=DTYPE (f32);  y = scale_result alpha scale_x scale_w (x w^T + c)
// bits=SCHEDULE (references/tensorcore/schedule.hpp) asks for the bits of that schedule: the truth
// is then what the software tensor core returns.
// A contract whose name is a schedule promises those bits, and its base has them.
#include "references/gemm/evaluate.hpp"
#include "references/gemm/faults.hpp"
#include "references/gemm/import.hpp"

namespace parity::gemm {
namespace {

ExpectedTensor of_codes(const TensorSpec& spec, const Codes& codes) {
  ExpectedTensor t{.spec = spec};
  t.bits.resize(bytes_for(spec.dtype, static_cast<std::int64_t>(codes.size())));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    store_code(spec.dtype, t.bits.data(), static_cast<std::int64_t>(i), codes[i]);
    t.value.push_back(decode(spec.dtype, codes[i]));
    t.scale.push_back(std::abs(t.value.back()));
  }
  return t;
}

Expected reference(const Case& c, const Tensors& inputs, bool) {
  if (std::string why = refuses(c); !why.empty()) return {.refused = std::move(why)};
  const Problem p = problem_of(c);
  const TensorSpec spec = outputs(c).front();
  if (!p.bits.empty())
    return {.tensors = {of_codes(spec, by_units(p, inputs, *schedule_of(p, p.bits), ""))}};
  Truth t = truth(p, inputs);
  return {.tensors = {{.spec = spec, .value = std::move(t.value), .scale = std::move(t.scale)}}};
}

// Products of one base; beyond that many it is worked out the fast way too.
constexpr std::int64_t kMostOneByOne = std::int64_t{1} << 24;

// A schedule leaves no rounding open: its variants are the base itself, worked out the fast way.
Codes by_schedule(const Problem& p, const BaseRequest& r, const tensorcore::Schedule& schedule) {
  const bool fast = r.variation > 0 || p.T * p.M * p.N * p.K > kMostOneByOne;
  return fast && r.fault.empty() && p.x != Dtype::F64
             ? by_lanes(p, r.inputs, schedule, /*threads=*/1)
             : by_units(p, r.inputs, schedule, r.fault);
}

Evaluation base(const BaseRequest& r) {
  const Problem p = problem_of(r.problem);
  const TensorSpec spec = outputs(r.problem).front();
  const auto schedule = schedule_of(p, p.bits.empty() ? schedule_name(r.contract) : p.bits);
  const Codes codes = schedule ? by_schedule(p, r, *schedule) : in_f32(p, r);
  ExpectedTensor t = of_codes(spec, codes);
  const bool bits = schedule && (!p.bits.empty() || r.problem.recorded != "");
  return {{.name = spec.name,
           .value = std::move(t.value),
           .bits = bits ? std::move(t.bits) : std::vector<std::byte>{}}};
}

const Register op{OpDef{
    .name = "gemm",
    .what = "y = scale_result alpha scale_x scale_w (x w^T + c)",
    .directions = {Direction::Forward},
    .sources = {"Li et al., MMA-Sim (arXiv 2511.10909)", "Fasi et al. (arXiv 2512.07004)",
                "torch.nn.functional.scaled_mm, torch._grouped_mm (PyTorch 2.11)"},
    .inputs = inputs,
    .outputs = outputs,
    .derive = derive,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = contract,
    .import = import_case,
    .faults = faults(),
}};

}  // namespace
}  // namespace parity::gemm
