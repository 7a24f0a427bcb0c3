// Softmax attention on the CPU in tiles of 64 queries by 64 keys, f32 and bf16, forward and
// backward.
//
//   accumulate  f32 everywhere; bf16 inputs are widened, probabilities stay f32
//   rounding    none but that of the outputs
//   order       keys in ascending order, with a running maximum; products are chains of fused
//               multiply-adds within a tile
//   threads     over heads, and over tiles where there are few; nobody adds to another's rows
//   saved       o in f32, so that delta = do . o does not see the rounding of the output;
//               maximum and sum of every query
// AVX-512, AVX2 or plain C++, whichever the processor has (option isa); the first two give the same
// bits.
#include "kernels/attention/problem.hpp"

namespace parity {
namespace {

using namespace attention_kernel;

std::vector<TensorSpec> saved(const Case& c, const Options&) {
  const std::int64_t T = c.sizes["T"], H = c.sizes.get("H", 1);
  const Dim B{"B", c.sizes.get("B", 1)};
  return {
      {.name = "o",
       .role = Role::State,
       .dtype = Dtype::F32,
       .dims = {B, {"T", T}, {"H", H}, {"V", c.sizes.get("V", c.sizes["D"])}}},
      {.name = "top", .role = Role::State, .dtype = Dtype::F32, .dims = {B, {"H", H}, {"T", T}}},
      {.name = "inverse_sum",
       .role = Role::State,
       .dtype = Dtype::F32,
       .dims = {B, {"H", H}, {"T", T}}}};
}

std::size_t workspace(const Case& c, const Options&, Direction direction) {  // delta by query
  if (direction == Direction::Forward) return 0;
  return static_cast<std::size_t>(c.sizes.get("B", 1) * c.sizes["T"] * c.sizes.get("H", 1)) *
         sizeof(float);
}

void forward(const Launch& launch) { online_forward(problem_of(launch)); }
void backward(const Launch& launch) { online_backward(problem_of(launch)); }

const Register kernel{KernelDef{
    .op = "attention",
    .name = "attention.online",
    .what = "running maximum over tiles of 64 keys, f32 fused multiply-adds; any T, S, D, V",
    .contract = {.name = "f32",
                 .dtypes = {Dtype::F32, Dtype::BF16},
                 .accumulate = Dtype::F32,
                 .fidelity = Fidelity::Partial,  // the base has all logits before it sums
                 .invariant = {"threads"}},
    .variants = {{}, {{{"isa", "avx2"}}}, {{{"isa", "portable"}}}},
    .refuses = refuses,
    .saved = saved,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-AT03", "", "maximum and sum of the first tile of queries in all tiles"},
               {"A-AT08", "", "a tile of keys that straddles the boundary is not masked"},
               {"P-at-scale", "", "logits scaled by the value dim"},
               {"P-at-mask", "", "the mask is off by one"},
               {"P-at-align", "", "the causal mask is aligned to the other corner"},
               {"P-at-tail", "", "keys past the last sixteen of a tile are dropped"},
               {"P-at-rescale", "", "what was summed is not rescaled when the maximum grows"},
               {"P-at-lse-sum", "", "log sum exp without the sum"},
               {"P-at-kv-head", "", "grouped heads read key head h mod G"},
               {"P-at-group-sum", "", "gradients of keys and values from one head of the group"},
               {"P-at-o-rounded", "", "delta from o rounded to bf16"},
               {"P-at-no-delta", "", "the backward without delta"},
               {"P-at-dq-scale", "", "dq not scaled"}},
}};

}  // namespace
}  // namespace parity
