// quantize.nvfp4_cuda: NVFP4 quantisation and dequantisation on a GPU, bit for bit that of the
// chains.
// x f32 or bf16, dense, rows of any even length; rows that are multiples of 16 are read 16 bytes at
// a time. First |x| is reduced over the tensor where the chain has a tensor scale (as integers: NaN
// wins, and the order of an atomic maximum does not matter). Then one thread takes one block of 16:
// grid y and its stride are rows, grid x the blocks of a row. Scales go to the plain layout and,
// where it is asked for, to 128x4 in the same pass.
#include <algorithm>
#include <string>

#include "kernels/device/launch.cuh"
#include "kernels/quantize/frame.hpp"
#include "kernels/quantize/nvfp4_block.cuh"

namespace parity::nvfp4::device {
namespace {

using parity::device::fill_bytes;
using parity::device::Grid;
using parity::device::launch;
using parity::device::narrow;
using parity::device::stream_of;
using parity::device::with_storage;

constexpr int kThreads = 256;

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 1;  // in elements
  std::int64_t blocks = 0;                         // of a row
};

struct Results {
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
  float* encode = nullptr;           // or null
  std::uint8_t* swizzled = nullptr;  // or null: 128x4, padding zero already
};

// Results of the tensor, each or null.
struct Scalars {
  float* amax[3] = {};
  float* tensor_scale = nullptr;
};

// Faults of where bytes go; those of arithmetic are Defects.
struct Misplaced {
  bool transposed = false;  // row and column swapped inside the 4x4 of the layout
  bool nibbles = false;     // even element in the high nibble
  bool wave = false;        // the last rows of a tall matrix get no scale
};

__device__ float amax_of(const std::uint32_t* amax_bits, float factor) {
  return __fmul_rn(__uint_as_float(*amax_bits), factor);
}

// The largest |x| as the bits of a float, over n elements.
template <class T>
__global__ void __launch_bounds__(kThreads)
    largest(const T* x, std::int64_t n, bool drops_nan, std::uint32_t* amax_bits) {
  constexpr std::int64_t kVector = 16 / sizeof(T);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::uint32_t mine = 0;
  const auto take = [&](std::uint32_t bits) {
    if (!drops_nan || bits <= 0x7F800000U) mine = max(mine, bits);
  };
  const uint4* vectors = reinterpret_cast<const uint4*>(x);
  std::uint32_t pair = 0;  // bf16: two maxima in one word
#pragma unroll 4
  for (std::int64_t i = first; i < n / kVector; i += stride) {
    const uint4 v = __ldg(vectors + i);
    const std::uint32_t w[4] = {v.x, v.y, v.z, v.w};
    for (int j = 0; j < 4; ++j) {
      if constexpr (sizeof(T) == 4) {
        take(w[j] & 0x7FFFFFFFU);
      } else if (drops_nan) {
        take((w[j] & 0x7FFFU) << 16), take(w[j] & 0x7FFF0000U);
      } else {
        pair = __vmaxu2(pair, w[j] & 0x7FFF7FFFU);
      }
    }
  }
  take((pair & 0xFFFFU) << 16), take(pair & 0xFFFF0000U);
  for (std::int64_t i = n / kVector * kVector + first; i < n; i += stride)
    take(__float_as_uint(widen(x[i])) & 0x7FFFFFFFU);
  __shared__ std::uint32_t warps[kThreads / 32];
  mine = __reduce_max_sync(0xFFFFFFFFU, mine);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  mine = __reduce_max_sync(0xFFFFFFFFU, threadIdx.x < kThreads / 32 ? warps[threadIdx.x] : 0U);
  if (threadIdx.x == 0) atomicMax(amax_bits, mine);
}

// off(r, c) = ((r/128) ceil(C/4) + c/4) 512 + (r%32) 16 + ((r%128)/32) 4 + c%4
__device__ std::int64_t swizzled_offset(std::int64_t r, std::int64_t c, std::int64_t blocks,
                                        bool transposed) {
  const std::int64_t tile = (r / 128 * ((blocks + 3) / 4) + c / 4) * 512 + r % 32 * 16;
  const std::int64_t i = r % 128 / 32, j = c % 4;
  return tile + (transposed ? j * 4 + i : i * 4 + j);
}

// kWhole: every block has 16 elements, and they are neighbours.
template <class T, bool kWhole>
__device__ Block<T> load(const T* x, const Matrix& m, std::int64_t r, std::int64_t b) {
  Block<T> block{};
  if constexpr (kWhole) {
    const uint4* from = reinterpret_cast<const uint4*>(x + (r * m.columns + b * 16));
#pragma unroll
    for (int i = 0; i < Block<T>::kWords / 4; ++i) {
      const uint4 v = __ldg(from + i);
      block.words[4 * i] = v.x, block.words[4 * i + 1] = v.y;
      block.words[4 * i + 2] = v.z, block.words[4 * i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (b * 16 + i < m.columns)
        block.put(i, x[r * m.row_stride + (b * 16 + i) * m.column_stride]);
  }
  return block;
}

template <class T, Family kFamily, bool kWhole, bool kFaulty>
__global__ void __launch_bounds__(kThreads)
    quantise(const T* x, Matrix m, const std::uint32_t* amax_bits, float factor, Results to,
             Scalars scalars, Defect wanted, Misplaced misplaced) {
  const std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (b >= m.blocks) return;
  const Defect defect = kFaulty ? wanted : Defect::None;
  const Plan plan = plan_of<kFamily>(kFamily == Family::OneLevel ? 0 : amax_of(amax_bits, factor));
  if (b == 0 && blockIdx.y == 0) {
    for (float* amax : scalars.amax)
      if (amax != nullptr) *amax = plan.amax;
    if (scalars.tensor_scale != nullptr)
      *scalars.tensor_scale = kEncodes<kFamily> ? plan.encode : plan.decode;
  }
  for (std::int64_t r = blockIdx.y; r < m.rows; r += gridDim.y) {
    const Block<T> block = load<T, kWhole>(x, m, r, b);
    Scale scale = scale_of<kFamily>(plan, block.amax(), defect);
    uint2 codes = {eight_codes<kFamily>(block, 0, scale.encode, defect),
                   eight_codes<kFamily>(block, 8, scale.encode, defect)};
    if constexpr (kFaulty) {
      if (misplaced.nibbles) {
        codes.x = (codes.x & 0x0F0F0F0FU) << 4 | (codes.x >> 4 & 0x0F0F0F0FU);
        codes.y = (codes.y & 0x0F0F0F0FU) << 4 | (codes.y >> 4 & 0x0F0F0F0FU);
      }
      if (misplaced.wave && r >= m.rows / 128 * 128 - 128 && m.rows >= 384) scale.code = 0;
    }
    const std::int64_t at = r * m.blocks + b;
    to.scales[at] = scale.code;
    if (to.encode != nullptr) to.encode[at] = scale.encode;
    if (to.swizzled != nullptr)
      to.swizzled[swizzled_offset(r, b, m.blocks, kFaulty && misplaced.transposed)] = scale.code;
    if constexpr (kWhole) {
      reinterpret_cast<uint2*>(to.codes)[at] = codes;
    } else {
      const std::int64_t bytes = min(std::int64_t{8}, (m.columns - b * 16) / 2);
      std::uint8_t* row = to.codes + r * (m.columns / 2) + b * 8;
      for (std::int64_t i = 0; i < bytes; ++i)
        row[i] = static_cast<std::uint8_t>((i < 4 ? codes.x : codes.y) >> (i % 4 * 8));
    }
  }
}

// One element a thread: chain A code ((s amax) fl(1/2688)), chain B code (decode s).
template <class T, Family kFamily>
__global__ void __launch_bounds__(kThreads)
    dequantise(Matrix m, const std::uint32_t* amax_bits, float factor, const std::uint8_t* codes,
               const std::uint8_t* scales, T* values) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= m.rows * m.columns) return;
  const Plan plan = plan_of<kFamily>(kFamily == Family::OneLevel ? 0 : amax_of(amax_bits, factor));
  const std::int64_t r = i / m.columns, k = i % m.columns;
  const float scale = float_from_e4m3(scales[r * m.blocks + k / 16]);
  const float by = kEncodes<kFamily> ? __fmul_rn(__fmul_rn(scale, plan.amax), 1.0F / 2688.0F)
                                     : __fmul_rn(plan.decode, scale);
  const std::uint32_t code = codes[i / 2] >> (i % 2 * 4) & 15U;
  const std::uint32_t e = code >> 1 & 3U;
  const float size =
      e == 0 ? 0.5F * static_cast<float>(code & 1U)
             : ldexpf(1.0F + 0.5F * static_cast<float>(code & 1U), static_cast<int>(e) - 1);
  narrow(__fmul_rn((code & 8U) != 0 ? -size : size, by), values[i]);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
unsigned int as_extent(std::int64_t n) { return static_cast<unsigned int>(n); }

Family family_of(const Case& c) {
  const std::string chain = c.options.get("chain", "");
  return chain == "nvfp4_te"           ? Family::EncodePositive
         : chain == "nvfp4_ao_te"      ? Family::Encode
         : chain == "nvfp4_torchao_b1" ? Family::OneLevel
                                       : Family::Decode;
}

Defect defect_of(std::string_view fault) {
  return fault == "A-QT05"        ? Defect::ExactScale
         : fault == "A-QT08"      ? Defect::ReciprocalOrder
         : fault == "P-amax-nan"  ? Defect::DropsNan
         : fault == "P-half-away" ? Defect::HalfAway
                                  : Defect::None;
}

// One launch of the kernel: what its parts share.
template <class T, Family kFamily>
class Quantiser {
 public:
  explicit Quantiser(const Launch& l)
      : l_(l),
        defect_(defect_of(l.fault)),
        amax_bits_(reinterpret_cast<std::uint32_t*>(l.workspace.data())),
        factor_(static_cast<float>(l.problem.options.real("amax_factor", 1))) {}

  void run() {
    const std::int64_t rows = l_.problem.sizes.get("M", 1), columns = l_.problem.sizes["K"];
    const T* x = l_.in<T>("x");
    if (kFamily != Family::OneLevel) reduce(x, rows * columns);
    const Matrix m{rows, columns, columns, 1, ceil_div(columns, 16)};
    const Results to{l_.out<std::uint8_t>("codes"), l_.out<std::uint8_t>("scales"),
                     l_.out<float>("encode_scale"), l_.out<std::uint8_t>("scales_swizzled")};
    const std::int64_t padded = ceil_div(rows, 128) * 128 * ceil_div(m.blocks, 4) * 4;
    if (to.swizzled != nullptr && padded != rows * m.blocks && l_.fault != "P-padding")
      fill_bytes(l_, to.swizzled, 0, static_cast<std::size_t>(padded));
    const Scalars scalars{
        {l_.out<float>("amax"), l_.out<float>("amax_row"), l_.out<float>("amax_col")},
        l_.out<float>("tensor_scale")};
    columns % 16 == 0 ? quantise_rows<true>(x, m, to, scalars)
                      : quantise_rows<false>(x, m, to, scalars);
    if (auto* codes_t = l_.out<std::uint8_t>("codes_t"))
      quantise_rows<false>(x, {columns, rows, 1, columns, ceil_div(rows, 16)},
                           {codes_t, l_.out<std::uint8_t>("scales_t"), nullptr, nullptr}, {});
    dequantise_to(m, to, l_.out<T>("dequant"));
    dequantise_to(m, to, l_.out<float>("dequant_f32"));
  }

 private:
  void reduce(const T* x, std::int64_t n) {
    fill_bytes(l_, amax_bits_, 0, sizeof(std::uint32_t));
    if (l_.fault == "P-amax-tail") n = n / 128 * 128;
    const std::int64_t blocks = std::clamp<std::int64_t>(ceil_div(n, kThreads * 32), 1, 8 * 132);
    launch(l_, {as_extent(blocks), kThreads}, largest<T>, x, n, defect_ == Defect::DropsNan,
           amax_bits_);
  }

  template <bool kWhole>
  void quantise_rows(const T* x, const Matrix& m, const Results& to, const Scalars& scalars) {
    const std::int64_t threads =
        std::clamp<std::int64_t>(ceil_div(m.blocks, 32) * 32, 32, kThreads);
    const Grid grid{dim3(as_extent(ceil_div(m.blocks, threads)),
                         as_extent(std::min<std::int64_t>(m.rows, 65535))),
                    as_extent(threads)};
    const Misplaced misplaced{.transposed = l_.fault == "P-swizzle-transposed",
                              .nibbles = l_.fault == "P-nibbles",
                              .wave = l_.fault == "A-QT07"};
    const auto kernel =
        l_.fault.empty() ? quantise<T, kFamily, kWhole, false> : quantise<T, kFamily, kWhole, true>;
    launch(l_, grid, kernel, x, m, amax_bits_, factor_, to, scalars, defect_, misplaced);
  }

  template <class V>
  void dequantise_to(const Matrix& m, const Results& from, V* values) {
    if (values == nullptr) return;
    const std::int64_t blocks = ceil_div(m.rows * m.columns, kThreads);
    launch(l_, {as_extent(blocks), kThreads}, dequantise<V, kFamily>, m, amax_bits_, factor_,
           from.codes, from.scales, values);
  }

  const Launch& l_;
  Defect defect_;
  std::uint32_t* amax_bits_;
  float factor_;
};

void forward_on_device(const Launch& l) {
  with_storage(l.problem.dtype, [&]<class T>(T) {
    switch (family_of(l.problem)) {
      case Family::EncodePositive:
        return Quantiser<T, Family::EncodePositive>(l).run();
      case Family::Encode:
        return Quantiser<T, Family::Encode>(l).run();
      case Family::Decode:
        return Quantiser<T, Family::Decode>(l).run();
      case Family::OneLevel:
        return Quantiser<T, Family::OneLevel>(l).run();
    }
  });
}

// Straight through.
void backward_on_device(const Launch& l) {
  const Case& c = l.problem;
  auto* gradient = l.out<std::byte>("grads/x");
  if (gradient == nullptr) return;
  const std::size_t bytes = bytes_for(c.dtype, c.sizes.get("M", 1) * c.sizes["K"]);
  parity::device::check(cudaMemcpyAsync(gradient, l.in<std::byte>("cotangents/dequant"), bytes,
                                        cudaMemcpyDeviceToDevice, stream_of(l)),
                        "copy of the gradient");
}

// What the CPU kernels take beyond plain blocks of 1x16: tiles, transforms, an amax a row, choices.
std::string refuses_on_device(const Case& c, const Options& options) {
  constexpr std::string_view kTaken[] = {"chain",   "amax_factor", "swizzle", "stats",
                                         "dequant", "dequant_f32", "ste",     "transpose"};
  for (const auto& [name, value] : c.options.map())
    if (std::find(std::begin(kTaken), std::end(kTaken), name) == std::end(kTaken))
      return "no option '" + name + "' on the device";
  const std::string chain = c.options.get("chain", "");
  if (chain == "nvfp4_te_4over6") return "no chain '" + chain + "' on the device";
  if (c.options.flag("transpose") && chain != "nvfp4_te")
    return "a transposed copy in Transformer Engine's form only";
  return refuses(c, options);
}

const Register kernel{KernelDef{
    .op = "quantize",
    .name = "quantize.nvfp4_cuda",
    .what = "chains A and B, one block a thread; amax by an atomic maximum",
    .needs = "sm_90+",
    .contract = {.name = "exact_chain",
                 .dtypes = {Dtype::F32, Dtype::BF16},
                 .fidelity = Fidelity::Twin},
    .refuses = refuses_on_device,
    .workspace = [](const Case&, const Options&, Direction) -> std::size_t { return 16; },
    .forward = forward_on_device,
    .backward = backward_on_device,
    .faults = {{"A-QT05", "",
                "encode factor from the exact block scale, stored beside its e4m3 rounding"},
               {"A-QT07", "", "scales of the last rows all zero in a matrix of 384 rows or more"},
               {"A-QT08", "", "the two divisions of the encode factor in the other order"},
               {"P-swizzle-transposed", "", "row and column swapped inside the 4x4 of the layout"},
               {"P-padding", "", "padding of the scales never written (vLLM #45741)"},
               {"P-nibbles", "", "even element in the high nibble (sglang #23625)"},
               {"P-amax-tail", "",
                "what follows the last 128 elements does not enter the tensor's amax"},
               {"P-amax-nan", "", "the tensor's maximum drops a NaN"},
               {"P-half-away", "", "ties of a code away from zero"}},
}};

}  // namespace
}  // namespace parity::nvfp4::device
