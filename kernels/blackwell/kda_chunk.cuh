// Kimi Delta Attention in chunks of 16 on Blackwell's warp-level matrix units (mma.sync m16n8k16),
// bf16 in and out, forward.
//
//   accumulate  f32; the state stays in shared memory and in f32
//   rounding    bf16: q and k times their decays, the state as an operand, the scores of q. v' is
//               multiplied in three parts, without loss
//   decays      exp(g) once a token, then products of neighbours: no anchor, any gate
//   grid        one thread block for each sequence and value head, its chunks one after another
//   products    e = v - (k P) S and q P S, the scores times v', and S = P_last S + (k P_to_end)^T
//   v'.
//               Scores themselves and the triangular system are f32, one pair or column a thread
#pragma once

#include <cmath>

#include "harness/kernel.hpp"
#include "kernels/blackwell/instructions.cuh"
#include "kernels/kda/gates.cuh"
#include "kernels/kda/problem.hpp"

namespace parity::PARITY_MACHINE::blackwell::kda {

using kda_kernel::GateKind;

constexpr int kChunk = 16, kThreads = 128, kWarps = kThreads / 32;
constexpr int kMost = 128;  // channels and columns

enum class Mistake : std::uint8_t {
  None,
  UnscaledReads,
  StateBeforeTail,
  NarrowState,
  TruncatedOutput,
  ColumnBeta,
  StrictMask,
  MissingSync
};
struct FaultName {
  std::string_view id;
  Mistake mistake;
  std::string_view what;
};
inline constexpr FaultName kFaultNames[] = {
    {"P-K5", Mistake::UnscaledReads, "what the output reads from the state lacks the factor on q"},
    {"F-37", Mistake::StateBeforeTail, "the final state is written before the last, partial chunk"},
    {"P-K10", Mistake::NarrowState, "the carried state is rounded to bf16"},
    {"P-K11", Mistake::TruncatedOutput, "o is truncated to bf16, not rounded"},
    {"P-K4", Mistake::ColumnBeta, "the triangular system takes beta of its column, not of its row"},
    {"P-B2", Mistake::StrictMask, "the causal mask is strict: a token does not see itself"},
    {"P-race", Mistake::MissingSync, "no barrier between v' and its readers in other warps"}};

struct Job {
  std::int64_t length = 0;  // of a sequence, where cu is null
  int H = 1, HV = 1, K = 1, V = 1;
  GateKind gate = GateKind::Given;
  bool l2norm = false, sigmoid = false, v_first = false;
  float lower = 0, beta_factor = 1, scale = 1;
  const std::uint16_t *q = nullptr, *k = nullptr, *v = nullptr, *beta = nullptr;
  const void* gate_in = nullptr;  // f32 where given, else bf16
  const float *A_log = nullptr, *bias = nullptr, *h0 = nullptr;
  const std::int64_t* cu = nullptr;
  std::uint16_t* o = nullptr;
  float *final_state = nullptr, *g_tap = nullptr, *beta_tap = nullptr;
  Mistake mistake = Mistake::None;

