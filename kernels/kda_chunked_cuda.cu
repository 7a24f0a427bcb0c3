// Kimi Delta Attention in chunks of 32 on a GPU, f32 and bf16, forward.
//
//   accumulate  f32 everywhere; the state stays in shared memory and in f32
//   rounding    none but that of the output
//   decays      exp(g_t) once a token, to an ulp, then products of neighbours; no cumulative gate
//   grid        one thread block for each sequence and value head, its chunks one after another
//   block       scores: one warp for each earlier token, lanes over channels. Everything else: one
//               thread for each column of v, in token and channel order, so that a column depends
//               on no other and a prefix on nothing that follows it
// The algorithm is that of kernels/kda/forward.cpp: e = v - (k P) S by column, u solved row by row,
// o = (q P) S + A u, S = diag(P_last) S + (k P_to_end)^T u.
#include <algorithm>
#include <string>

#include "kernels/device/launch.cuh"
#include "kernels/device/storage.cuh"
#include "kernels/kda/gates.cuh"
#include "kernels/kda/unused.cuh"

namespace parity::kda_kernel {
namespace {

using device::narrow;
using device::widen;

constexpr int kChunk = 32;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr std::size_t kMostShared = 227 * 1024;  // bytes that a thread block of sm_90 can have

// What the device needs to know; tensors as problem.hpp describes them, T the stored type.
template <class T>
struct Job {
  std::int64_t tokens, length;  // of the batch; of a sequence, where cu is null
  std::int64_t H, HV, K, V;
  GateKind gate;
  bool l2norm, sigmoid, headwise, v_first;
  float lower, beta_factor, scale;
  const T *q, *k, *v, *beta;
  const void* gate_in;  // f32 where given, else T
  const float *A_log, *bias, *h0;
  const std::int64_t* cu;
  T* o;
  float *final_state, *g_tap, *beta_tap;
  bool unscaled_state_term, state_before_tail, truncates, keeps_bf16;  // faults
};

struct Chunk {
  float *q, *k, *a, *P,
      *S;  // kChunk x K: queries, keys, decays, their products from the start and to the end
  float *scores_q, *scores_k;  // kChunk x kChunk
  float* u;                    // kChunk x V
  float* state;                // K x V
  float* beta;                 // kChunk
};

std::size_t shared_floats(std::int64_t K, std::int64_t V) {
  return static_cast<std::size_t>(5 * kChunk * K + 2 * kChunk * kChunk + kChunk * V + K * V +
                                  kChunk);
}

template <class T>
__device__ Chunk chunk_in(float* shared, const Job<T>& p) {
  Chunk c{};
  const auto take = [&](std::int64_t floats) {
    float* at = shared;
    shared += floats;
    return at;
  };
  c.q = take(kChunk * p.K), c.k = take(kChunk * p.K), c.a = take(kChunk * p.K);
  c.P = take(kChunk * p.K), c.S = take(kChunk * p.K);
  c.scores_q = take(kChunk * kChunk), c.scores_k = take(kChunk * kChunk);
  c.u = take(kChunk * p.V), c.state = take(p.K * p.V), c.beta = take(kChunk);
  return c;
}

__device__ float warp_sum(float mine) {
  for (int apart = 16; apart > 0; apart /= 2) mine += __shfl_xor_sync(0xFFFFFFFFU, mine, apart);
  return mine;
}

template <class T>
__device__ float gate_at(const Job<T>& p, float x, std::int64_t hv, std::int64_t d) {
  if (p.gate == GateKind::Given) return x;
  const float coefficient = p.A_log ? exp_of(p.A_log[hv]) : 1.0F;
  return gate_of(p.gate, p.lower, coefficient, p.bias ? x + p.bias[hv * p.K + d] : x);
}

// Rows [0, n) of the chunk that begins at `token`: queries and keys, decays, beta.
template <class T>
__device__ void load(const Job<T>& p, const Chunk& c, std::int64_t token, int n, std::int64_t hv) {
  const std::int64_t head = hv / (p.HV / p.H);
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x / 32; i < n; i += kWarps) {
    const std::int64_t row = ((token + i) * p.H + head) * p.K;
    const std::int64_t gates = ((token + i) * p.HV + hv) * p.K;
    float sum_q = 0, sum_k = 0;
    for (std::int64_t d = lane; d < p.K; d += 32) {
      const float q = widen(p.q[row + d]), k = widen(p.k[row + d]);
      c.q[i * p.K + d] = q, c.k[i * p.K + d] = k;
      sum_q += q * q, sum_k += k * k;
      const float raw = p.gate == GateKind::Given
                            ? static_cast<const float*>(p.gate_in)[gates + d]
                            : widen(static_cast<const T*>(p.gate_in)[gates + d]);
      const float g = gate_at(p, raw, hv, d);
      if (p.g_tap) p.g_tap[gates + d] = g;
      c.a[i * p.K + d] = exp_of(g);
    }
    const float of_q = p.l2norm ? 1 / sqrtf(warp_sum(sum_q) + 1e-6F) : 1.0F;
    const float of_k = p.l2norm ? 1 / sqrtf(warp_sum(sum_k) + 1e-6F) : 1.0F;
    for (std::int64_t d = lane; d < p.K; d += 32) {
      c.q[i * p.K + d] = c.q[i * p.K + d] * of_q * p.scale;
      c.k[i * p.K + d] *= of_k;
    }
  }
  if (p.headwise) return;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const std::int64_t at = (token + i) * p.HV + hv;
    const float x = widen(p.beta[at]);
    c.beta[i] = p.sigmoid ? p.beta_factor * sigmoid(x) : x;
    if (p.beta_tap) p.beta_tap[at] = c.beta[i];
  }
}

