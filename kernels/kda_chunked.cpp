// Kimi Delta Attention in chunks on the CPU, f32 and bf16, forward and backward.
//
//   accumulate  f32 everywhere; f64 only for the sums of dA_log and dt_bias over tokens
//   rounding    none but that of the outputs: bf16 inputs are widened, every intermediate stays f32
//   decays      exp(g_t) once a token, to one ulp, then products of neighbours; no cumulative gate,
//               so its magnitude does not matter. In diagonal blocks of 16 tokens the product is
//               applied pair by pair, between blocks each operand is multiplied once and rounded
//   order       per element one chain of fused multiply-adds in token (or channel) order. The
//   state,
//               its prediction and its gradient are added last, once a chunk; the substitution's
//               sums start from them. The backward sums from the last token on, do and -de in turn
//   threads     over sequences and value heads; sums over them are made afterwards in their order
//   tails       rows beyond a sequence do not exist; channels are padded with zeros to 16 lanes
// Fidelity is partial: the base makes its decays as 2^(G_i - G_j) of prefix sums in log2 units and
// adds whole products. Over the full lane the rms error in f32 is 0.84 of the base's in the median
// and 1.11 at the ninth decile, but with repeated keys the gradient of the initial state, nearly
// all of which cancels within a chunk, errs up to 4 times as much: a faithful 1.15 does not hold
// there. AVX-512, AVX2 or plain C++, whichever the processor has (option isa); the first two give
// the same bits.
#include "kernels/kda/backward.hpp"
#include "kernels/kda/forward.hpp"

namespace parity {
namespace {

using namespace kda_kernel;

constexpr std::int64_t kChunk =
    32;  // the fastest of 16, 32, 64 at K = V = 128, forward and backward together

std::vector<TensorSpec> saved(const Case& c, const Options& options) {
  return saved_specs(shape_of(c, options, kChunk));
}

std::size_t workspace(const Case& c, const Options& options, Direction direction) {
  return direction == Direction::Forward
             ? 0
             : partial_sums(shape_of(c, options, kChunk), nullptr).bytes;
}

void forward(const Launch& launch) { chunked_forward(problem_of(launch, kChunk)); }
void backward(const Launch& launch) { chunked_backward(problem_of(launch, kChunk)); }

KernelDef chunked(std::string_view name, Dtype dtype, std::vector<FaultDef> faults) {
  const auto variant = [](const char* chunk, const char* isa) {
    Options options{{"chunk", chunk}};
    if (*isa) options.set("isa", isa);
    return Variant{.options = options};
  };
  return {.op = "kda",
          .name = name,
          .what =
              "chunked, one chain of f32 fused multiply-adds per element in token order; decays as "
              "products; any K, V, T",
          .contract = {.name = dtype == Dtype::F32 ? "f32" : "f32, bf16 in and out",
                       .dtypes = {dtype},
                       .accumulate = Dtype::F32,
                       .chunk = kChunk,
                       .fidelity = Fidelity::Partial,  // above
                       .invariant = {"threads", "batch", "split", "causal"}},
          .variants = {variant("32", ""), variant("64", ""), variant("16", ""),
                       variant("64", "avx2"), variant("32", "portable")},
          .refuses = refuses,
          .saved = saved,
          .workspace = workspace,
          .forward = forward,
          .backward = backward,
          .faults = std::move(faults)};
}

const Register f32{chunked("kda.chunked_f32", Dtype::F32, faults_of(KernelKind::ChunkedF32))};
const Register bf16{chunked("kda.chunked_bf16", Dtype::BF16, faults_of(KernelKind::ChunkedBf16))};

}  // namespace
}  // namespace parity
