// NVFP4 of the kernels of TensorRT-LLM, vLLM and FlashInfer: chain C. Known by formula and vectors;
// no recording.
#include "references/chains/chain_c.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  return expected_of(chain_c_outputs(c), inputs, run_chain_c(c, inputs, {}, defect), defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_trtllm",
    .what = "chain C, cvt_warp_fp16_to_fp4: s = e4m3(G (bamax rcp(6))), enc = rcp(s rcp(G)), 0 "
            "where s is 0; "
            "rcp.approx as the exact reciprocal",
    .quantize = quantize,
    .outputs = chain_c_outputs,
    .faults = chain_c_faults(),
}};

}  // namespace
}  // namespace parity::quantize