template <class T>
__device__ void decay_products(const Job<T>& p, const Chunk& c, int n) {
  for (std::int64_t d = threadIdx.x; d < p.K; d += kThreads) {
    float from_start = 1, to_end = 1;
    for (int i = 0; i < n; ++i) c.P[i * p.K + d] = from_start *= c.a[i * p.K + d];
    for (int i = n - 1; i >= 0; --i) {
      c.S[i * p.K + d] = to_end;
      to_end *= c.a[i * p.K + d];
    }
  }
}

// scores_q[i,j] = sum_d q_i k_j decay(j,i), j <= i;  scores_k the same of k_i, j < i. The products
// of decays of a lane's channels, times k_j, are carried from i to i + 1.
template <class T>
__device__ void score(const Job<T>& p, const Chunk& c, int n) {
  constexpr int kMost = 8;  // channels of a lane: K <= 256
  const int lane = threadIdx.x % 32;
  for (int j = threadIdx.x / 32; j < n; j += kWarps) {
    float carried[kMost];
#pragma unroll
    for (int m = 0; m < kMost; ++m)
      carried[m] = lane + 32 * m < p.K ? c.k[j * p.K + lane + 32 * m] : 0.0F;
    for (int i = j; i < n; ++i) {
      float of_q = 0, of_k = 0;
#pragma unroll
      for (int m = 0; m < kMost; ++m) {
        const std::int64_t d = lane + 32 * m;
        if (d >= p.K) continue;
        if (i > j) carried[m] *= c.a[i * p.K + d];
        of_q += c.q[i * p.K + d] * carried[m];
        of_k += c.k[i * p.K + d] * carried[m];
      }
      of_q = warp_sum(of_q), of_k = warp_sum(of_k);
      if (lane == 0) c.scores_q[i * kChunk + j] = of_q, c.scores_k[i * kChunk + j] = of_k;
    }
  }
}

template <class T>
__device__ void store(float x, bool truncates, T& to) {
  narrow(truncates ? __uint_as_float(__float_as_uint(x) & 0xFFFF0000U) : x, to);
}

