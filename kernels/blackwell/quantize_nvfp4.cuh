// NVFP4 with Blackwell's conversions: f32 to e4m3 and e2m1 and back are one instruction each.
// x f32 or bf16, dense; one thread a block of 16; |x| reduced over the tensor first where the chain
// has a tensor scale (as integers, so that NaN wins). Scales also to 128x4, padding zero.
#pragma once

#include <cfloat>

#include "harness/kernel.hpp"
#include "kernels/blackwell/instructions.cuh"
#include "kernels/quantize/frame.hpp"

namespace parity::PARITY_MACHINE::blackwell::quantise {

constexpr int kBlock = 16, kThreads = 128;

// How a chain orders its operations.
enum class Chain : std::uint8_t {
  TransformerEngine,  // s = e4m3(min(bamax mult, 448)), enc = min(1 / (s decode), FLT_MAX); -0 is 0
  Torchao,            // the same, -0 keeps its sign
  TwoLevel,           // s = e4m3(clamp(bamax/6/decode, 2^-6, 448)), enc = (1/decode) / s
  OneLevel            // decode = 1
};
enum class Mistake : std::uint8_t {
  None,
  ExactScale,       // the encode factor is that of the scale before its rounding
  ReciprocalOrder,  // its two divisions in the other order
  Transposed,       // row and column swapped inside the 4x4 of 128x4
  Nibbles,          // even element in the high nibble
  AmaxTail,         // the last elements do not enter the tensor's amax
  Padding           // padding of the scales is not written
};
struct FaultName {
  std::string_view id;
  Mistake mistake;
  std::string_view what;
};
inline constexpr FaultName kFaultNames[] = {
    {"A-QT05", Mistake::ExactScale,
     "encode factor from the exact block scale, stored beside its e4m3 rounding"},
    {"A-QT08", Mistake::ReciprocalOrder,
     "the two divisions of the encode factor in the other order"},
    {"P-swizzle-transposed", Mistake::Transposed, "row and column swapped inside the 4x4 of 128x4"},
    {"P-nibbles", Mistake::Nibbles, "even element in the high nibble (sglang #23625)"},
    {"P-amax-tail", Mistake::AmaxTail,
     "what follows the last 128 elements does not enter the tensor's amax"},
    {"P-padding", Mistake::Padding, "padding of the scales never written (vLLM #45741)"}};

struct Job {
  const void* x = nullptr;
  bool bf16 = false;
  std::int64_t rows = 0, columns = 0, blocks = 0;  // blocks of a row
  Chain chain = Chain::OneLevel;
  float amax_factor = 1;
  std::uint32_t* amax_bits = nullptr;
  std::uint8_t *codes = nullptr, *scales = nullptr, *swizzled = nullptr;
  float* encode = nullptr;
  float* amax[3] = {};
  float* tensor_scale = nullptr;
  void* dequantised = nullptr;  // of x's type
  float* dequantised_f32 = nullptr;
  Mistake mistake = Mistake::None;
};

__device__ inline float element(const Job& job, std::int64_t i) {
  if (!job.bf16) return static_cast<const float*>(job.x)[i];
  return float_of(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(job.x)[i]) << 16);
}

// What is the same for all blocks of a tensor.
struct Plan {
  float amax = 0;
  float encode = 1;   // min(2688 / amax, FLT_MAX); 1 where amax is 0 or inf
  float mult = 0;     // encode fl(1/6)
  float decode = 1;   // 1 / encode; amax / 2688 of TwoLevel
  float inverse = 1;  // 1 / decode
};
__device__ inline bool encodes(Chain c) {
  return c == Chain::TransformerEngine || c == Chain::Torchao;
}
__device__ inline Plan plan_of(const Job& job) {
  Plan plan;
  if (job.chain == Chain::OneLevel) return plan;
  plan.amax = multiply(float_of(*job.amax_bits), job.amax_factor);
  if (job.chain == Chain::TwoLevel) {
    plan.decode = divide(plan.amax, 2688.0F);
    plan.inverse = divide(1.0F, plan.decode);
    return plan;
  }
  const float s = divide(2688.0F, plan.amax);
  plan.encode = plan.amax == 0 || s == 0 ? 1.0F : s > FLT_MAX ? FLT_MAX : s;
  plan.mult = multiply(plan.encode, 1.0F / 6.0F);
  plan.decode = divide(1.0F, plan.encode);
  return plan;
}