  // Padded to whole fragments.
  __device__ int channels() const { return (K + 15) / 16 * 16; }
  __device__ int columns() const { return (V + 7) / 8 * 8; }
};

// Shared memory of a block, in floats but for the operands: rows of kMost (+ 2) elements.
struct Shared {
  float q[kChunk][kMost], k[kChunk][kMost], decay[kChunk][kMost];
  float scores_q[kChunk][kChunk], scores_k[kChunk][kChunk];
  float u[kChunk][kMost];
  float beta[kChunk], decay_of_chunk[kMost];
  float state[kMost][kMost];  // [channel][column]
  // Operands: q and k times the decay from the chunk's start, k times that to its end.
  std::uint16_t of_q[kChunk][kMost + 8], of_k[kChunk][kMost + 8], to_end[kChunk][kMost + 8];
};

__device__ inline float widened(std::uint16_t x) {
  return float_of(static_cast<std::uint32_t>(x) << 16);
}
__device__ inline std::uint32_t bf16_of(float x) {
  const std::uint32_t bits = bits_of(x);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return nan ? 0x7FC0U : (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
}
__device__ inline float rounded(float x) { return float_of(bf16_of(x) << 16); }
__device__ inline std::uint32_t pair_of(float low, float high) {
  return bf16_of(low) | bf16_of(high) << 16;
}
__device__ inline std::uint32_t pair_at(const std::uint16_t* p) {
  return p[0] | static_cast<std::uint32_t>(p[1]) << 16;
}

// Rows [0, n) of the chunk that begins at `token`; one thread for each row of q and of k.
__device__ inline void load(const Job& job, Shared& s, std::int64_t token, int n, int hv) {
  for (int i = thread(); i < 2 * n; i += kThreads) {
    const int row = i / 2;
    const bool keys = i % 2 != 0;
    const std::int64_t at = ((token + row) * job.H + hv / (job.HV / job.H)) * job.K;
    float(&to)[kMost] = keys ? s.k[row] : s.q[row];
    float sum = 0;
    for (int d = 0; d < job.K; ++d) {
      to[d] = widened((keys ? job.k : job.q)[at + d]);
      sum += to[d] * to[d];
    }
    if (!job.l2norm) continue;
    const float by = 1 / sqrtf(sum + 1e-6F);
    for (int d = 0; d < job.K; ++d) to[d] *= by;
  }
  for (int i = thread(); i < n * job.K; i += kThreads) {
    const int row = i / job.K, d = i % job.K;
    const std::int64_t at = ((token + row) * job.HV + hv) * job.K + d;
    float z = job.gate == GateKind::Given
                  ? static_cast<const float*>(job.gate_in)[at]
                  : widened(static_cast<const std::uint16_t*>(job.gate_in)[at]);
    if (job.bias != nullptr) z += job.bias[hv * job.K + d];
    const float coefficient = job.A_log != nullptr ? kda_kernel::exp_of(job.A_log[hv]) : 1.0F;
    const float g = kda_kernel::gate_of(job.gate, job.lower, coefficient, z);
    if (job.g_tap != nullptr) job.g_tap[at] = g;
    s.decay[row][d] = kda_kernel::exp_of(g);
  }
  for (int row = thread(); row < n; row += kThreads) {
    const std::int64_t at = (token + row) * job.HV + hv;
    const float x = widened(job.beta[at]);
    s.beta[row] = job.sigmoid ? job.beta_factor * kda_kernel::sigmoid(x) : x;
    if (job.beta_tap != nullptr) job.beta_tap[at] = s.beta[row];
  }
}

// Operands with the products of decays; rows and channels beyond the ends are zero.
__device__ inline void decay_operands(const Job& job, Shared& s, int n) {
  for (int d = thread(); d < job.channels(); d += kThreads) {
    float from_start = 1, to_end = 1;
    for (int i = 0; i < kChunk; ++i) {
      const bool there = i < n && d < job.K;
      if (there) from_start *= s.decay[i][d];
      s.of_q[i][d] = static_cast<std::uint16_t>(there ? bf16_of(s.q[i][d] * from_start) : 0U);
      s.of_k[i][d] = static_cast<std::uint16_t>(there ? bf16_of(s.k[i][d] * from_start) : 0U);
    }
    s.decay_of_chunk[d] = from_start;
    for (int i = kChunk - 1; i >= 0; --i) {
      const bool there = i < n && d < job.K;
      s.to_end[i][d] = static_cast<std::uint16_t>(there ? bf16_of(s.k[i][d] * to_end) : 0U);
      if (there) to_end *= s.decay[i][d];
    }
  }
}

// scores_q[i,j] = scale sum_d q_i k_j decay(j,i), j <= i; scores_k[i,j] the same of beta_i k_i,
// j < i. One pair a thread.
__device__ inline void score(const Job& job, Shared& s, int n) {
  for (int pair = thread(); pair < kChunk * kChunk; pair += kThreads) {
    const int i = pair / kChunk, j = pair % kChunk;
    float of_q = 0, of_k = 0;
    for (int d = 0; d < job.K && j <= i && i < n; ++d) {
      float decayed = s.k[j][d];
      for (int m = j + 1; m <= i; ++m) decayed *= s.decay[m][d];
      of_q += s.q[i][d] * decayed;
      of_k += s.k[i][d] * decayed;
    }
    const bool masked = i == j && job.mistake == Mistake::StrictMask;
    s.scores_q[i][j] = masked ? 0.0F : rounded(job.scale * of_q);
    s.scores_k[i][j] =
        i == j || i >= n ? 0.0F : of_k * s.beta[job.mistake == Mistake::ColumnBeta ? j : i];
  }
}

// Fragments: a of 16 rows and 16 channels from `channel` on; b of as many channels and 8 columns.
__device__ inline void rows_of(std::uint32_t (&a)[4],
                               const std::uint16_t (&from)[kChunk][kMost + 8], int channel) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int r = 0; r < 4; ++r) a[r] = pair_at(&from[g + 8 * (r % 2)][channel + 2 * t + 8 * (r / 2)]);
}
__device__ inline void state_of(std::uint32_t (&b)[2], const Shared& s, int channel, int column) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int r = 0; r < 2; ++r) {
    const int d = channel + 2 * t + 8 * r;
    b[r] = pair_of(s.state[d][column + g], s.state[d + 1][column + g]);
  }
}
// v' in three parts that bf16 can hold, the least first: together they are exact, as where the last
// token is all that is left of a state.
constexpr int kParts = 3;
__device__ inline void values_of(std::uint32_t (&parts)[kParts][2], const Shared& s, int column) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int r = 0; r < 2; ++r) {
    float x = s.u[2 * t + 8 * r][column + g], y = s.u[2 * t + 8 * r + 1][column + g];
    for (int part = kParts - 1; part >= 0; --part) {
      parts[part][r] = pair_of(x, y);
      x -= rounded(x), y -= rounded(y);
    }
  }
}