// Column v of the chunk: errors, outputs, the state after it.
template <class T>
__device__ void column(const Job<T>& p, const Chunk& c, std::int64_t token, int n, std::int64_t hv,
                       std::int64_t v) {
  for (int i = 0; i < n; ++i) {
    float predicted = 0, o = 0;
    for (std::int64_t d = 0; d < p.K; ++d) {
      const float s = c.state[d * p.V + v], decay = c.P[i * p.K + d];
      predicted += c.k[i * p.K + d] * decay * s;
      o += c.q[i * p.K + d] * decay * s;
    }
    if (p.unscaled_state_term) o /= p.scale;
    const std::int64_t at = ((token + i) * p.HV + hv) * p.V + v;
    float e = widen(p.v[at]) - predicted;
    for (int j = 0; j < i; ++j) {
      e -= c.scores_k[i * kChunk + j] * c.u[j * p.V + v];
      o += c.scores_q[i * kChunk + j] * c.u[j * p.V + v];
    }
    const float u = (p.headwise ? widen(p.beta[at]) : c.beta[i]) * e;
    c.u[i * p.V + v] = u;
    store(o + c.scores_q[i * kChunk + i] * u, p.truncates, p.o[at]);
  }
  for (std::int64_t d = 0; d < p.K; ++d) {
    float s = c.P[(n - 1) * p.K + d] * c.state[d * p.V + v];
    for (int j = 0; j < n; ++j) s += c.k[j * p.K + d] * c.S[j * p.K + d] * c.u[j * p.V + v];
    if (p.keeps_bf16) s = __uint_as_float((__float_as_uint(s) + 0x8000U) & 0xFFFF0000U);
    c.state[d * p.V + v] = s;
  }
}

template <class T>
__device__ void store_state(const Job<T>& p, const Chunk& c, float* to) {
  if (to == nullptr) return;
  for (std::int64_t i = threadIdx.x; i < p.K * p.V; i += kThreads) {
    const std::int64_t d = i / p.V, v = i % p.V;
    to[p.v_first ? v * p.K + d : i] = c.state[i];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) kda_chunked(Job<T> p) {
  extern __shared__ float shared[];
  const Chunk c = chunk_in(shared, p);
  const std::int64_t n = blockIdx.x, hv = blockIdx.y;
  const std::int64_t first = p.cu ? p.cu[n] : n * p.length;
  const std::int64_t length = p.cu ? p.cu[n + 1] - first : p.length;
  const std::int64_t state_at = (n * p.HV + hv) * p.K * p.V;
  for (std::int64_t i = threadIdx.x; i < p.K * p.V; i += kThreads)
    c.state[i] = p.h0 == nullptr ? 0.0F
                 : p.v_first     ? p.h0[state_at + i % p.V * p.K + i / p.V]
                                 : p.h0[state_at + i];
  float* final_state = p.final_state ? p.final_state + state_at : nullptr;
  for (std::int64_t done = 0; done < length; done += kChunk) {
    const int rows = static_cast<int>(min(std::int64_t{kChunk}, length - done));
    __syncthreads();
    if (p.state_before_tail && rows < kChunk) store_state(p, c, final_state);
    load(p, c, first + done, rows, hv);
    __syncthreads();
    decay_products(p, c, rows);
    score(p, c, rows);
    __syncthreads();
    for (std::int64_t v = threadIdx.x; v < p.V; v += kThreads)
      column(p, c, first + done, rows, hv, v);
  }
  __syncthreads();
  if (!p.state_before_tail || length % kChunk == 0) store_state(p, c, final_state);
}

template <class T>
void run(const Launch& l) {
  const Shape s = shape_of(l.problem, l.options, kChunk);
  const bool raw = s.gate != GateKind::Given;
  const Job<T> job{.tokens = s.tokens(),
                   .length = s.T,
                   .H = s.H,
                   .HV = s.HV,
                   .K = s.K,
                   .V = s.V,
                   .gate = s.gate,
                   .l2norm = s.l2norm,
                   .sigmoid = s.sigmoid,
                   .headwise = s.headwise,
                   .v_first = s.v_first,
                   .lower = s.lower,
                   .beta_factor = s.beta_factor,
                   .scale = s.scale,
                   .q = l.in<T>("q"),
                   .k = l.in<T>("k"),
                   .v = l.in<T>("v"),
                   .beta = l.in<T>(s.sigmoid ? "beta_logit" : "beta"),
                   .gate_in = l.in<void>(raw ? "g_raw" : "g"),
                   .A_log = s.has_A ? l.in<float>("A_log") : nullptr,
                   .bias = s.has_bias ? l.in<float>("dt_bias") : nullptr,
                   .h0 = l.in<float>("initial_state"),
                   .cu = l.in<std::int64_t>("cu_seqlens"),
                   .o = l.out<T>("o"),
                   .final_state = l.out<float>("final_state"),
                   .g_tap = raw ? l.out<float>("g") : nullptr,
                   .beta_tap = s.sigmoid ? l.out<float>("beta") : nullptr,
                   .unscaled_state_term = l.fault == "P-K5",
                   .state_before_tail = l.fault == "F-37",
                   .truncates = l.fault == "P-K11",
                   .keeps_bf16 = l.fault == "P-K10"};
  const std::size_t bytes = shared_floats(s.K, s.V) * sizeof(float);
  device::check(cudaFuncSetAttribute(kda_chunked<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)),
                "shared memory");
  if (s.N > 0)
    device::launch(
        l, {dim3(static_cast<unsigned int>(s.N), static_cast<unsigned int>(s.HV)), kThreads, bytes},
        kda_chunked<T>, job);
  clear_unused(l, job.o, s, s.HV * s.V);
  clear_unused(l, job.g_tap, s, s.HV * s.K);
  clear_unused(l, job.beta_tap, s, s.HV);
}