struct Scale {
  std::uint32_t code = 0;
  float encode = 0;
};
__device__ inline Scale scale_of(const Job& job, const Plan& plan, float block_amax) {
  const bool by_encode = encodes(job.chain), swapped = job.mistake == Mistake::ReciprocalOrder;
  float wide = by_encode ? multiply(block_amax, plan.mult) : divide(block_amax, 6.0F);
  if (job.chain == Chain::TwoLevel) wide = divide(wide, plan.decode);
  if (!by_encode && wide < 0x1p-6F) wide = 0x1p-6F;
  if (wide > 448.0F) wide = 448.0F;  // a comparison, so that NaN stays
  Scale scale{.code = to_e4m3(wide)};
  const float kept = job.mistake == Mistake::ExactScale ? wide : from_e4m3(scale.code);
  if (by_encode) {
    scale.encode = swapped ? divide(divide(1.0F, plan.decode), kept)
                           : divide(1.0F, multiply(kept, plan.decode));
    if (scale.encode > FLT_MAX) scale.encode = FLT_MAX;
  } else {
    scale.encode = swapped ? divide(1.0F, multiply(plan.decode, kept)) : divide(plan.inverse, kept);
  }
  return scale;
}

// The largest |x| as the bits of a float.
template <class Family>
__global__ void __launch_bounds__(kThreads) largest(Job job, int threads) {
  std::int64_t n = job.rows * job.columns;
  if (job.mistake == Mistake::AmaxTail) n = n / 128 * 128;
  std::uint32_t mine = 0;
  for (std::int64_t i = std::int64_t{block_x()} * threads + thread(); i < n;
       i += std::int64_t{grid_x()} * threads) {
    const std::uint32_t size = bits_of(element(job, i)) & 0x7FFFFFFFU;
    mine = size > mine ? size : mine;
  }
  mine = warp_max(mine);
  if (thread() % 32 == 0) atomic_max(job.amax_bits, mine);
}

__device__ inline std::int64_t swizzled_offset(const Job& job, std::int64_t r, std::int64_t b) {
  const std::int64_t atom = (r / 128 * ((job.blocks + 3) / 4) + b / 4) * 512 + r % 32 * 16;
  const std::int64_t i = r % 128 / 32, j = b % 4;
  return atom + (job.mistake == Mistake::Transposed ? j * 4 + i : i * 4 + j);
}