// Columns of the state read: beta (v - k S) to u, q S to `reads`.
constexpr int kTiles = kMost / 8 / kWarps;  // of 8 columns, of one warp
__device__ inline void read_state(const Job& job, Shared& s, float (&reads)[kTiles][4],
                                  std::int64_t token, int n, int hv) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int tile = 0; tile < kTiles; ++tile) {
    const int column = 8 * (thread() / 32 + kWarps * tile);
    if (column >= job.columns()) break;
    float predicted[4] = {};
    for (int r = 0; r < 4; ++r) reads[tile][r] = 0;
    for (int channel = 0; channel < job.channels(); channel += 16) {
      std::uint32_t a[4], b[2];
      state_of(b, s, channel, column);
      rows_of(a, s.of_k, channel);
      mma_bf16(predicted, a, b);
      rows_of(a, s.of_q, channel);
      mma_bf16(reads[tile], a, b);
    }
    for (int r = 0; r < 4; ++r) {
      const int i = g + 8 * (r / 2), v = column + 2 * t + r % 2;
      const bool there = i < n && v < job.V;
      const float value =
          there ? widened(job.v[((token + i) * job.HV + hv) * job.V + v]) - predicted[r] : 0.0F;
      s.u[i][v] = there ? value * s.beta[i] : 0.0F;
    }
  }
}

// v' of the triangular system, one column a thread, row after row.
__device__ inline void solve(const Job& job, Shared& s, int n) {
  for (int v = thread(); v < job.V; v += kThreads) {
    for (int i = 1; i < n; ++i) {
      float u = s.u[i][v];
      for (int j = 0; j < i; ++j) u -= s.scores_k[i][j] * s.u[j][v];
      s.u[i][v] = u;
    }
  }
}

__device__ inline void write_outputs(const Job& job, Shared& s, float (&reads)[kTiles][4],
                                     std::int64_t token, int n, int hv) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  std::uint32_t a[4], parts[kParts][2];
  for (int r = 0; r < 4; ++r) {
    const int i = g + 8 * (r % 2), j = 2 * t + 8 * (r / 2);
    a[r] = pair_of(s.scores_q[i][j], s.scores_q[i][j + 1]);
  }
  for (int tile = 0; tile < kTiles; ++tile) {
    const int column = 8 * (thread() / 32 + kWarps * tile);
    if (column >= job.columns()) break;
    float inside[4] = {};
    values_of(parts, s, column);
    for (const auto& b : parts) mma_bf16(inside, a, b);
    for (int r = 0; r < 4; ++r) {
      const int i = g + 8 * (r / 2), v = column + 2 * t + r % 2;
      if (i >= n || v >= job.V) continue;
      const float factor = job.mistake == Mistake::UnscaledReads ? 1.0F : job.scale;
      const float o = reads[tile][r] * factor + inside[r];
      job.o[((token + i) * job.HV + hv) * job.V + v] = static_cast<std::uint16_t>(
          job.mistake == Mistake::TruncatedOutput ? bits_of(o) >> 16 : bf16_of(o));
    }
  }
}