std::string refuses_on_device(const Case& c, const Options& options) {
  Options chunked = options;
  chunked.set("chunk", std::to_string(kChunk));
  if (std::string why = refuses(c, chunked); !why.empty()) return why;
  const Shape s = shape_of(c, options, kChunk);
  if (s.K > 256 || shared_floats(s.K, s.V) * sizeof(float) > kMostShared)
    return "K and V do not fit into the shared memory of a thread block";
  return "";
}

std::vector<FaultDef> faults_for(Dtype dtype) {
  if (dtype == Dtype::F32)
    return {{"P-K5", "", "what the output reads from the state lacks the factor on q"},
            {"F-37", "", "the final state is written before the last, partial chunk"}};
  return {{"P-K10", "", "the carried state is rounded to bf16"},
          {"P-K11", "", "o is truncated to bf16, not rounded"}};
}

KernelDef chunked(std::string_view name, Dtype dtype, void (*forward)(const Launch&)) {
  return {.op = "kda",
          .name = name,
          .what = "chunks of 32, f32 state in shared memory, plain multiply-adds; forward only",
          .needs = "sm_90+",
          .contract = {.name = dtype == Dtype::F32 ? "f32" : "f32, bf16 in and out",
                       .dtypes = {dtype},
                       .accumulate = Dtype::F32,
                       .chunk = kChunk,
                       .fidelity = Fidelity::Partial,
                       .invariant = {"batch", "split", "causal"}},
          .refuses = refuses_on_device,
          .forward = forward,
          .faults = faults_for(dtype)};
}

const Register f32{chunked("kda.cuda_chunked_f32", Dtype::F32, run<float>)};
const Register bf16{chunked("kda.cuda_chunked_bf16", Dtype::BF16, run<std::uint16_t>)};

}  // namespace
}  // namespace parity::kda_kernel
