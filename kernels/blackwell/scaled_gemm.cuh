// What the block-scaled GEMMs of sm_100 and sm_120 share: y_MN = alpha (x w^T scaled, from c),
// NVFP4 (e2m1, an e4m3 scale for 16) or MXFP8 (e4m3 or e5m2, an e8m0 scale for 32).
//
//   x, w     rows of K, 128 bytes of which are one step: 256 e2m1 or 128 fp8. Boxes come by
//            asynchronous copies with the 128-byte swizzle: 16-byte piece i of row r lies at i ^ (r
//            mod 8). An instruction takes 32 bytes of K, k ascending, one chain
//   scales   brought to the 128x4 layout first (workspace), padding zero: 512 bytes hold the scales
//            of 128 rows and 4 blocks, at (r mod 32) 16 + (r / 32) 4 + block
//   tails    rows beyond M and N are zero by the copies and never stored; K is whole instructions
#pragma once

#include "harness/kernel.hpp"
#include "kernels/blackwell/instructions.cuh"

namespace parity::PARITY_MACHINE::blackwell {

// Mistakes that a mutant makes.
enum class Mistake {
  None,
  SwizzlePhase,  // pieces of w are looked for one row further in the swizzle
  TailRows,      // the last, partial tile of rows is dropped
  TailDepth,     // the last, partial step of K is dropped
  ScaleBlock,    // scales of w are taken one block further
  ScaleRows,     // row and quarter swapped in the 128x4 layout
  WaitFull,      // operands are read without waiting for their copies
  WaitEmpty,     // a stage is filled again without waiting for its readers
  WaitDone,      // results are read without waiting for the matrix unit
  Alpha          // alpha is not applied
};

struct FaultName {
  std::string_view id;
  Mistake mistake;
  std::string_view what;
};
inline constexpr FaultName kFaultNames[] = {
    {"P-swizzle-phase", Mistake::SwizzlePhase,
     "pieces of w are looked for one row further in the 128-byte swizzle"},
    {"P-tail-rows", Mistake::TailRows, "the last, partial tile of rows is dropped"},
    {"P-tail-depth", Mistake::TailDepth, "the last, partial step of K is dropped"},
    {"P-gemm-scale-blocks", Mistake::ScaleBlock, "block scales of w are read from the next block"},
    {"P-scale-rows", Mistake::ScaleRows, "row and quarter are swapped in the 128x4 scales"},
    {"P-wait-full", Mistake::WaitFull, "operands are read without waiting for their copies"},
    {"P-wait-empty", Mistake::WaitEmpty, "a stage is filled again while it is still read"},
    {"P-wait-done", Mistake::WaitDone, "the accumulator is read before the matrix unit is done"},
    {"P-gemm-alpha-missing", Mistake::Alpha, "alpha is not applied"},
};

inline std::vector<FaultDef> faults(bool matrix_unit_is_asynchronous) {
  std::vector<FaultDef> list;
  for (const FaultName& f : kFaultNames)
    if (f.mistake != Mistake::WaitDone || matrix_unit_is_asynchronous)
      list.push_back({.id = f.id, .what = f.what});
  return list;
}
inline Mistake mistake_of(std::string_view fault) {
  for (const FaultName& f : kFaultNames)
    if (f.id == fault) return f.mistake;
  return Mistake::None;
}

constexpr int kStepBytes = 128;        // of K
constexpr int kInstructionBytes = 32;  // of K
constexpr int kAtomRows = 128, kAtomBlocks = 4, kAtomBytes = 512;

struct ScaledGemm {
  int M = 0, N = 0;
  int instructions = 0;                    // of one chain
  int atoms = 0;                           // of 128 rows of scales
  const std::uint8_t* scales_x = nullptr;  // 128x4
  const std::uint8_t* scales_w = nullptr;
  const float* c = nullptr;      // M N or null
  const float* alpha = nullptr;  // or null
  void* y = nullptr;             // M N
  bool bf16 = false;             // y is bf16, else f32
  Mistake mistake = Mistake::None;
};

__device__ inline int least(int a, int b) { return a < b ? a : b; }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Steps of K, and instructions of one of them.
__device__ inline int steps_of(const ScaledGemm& p) {
  const int whole = p.instructions / 4;
  return p.mistake == Mistake::TailDepth ? whole : whole + (p.instructions % 4 != 0 ? 1 : 0);
}
__device__ inline int instructions_of(const ScaledGemm& p, int step) {
  return least(4, p.instructions - 4 * step);
}

__device__ inline void store_result(const ScaledGemm& p, int m, int n, float sum) {
  if (m >= p.M || n >= p.N) return;
  if (p.alpha != nullptr && p.mistake != Mistake::Alpha) sum *= *p.alpha;
  const std::size_t at =
      static_cast<std::size_t>(m) * static_cast<std::size_t>(p.N) + static_cast<std::size_t>(n);
  const std::uint32_t bits = bits_of(sum);
  if (!p.bf16) {
    static_cast<std::uint32_t*>(p.y)[at] = bits;  // a NaN keeps its bits
    return;
  }
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  static_cast<std::uint16_t*>(p.y)[at] =
      static_cast<std::uint16_t>(nan ? 0x7FC0U : (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
__device__ inline float start_of(const ScaledGemm& p, int m, int n) {
  return p.c == nullptr || m >= p.M || n >= p.N
             ? 0.0F
             : p.c[static_cast<std::size_t>(m) * static_cast<std::size_t>(p.N) +
                   static_cast<std::size_t>(n)];
}

// Plain scales [rows, blocks] to 128x4: block x of the grid has 128 rows, y 16 atoms; one thread a
// row. Each family of kernels has its own: a kernel is compiled for one architecture.
constexpr int kAtomsOfBlock = 16;
template <class Family>
__global__ void __launch_bounds__(kAtomRows)
    swizzle_scales(const std::uint8_t* plain, int rows, int blocks, std::uint8_t* to,
                   Mistake mistake) {
  const int r = thread(), row = block_x() * kAtomRows + r;
  const int atoms = (blocks + kAtomBlocks - 1) / kAtomBlocks;
  const int first = block_y() * kAtomsOfBlock, last = least(atoms, first + kAtomsOfBlock);
  const int place =
      mistake == Mistake::ScaleRows ? r / 4 * 16 + r % 4 * 4 : r % 32 * 16 + r / 32 * 4;
  for (int block = first * kAtomBlocks; block < last * kAtomBlocks; ++block) {
    const std::size_t atom = static_cast<std::size_t>(block_x()) * static_cast<std::size_t>(atoms) +
                             static_cast<std::size_t>(block / kAtomBlocks);
    to[atom * kAtomBytes + static_cast<std::size_t>(place + block % kAtomBlocks)] =
        row < rows && block < blocks
            ? plain[static_cast<std::size_t>(row) * static_cast<std::size_t>(blocks) +
                    static_cast<std::size_t>(block)]
            : std::uint8_t{0};
  }
}

// ---- on the host

struct Operands {
  std::int64_t M = 0, N = 0, K = 0;
  bool nvfp4 = false;
  [[nodiscard]] std::int64_t row_bytes() const { return nvfp4 ? K / 2 : K; }
  [[nodiscard]] std::int64_t blocks() const { return K / (nvfp4 ? 16 : 32); }
  [[nodiscard]] std::int64_t atoms() const { return ceil_div(blocks(), kAtomBlocks); }
  [[nodiscard]] std::size_t scale_bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(ceil_div(rows, kAtomRows) * atoms() * kAtomBytes);
  }
};

inline Operands operands_of(const Case& c) {
  return {c.sizes["M"], c.sizes["N"], c.sizes["K"], c.options.get("scale", "") == "nvfp4"};
}

inline std::size_t workspace(const Case& c, const Options&, Direction) {
  const Operands o = operands_of(c);
  return o.scale_bytes(o.M) + o.scale_bytes(o.N);
}

// `schedule`: the bits that the kernel promises.
inline std::string refuses(const Case& c, std::string_view schedule, std::string_view scale) {
  const std::string bits = c.options.get("bits", ""), y = c.options.get("out", "f32");
  if (c.options.get("scale", "none") != scale) return "takes scale=" + std::string(scale);
  if (!bits.empty() && bits != schedule) return "answers bits=" + std::string(schedule) + " only";
  if (c.sizes.find("T") != nullptr || c.sizes.find("G") != nullptr) return "one product at a time";
  if (c.sizes["M"] < 1 || c.sizes["N"] < 1) return "an empty product";
  if (c.sizes["K"] < 1 || c.sizes["K"] % (scale == "nvfp4" ? 64 : 32) != 0)
    return "K is no multiple of what one instruction takes";
  if (y != "f32" && y != "bf16") return "writes f32 or bf16";
  if (c.options.flag("c") && y != "f32") return "starts from f32";
  if (c.options.flag("result_scale")) return "has no result_scale";
  const std::string w = c.options.get("w", "");
  return w.empty() || w == "e4m3" || w == "e5m2" ? "" : "w is e4m3 or e5m2";
}

// Scales to 128x4 in the workspace; what the kernel is told.
template <class Family>
ScaledGemm prepare(const Launch& l) {
  const Operands o = operands_of(l.problem);
  ScaledGemm p{.M = static_cast<int>(o.M),
               .N = static_cast<int>(o.N),
               .instructions = static_cast<int>(o.row_bytes() / kInstructionBytes),
               .atoms = static_cast<int>(o.atoms()),
               .c = l.in<float>("c"),
               .alpha = l.in<float>("alpha"),
               .y = l.out<void>("y"),
               .bf16 = l.problem.options.get("out", "f32") == "bf16",
               .mistake = mistake_of(l.fault)};
  auto* at = reinterpret_cast<std::uint8_t*>(l.workspace.data());
  const auto swizzle = [&](const char* name, std::int64_t rows) {
    const std::uint8_t* const to = at;
    launch(l,
           {dim3(static_cast<unsigned int>(ceil_div(rows, kAtomRows)),
                 static_cast<unsigned int>(ceil_div(o.atoms(), kAtomsOfBlock))),
            kAtomRows},
           swizzle_scales<Family>, l.in<std::uint8_t>(name), static_cast<int>(rows),
           static_cast<int>(o.blocks()), at, p.mistake);
    at += o.scale_bytes(rows);
    return to;
  };
  p.scales_x = swizzle("scale_x", o.M);
  p.scales_w = swizzle("scale_w", o.N);
  return p;
}

// One of the two number formats on one machine.
struct Variant {
  std::string_view name, contract;
  bool nvfp4 = false, asynchronous = false;
  std::string (*refuses)(const Case&, const Options&) = nullptr;
  void (*forward)(const Launch&) = nullptr;
};
inline KernelDef kernel_of(const Variant& v, std::string_view what, std::string_view needs) {
  return {.op = "gemm",
          .name = v.name,
          .what = what,
          .needs = needs,
          .contract = {.name = std::string(v.contract),
                       .dtypes = v.nvfp4 ? std::vector{Dtype::E2M1}
                                         : std::vector{Dtype::E4M3, Dtype::E5M2},
                       .accumulate = Dtype::F32,
                       .fidelity = Fidelity::Twin},
          .refuses = v.refuses,
          .workspace = workspace,
          .forward = v.forward,
          .faults = faults(v.asynchronous)};
}

}  // namespace parity::PARITY_MACHINE::blackwell