// S = P_last S + (k P_to_end)^T v', 16 channels and 8 columns at a time.
__device__ inline void update_state(const Job& job, Shared& s) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int tile = 0; tile < kTiles; ++tile) {
    const int column = 8 * (thread() / 32 + kWarps * tile);
    if (column >= job.columns()) break;
    std::uint32_t parts[kParts][2];
    values_of(parts, s, column);
    for (int channel = 0; channel < job.channels(); channel += 16) {
      std::uint32_t a[4];
      for (int r = 0; r < 4; ++r) {  // rows are channels, columns tokens
        const int d = channel + g + 8 * (r % 2), i = 2 * t + 8 * (r / 2);
        a[r] = s.to_end[i][d] | static_cast<std::uint32_t>(s.to_end[i + 1][d]) << 16;
      }
      float d_state[4];
      for (int r = 0; r < 4; ++r) {
        const int d = channel + g + 8 * (r / 2);
        d_state[r] = s.decay_of_chunk[d] * s.state[d][column + 2 * t + r % 2];
      }
      for (const auto& b : parts) mma_bf16(d_state, a, b);
      for (int r = 0; r < 4; ++r)
        s.state[channel + g + 8 * (r / 2)][column + 2 * t + r % 2] =
            job.mistake == Mistake::NarrowState ? rounded(d_state[r]) : d_state[r];
    }
  }
}

__device__ inline void store_state(const Job& job, const Shared& s, float* to) {
  if (to == nullptr) return;
  for (int i = thread(); i < job.K * job.V; i += kThreads) {
    const int d = i / job.V, v = i % job.V;
    to[job.v_first ? v * job.K + d : i] = s.state[d][v];
  }
}

template <class Family>
__global__ void __launch_bounds__(kThreads) chunks(Job job) {
  Shared& s = *reinterpret_cast<Shared*>(shared_memory());
  const int n = block_x(), hv = block_y();
  const std::int64_t first = job.cu != nullptr ? job.cu[n] : n * job.length;
  const std::int64_t length = job.cu != nullptr ? job.cu[n + 1] - first : job.length;
  const std::int64_t state_at = (std::int64_t{n} * job.HV + hv) * job.K * job.V;
  for (int i = thread(); i < job.channels() * job.columns(); i += kThreads) {
    const int d = i / job.columns(), v = i % job.columns();
    const bool there = job.h0 != nullptr && d < job.K && v < job.V;
    s.state[d][v] = there ? job.h0[state_at + (job.v_first ? v * job.K + d : d * job.V + v)] : 0.0F;
  }
  float* final_state = job.final_state != nullptr ? job.final_state + state_at : nullptr;
  const bool before_tail = job.mistake == Mistake::StateBeforeTail;
  for (std::int64_t done = 0; done < length; done += kChunk) {
    const int rows = static_cast<int>(length - done < kChunk ? length - done : kChunk);
    float reads[kTiles][4];
    sync_threads();
    if (before_tail && rows < kChunk) store_state(job, s, final_state);
    load(job, s, first + done, rows, hv);
    sync_threads();
    decay_operands(job, s, rows);
    score(job, s, rows);
    sync_threads();
    read_state(job, s, reads, first + done, rows, hv);
    if (job.mistake != Mistake::MissingSync) sync_threads();
    solve(job, s, rows);
    if (job.mistake != Mistake::MissingSync) sync_threads();
    write_outputs(job, s, reads, first + done, rows, hv);
    update_state(job, s);
  }
  sync_threads();
  if (!before_tail || length % kChunk == 0) store_state(job, s, final_state);
}