__device__ inline void store_dequantised(const Job& job, std::int64_t i, float x) {
  if (job.dequantised_f32 != nullptr) job.dequantised_f32[i] = x;
  if (job.dequantised == nullptr) return;
  if (!job.bf16) {
    static_cast<float*>(job.dequantised)[i] = x;
    return;
  }
  const std::uint32_t bits = bits_of(x);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  static_cast<std::uint16_t*>(job.dequantised)[i] = static_cast<std::uint16_t>(
      nan ? (bits >> 16 & 0x8000U) | 0x7FC0U : (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

// Block `at` of the tensor, by one thread.
template <class Family>
__global__ void __launch_bounds__(kThreads) blocks(Job job, int threads) {
  const std::int64_t at = std::int64_t{block_x()} * threads + thread();
  if (at >= job.rows * job.blocks) return;
  const std::int64_t r = at / job.blocks, b = at % job.blocks, first = r * job.columns + b * kBlock;
  const std::int64_t rest = job.columns - b * kBlock;
  const int count = static_cast<int>(rest < kBlock ? rest : kBlock);
  const Plan plan = plan_of(job);
  if (at == 0) {
    for (float* amax : job.amax)
      if (amax != nullptr) *amax = plan.amax;
    if (job.tensor_scale != nullptr)
      *job.tensor_scale = encodes(job.chain) ? plan.encode : plan.decode;
  }
  float x[kBlock] = {};
  std::uint32_t amax = 0;
  for (int i = 0; i < count; ++i) {
    x[i] = element(job, first + i);
    const std::uint32_t size = bits_of(x[i]) & 0x7FFFFFFFU;
    amax = size > amax ? size : amax;
  }
  const Scale scale = scale_of(job, plan, float_of(amax));
  job.scales[at] = static_cast<std::uint8_t>(scale.code);
  if (job.encode != nullptr) job.encode[at] = scale.encode;
  if (job.swizzled != nullptr)
    job.swizzled[swizzled_offset(job, r, b)] = static_cast<std::uint8_t>(scale.code);
  const float s = from_e4m3(scale.code);
  const float by = encodes(job.chain) ? multiply(multiply(s, plan.amax), 1.0F / 2688.0F)
                                      : multiply(plan.decode, s);
  for (int i = 0; i < count; i += 2) {
    float low = multiply(x[i], scale.encode), high = multiply(x[i + 1], scale.encode);
    if (job.chain == Chain::TransformerEngine) low = add(low, 0.0F), high = add(high, 0.0F);
    const bool swapped = job.mistake == Mistake::Nibbles;
    const std::uint32_t byte = swapped ? to_e2m1x2(low, high) : to_e2m1x2(high, low);
    job.codes[(first + i) / 2] = static_cast<std::uint8_t>(byte);
    if (job.dequantised == nullptr && job.dequantised_f32 == nullptr) continue;
    from_e2m1x2(byte, high, low);
    store_dequantised(job, first + i, multiply(low, by));
    store_dequantised(job, first + i + 1, multiply(high, by));
  }
}

// ---- on the host

inline Chain chain_of(const Case& c) {
  const std::string chain = c.options.get("chain", "");
  return chain == "nvfp4_te"           ? Chain::TransformerEngine
         : chain == "nvfp4_ao_te"      ? Chain::Torchao
         : chain == "nvfp4_torchao_b1" ? Chain::OneLevel
                                       : Chain::TwoLevel;
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class Kernel>
void launch_over(const Launch& l, std::int64_t threads, std::int64_t most_blocks, Kernel* kernel,
                 const Job& job) {
  const std::int64_t size = threads < kThreads ? ceil_div(threads, 32) * 32 : kThreads;
  const std::int64_t grid = ceil_div(threads, size);
  launch(l,
         {dim3(static_cast<unsigned int>(grid < most_blocks ? grid : most_blocks)),
          static_cast<int>(size)},
         kernel, job, static_cast<int>(size));
}

template <class Family>
void forward(const Launch& l) {
  Mistake mistake = Mistake::None;
  for (const FaultName& f : kFaultNames)
    if (f.id == l.fault) mistake = f.mistake;
  const std::int64_t rows = l.problem.sizes.get("M", 1), columns = l.problem.sizes["K"];
  const Job job{.x = l.in<void>("x"),
                .bf16 = l.problem.dtype == Dtype::BF16,
                .rows = rows,
                .columns = columns,
                .blocks = ceil_div(columns, kBlock),
                .chain = chain_of(l.problem),
                .amax_factor = static_cast<float>(l.problem.options.real("amax_factor", 1)),
                .amax_bits = reinterpret_cast<std::uint32_t*>(l.workspace.data()),
                .codes = l.out<std::uint8_t>("codes"),
                .scales = l.out<std::uint8_t>("scales"),
                .swizzled = l.out<std::uint8_t>("scales_swizzled"),
                .encode = l.out<float>("encode_scale"),
                .amax = {l.out<float>("amax"), l.out<float>("amax_row"), l.out<float>("amax_col")},
                .tensor_scale = l.out<float>("tensor_scale"),
                .dequantised = l.out<void>("dequant"),
                .dequantised_f32 = l.out<float>("dequant_f32"),
                .mistake = mistake};
  fill_bytes(l, job.amax_bits, 0, sizeof(std::uint32_t));
  if (job.chain != Chain::OneLevel)
    launch_over(l, ceil_div(rows * columns, 8), 8 * 148, largest<Family>, job);
  if (job.swizzled != nullptr && mistake != Mistake::Padding)
    fill_bytes(l, job.swizzled, 0,
               static_cast<std::size_t>(ceil_div(rows, 128) * ceil_div(job.blocks, 4) * 512));
  launch_over(l, rows * job.blocks, std::int64_t{1} << 30, blocks<Family>, job);
}

// Straight through.
inline void backward(const Launch& l) {
  auto* gradient = l.out<void>("grads/x");
  if (gradient == nullptr) return;
  copy_on_device(l, gradient, l.in<void>("cotangents/dequant"),
                 bytes_for(l.problem.dtype, l.problem.sizes.get("M", 1) * l.problem.sizes["K"]));
}

inline std::string refuses(const Case& c, const Options& options) {
  constexpr std::string_view kTaken[] = {"chain",   "amax_factor", "swizzle", "stats",
                                         "dequant", "dequant_f32", "ste"};
  constexpr std::string_view kChains[] = {"nvfp4_te", "nvfp4_ao_te", "nvfp4_torchao_b1",
                                          "nvfp4_torchao_b2"};
  const auto has = [](const auto& list, std::string_view word) {
    for (const std::string_view w : list)
      if (w == word) return true;
    return false;
  };
  for (const auto& [name, value] : c.options.map())
    if (!has(kTaken, name)) return "no option '" + name + "' with these conversions";
  const std::string chain = c.options.get("chain", "");
  if (!has(kChains, chain)) return "no chain '" + chain + "' with these conversions";
  return nvfp4::refuses(c, options);
}

template <class Family>
KernelDef kernel_of(std::string_view name, std::string_view what, std::string_view needs) {
  std::vector<FaultDef> faults;
  for (const FaultName& f : kFaultNames) faults.push_back({.id = f.id, .what = f.what});
  return {.op = "quantize",
          .name = name,
          .what = what,
          .needs = needs,
          .contract = {.name = "exact_chain, model only",
                       .dtypes = {Dtype::F32, Dtype::BF16},
                       .fidelity = Fidelity::Twin},
          .refuses = refuses,
          .workspace = [](const Case&, const Options&, Direction) -> std::size_t { return 16; },
          .forward = forward<Family>,
          .backward = backward,
          .faults = std::move(faults)};
}

}  // namespace parity::PARITY_MACHINE::blackwell::quantise
