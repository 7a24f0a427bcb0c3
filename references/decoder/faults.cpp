// Faults of the assembly, and those of its parts that a whole model must show (k3.md §6.7); each
// part's own op has all of its own.
#include "references/decoder/problem.hpp"

namespace parity::net {
namespace {

const std::vector<FaultDef> kAssembly = {
    {"P-decoder-prefix-kept", "", "the prefix is not begun anew where a block opens"},
    {"P-decoder-no-output-read", "", "the output read is left out"},
    {"P-decoder-bank-detached", "", "a bank entry's gradient does not reach what was committed"},
    {"P-decoder-prefix-gradient", "", "the sum's gradient passes a block's opening"},
    {"P-res-eps", "", "eps of the reads on the sum, not on the mean"},
    {"P-res-normed-values", "", "normalised sources are mixed"},
    {"P-res-no-norm-weight", "", "the reads' norm weight is left out"},
    {"P-res-key-path", "", "the keys' part of the sources' gradient is dropped"},
    {.id = "A-CM03",
     .what = "query gradient of the reads not reduced over tensor-parallel ranks",
     .unsupported = "needs ranks"}};

const std::vector<FaultDef> kParts = {
    {"P-loss-padding", "", "the loss is averaged over ignored labels too"},
    {"P-conv-reversed", "", "taps of the convolutions in reverse"},
    {"P-gate-no-A", "", "A_log ignored"},
    {"P-l2-mean", "", "eps of the norm of q and k on the mean, not on the sum"},
    {"P-silu-slope", "", "slope of SiLU without z sigmoid'"},
    {"P-mla-eps", "", "latent norms with the other eps (1e-5 for 1e-6)"},
    {"P-mla-scale", "", "logits scaled by N^-1/2, without the shared channels"},
    {"P-mla-no-kr", "", "the shared key k_r is dropped"},
    {"P-mla-no-q-norm", "", "the query latent is not normed"},
    {"P-mla-no-kv-norm", "", "the key and value latent is not normed"},
    {"P-mla-no-gate", "", "the output is not gated"},
    {"P-mla-gate-twice", "", "the gate is 2 sigmoid"},
    {"P-mla-kv-order", "", "kv_b_proj read as [v | k_n]"},
    {"A-MR08", "", "weights are gathered from the scores with the bias"},
    {"P-router-no-bias", "", "the correction bias is ignored"},
    {"P-router-renorm-top1", "", "a single expert's weight is renormalised, to one"},
    {"P-moe-swiglu", "", "SwiGLU in place of SiTU"},
    {"P-moe-no-linear-beta", "", "the up branch is not limited"},
    {"P-moe-gate-up", "", "w1 and w3 change places"},
    {"P-moe-no-norm", "", "the latent norm is left out"},
    {"P-moe-norm-eps", "", "latent norm with a tenth of its eps"},
    {"P-moe-no-shared", "", "shared experts are left out"},
    {"P-vit-rope-concat", "", "the tower turns by rows, then columns, not in turn"},
    {"P-vit-no-rope", "", "queries and keys of the tower are not rotated"},
    {"P-vit-no-attention", "", "the tower's attention left out"},
    {"P-vit-causal", "", "patches attend to earlier ones only"},
    {"P-vit-gelu-erf", "", "exact GELU in the tower"},
    {"P-vit-no-mlp", "", "the tower's MLP left out"},
    {"P-vit-eps-bf16", "", "eps of the tower's norms 2^-7, whatever the dtype"},
    {"P-vit-projector-tanh", "", "tanh GELU in the projector"},
    {"P-vit-merge-columns", "", "neighbours merged column-major"},
    {"P-vit-post-eps", "", "eps of the projector's norm too small by ten"},
    {.id = "P-decoder-topology",
     .what = "the last layer is not full attention",
     .unsupported = "parameters of the other kind of layer are not there"}};

}  // namespace

std::vector<FaultDef> decoder_faults(bool whole) {
  std::vector<FaultDef> list = kAssembly;
  if (whole) list.insert(list.end(), kParts.begin(), kParts.end());
  return list;
}

}  // namespace parity::net