// ---- on the host

template <class V>
void clear_unused(const Launch& l, V* tensor, const kda_kernel::Shape& s, std::int64_t row) {
  const auto unused = static_cast<std::size_t>(s.tokens() - s.used_tokens());
  if (tensor != nullptr && unused > 0)
    fill_bytes(l, tensor + s.used_tokens() * row, 0,
               unused * static_cast<std::size_t>(row) * sizeof(V));
}

template <class Family>
void forward(const Launch& l) {
  const kda_kernel::Shape s = kda_kernel::shape_of(l.problem, l.options, kChunk);
  Mistake mistake = Mistake::None;
  for (const FaultName& f : kFaultNames)
    if (f.id == l.fault) mistake = f.mistake;
  const bool raw = s.gate != GateKind::Given;
  const Job job{.length = s.T,
                .H = static_cast<int>(s.H),
                .HV = static_cast<int>(s.HV),
                .K = static_cast<int>(s.K),
                .V = static_cast<int>(s.V),
                .gate = s.gate,
                .l2norm = s.l2norm,
                .sigmoid = s.sigmoid,
                .v_first = s.v_first,
                .lower = s.lower,
                .beta_factor = s.beta_factor,
                .scale = s.scale,
                .q = l.in<std::uint16_t>("q"),
                .k = l.in<std::uint16_t>("k"),
                .v = l.in<std::uint16_t>("v"),
                .beta = l.in<std::uint16_t>(s.sigmoid ? "beta_logit" : "beta"),
                .gate_in = l.in<void>(raw ? "g_raw" : "g"),
                .A_log = s.has_A ? l.in<float>("A_log") : nullptr,
                .bias = s.has_bias ? l.in<float>("dt_bias") : nullptr,
                .h0 = l.in<float>("initial_state"),
                .cu = l.in<std::int64_t>("cu_seqlens"),
                .o = l.out<std::uint16_t>("o"),
                .final_state = l.out<float>("final_state"),
                .g_tap = raw ? l.out<float>("g") : nullptr,
                .beta_tap = s.sigmoid ? l.out<float>("beta") : nullptr,
                .mistake = mistake};
  reserve_shared(chunks<Family>, sizeof(Shared));
  if (s.N > 0)
    launch(l,
           {dim3(static_cast<unsigned int>(s.N), static_cast<unsigned int>(s.HV)), kThreads,
            sizeof(Shared)},
           chunks<Family>, job);
  clear_unused(l, job.o, s, s.HV * s.V);
  clear_unused(l, job.g_tap, s, s.HV * s.K);
  clear_unused(l, job.beta_tap, s, s.HV);
}

inline std::string refuses(const Case& c, const Options& options) {
  Options chunked = options;
  chunked.set("chunk", std::to_string(kChunk));
  if (std::string why = kda_kernel::refuses(c, chunked); !why.empty()) return why;
  const kda_kernel::Shape s = kda_kernel::shape_of(c, options, kChunk);
  if (s.K > kMost || s.V > kMost) return "K and V are at most 128";
  return s.headwise ? "a beta per column has a system per column" : "";
}

template <class Family>
KernelDef kernel_of(std::string_view name, std::string_view what, std::string_view needs) {
  Contract contract{.name = "mma_bf16, model only",
                    .dtypes = {Dtype::BF16},
                    .accumulate = Dtype::F32,
                    .chunk = kChunk,
                    .fidelity = Fidelity::Partial,
                    .invariant = {"batch", "causal"}};
  for (const char* where : {"aqk", "kbg", "kg", "qg", "h"})
    contract.roundings.push_back({.where = where, .to = Dtype::BF16});
  std::vector<FaultDef> faults;
  for (const FaultName& f : kFaultNames) faults.push_back({.id = f.id, .what = f.what});
  return {.op = "kda",
          .name = name,
          .what = what,
          .needs = needs,
          .contract = std::move(contract),
          .refuses = refuses,
          .forward = forward<Family>,
          .faults = std::move(faults)};
}

}  // namespace parity::PARITY_MACHINE::blackwell::kda
