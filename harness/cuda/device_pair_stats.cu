// One pass over a pair of tensors: threads read 16 bytes of each side at a time, sum in registers
// and count in shared memory; blocks leave their part, and the last one adds the parts in order.
#include <algorithm>
#include <cfloat>
#include <cuda_runtime_api.h>
#include <vector>

#include "harness/cuda/device_elements.cuh"
#include "harness/cuda/device_pair_stats.hpp"
#include "harness/numeric/formats.hpp"

namespace parity {
namespace {

using namespace device_elements;

constexpr int kThreads = 256, kWarps = kThreads / 32, kMostBlocks = 132 * 4;

enum Sum { kSqDiff, kSqA, kSqB, kDot, kDiff, kAbsDiff, kSums };
enum Count {
  kDiffering,
  kMismatched,
  kNanA,
  kNanB,
  kInfA,
  kInfB,
  kZeroA,
  kZeroB,
  kFinite,
  kZeroToNonzero,
  kCounts
};

// What comes back to the host.
struct Part {
  double sums[kSums];
  std::int64_t counts[kCounts];
  double max_abs, max_rel;
  std::int64_t worst;
  std::uint64_t max_ulp, ulp_low, ulp_high;
  std::int64_t histogram[kUlpBuckets];
};

struct Parts {
  Part total;
  unsigned int finished;
  Part blocks[kMostBlocks];
};

struct Thread {
  double sums[kSums] = {};
  std::uint32_t counts[kCounts] = {};
  double max_abs = 0, max_rel = 0;
  float near_abs = 0,
        near_rel = 0;  // a little below them: what does not exceed these is no maximum
  std::int64_t worst = -1;
  std::uint64_t max_ulp = 0, ulp_low = 0, ulp_high = 0;
};

template <Dtype kDtype>
__device__ void add(Thread& t, typename Stored<kDtype>::Code a_code,
                    typename Stored<kDtype>::Code b_code, std::int64_t index, const Meaning* table,
                    unsigned int* histogram) {
  using F = Stored<kDtype>;
  const double a = F::value(a_code, table), b = F::value(b_code, table);
  bool a_finite = true, b_finite = true, a_nan = false, b_nan = false;
  if constexpr (kByTable<kDtype>) {
    a_finite = isfinite(a), b_finite = isfinite(b), a_nan = isnan(a), b_nan = isnan(b);
  } else {
    a_finite = F::finite(a_code), b_finite = F::finite(b_code);
    a_nan = F::nan(a_code), b_nan = F::nan(b_code);
  }
  const bool differs = a_code != b_code;
  const bool a_zero = a == 0, b_zero = b == 0;
  t.counts[kDiffering] += differs;
  t.counts[kZeroA] += a_zero;
  t.counts[kZeroB] += b_zero;
  if (!a_finite || !b_finite) {
    t.counts[kNanA] += a_nan;
    t.counts[kNanB] += b_nan;
    t.counts[kInfA] += !a_finite && !a_nan;
    t.counts[kInfB] += !b_finite && !b_nan;
    t.counts[kMismatched] += !(a == b || (a_nan && b_nan));
    return;
  }
  ++t.counts[kFinite];
  t.sums[kSqA] = fma(a, a, t.sums[kSqA]);
  t.sums[kSqB] = fma(b, b, t.sums[kSqB]);
  t.sums[kDot] = fma(a, b, t.sums[kDot]);
  if (!differs) return;
  const double diff = b - a, size = fabs(diff);
  t.counts[kZeroToNonzero] += a_zero && !b_zero;
  t.sums[kSqDiff] = fma(diff, diff, t.sums[kSqDiff]);
  t.sums[kDiff] += diff;
  t.sums[kAbsDiff] += size;
  const float near = static_cast<float>(size);
  if (near >= t.near_abs && size > t.max_abs) {
    t.max_abs = size;
    t.worst = index;
    t.near_abs = near * 0.9999F;
  }
  if (!a_zero && near >= t.near_rel * fabsf(static_cast<float>(a))) {
    const double relative = size / fabs(a);
    if (relative > t.max_rel) {
      t.max_rel = relative;
      t.near_rel = fminf(static_cast<float>(relative) * 0.9999F, FLT_MAX);  // never infinite
    }
  }
  std::int64_t a_rank = 0, b_rank = 0;
  if constexpr (kByTable<kDtype>)
    a_rank = table[a_code].rank, b_rank = table[b_code].rank;
  else
    a_rank = F::rank(a_code), b_rank = F::rank(b_code);
  const bool above = b_rank > a_rank;
  const std::uint64_t distance =
      above ? static_cast<std::uint64_t>(b_rank) - static_cast<std::uint64_t>(a_rank)
            : static_cast<std::uint64_t>(a_rank) - static_cast<std::uint64_t>(b_rank);
  if (distance == 0) return;  // -0 and +0
  const int bucket = 64 - __clzll(static_cast<long long>(distance));
  atomicAdd(&histogram[above ? kUlpCentre + bucket : kUlpCentre - bucket], 1U);
  t.ulp_low += distance;
  t.ulp_high += t.ulp_low < distance;
  t.max_ulp = max(t.max_ulp, min(distance, static_cast<std::uint64_t>(kUlpInfinite - 1)));
}

template <class T>
__device__ T shuffled(T x, int apart) {
  static_assert(sizeof(T) == 8);
  return __shfl_down_sync(0xFFFFFFFFU, x, apart);
}

// Into the values of `into` those of `from`; of equal maxima the earlier element stays.
__device__ void merge(Part& into, const Part& from) {
  for (int i = 0; i < kSums; ++i) into.sums[i] += from.sums[i];
  for (int i = 0; i < kCounts; ++i) into.counts[i] += from.counts[i];
  if (from.max_abs > into.max_abs ||
      (from.max_abs == into.max_abs && from.worst >= 0 && from.worst < into.worst)) {
    into.max_abs = from.max_abs;
    into.worst = from.worst;
  }
  into.max_rel = fmax(into.max_rel, from.max_rel);
  into.max_ulp = max(into.max_ulp, from.max_ulp);
  into.ulp_low += from.ulp_low;
  into.ulp_high += from.ulp_high + (into.ulp_low < from.ulp_low);
}

__device__ void reduce_warp(Part& part) {
  for (int apart = 16; apart > 0; apart /= 2) {
    Part other{};
    for (int i = 0; i < kSums; ++i) other.sums[i] = shuffled(part.sums[i], apart);
    for (int i = 0; i < kCounts; ++i) other.counts[i] = shuffled(part.counts[i], apart);
    other.max_abs = shuffled(part.max_abs, apart);
    other.max_rel = shuffled(part.max_rel, apart);
    other.worst = shuffled(part.worst, apart);
    other.max_ulp = shuffled(part.max_ulp, apart);
    other.ulp_low = shuffled(part.ulp_low, apart);
    other.ulp_high = shuffled(part.ulp_high, apart);
    merge(part, other);
  }
}

template <Dtype kDtype>
__global__ void __launch_bounds__(kThreads, 2)
    pass(const std::byte* want, const std::byte* got, std::int64_t elements,
         const Meaning* meanings, Parts* parts) {
  using F = Stored<kDtype>;
  __shared__ Meaning table[kByTable<kDtype> ? 256 : 1];
  __shared__ unsigned int histograms[kWarps][kUlpBuckets];
  __shared__ Part warps[kWarps];
  __shared__ bool last;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (kByTable<kDtype>) table[threadIdx.x] = meanings[threadIdx.x];
  for (int i = threadIdx.x; i < kWarps * kUlpBuckets; i += kThreads)
    histograms[i / kUlpBuckets][i % kUlpBuckets] = 0;
  __syncthreads();

  constexpr int kUnroll = F::kPerPiece <= 4 ? 4 : F::kPerPiece == 8 ? 2 : 1;
  Thread t;
  const std::int64_t pieces = elements / F::kPerPiece;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  const auto* a = reinterpret_cast<const uint4*>(want);
  const auto* b = reinterpret_cast<const uint4*>(got);
  const auto add_piece = [&](const uint4& x, const uint4& y, std::int64_t piece) {
    typename F::Code p[16 / sizeof(typename F::Code)], q[16 / sizeof(typename F::Code)];
    memcpy(p, &x, 16), memcpy(q, &y, 16);
#pragma unroll
    for (int i = 0; i < F::kPerPiece; ++i)
      add<kDtype>(t, F::code(p, i), F::code(q, i), piece * F::kPerPiece + i, table,
                  histograms[warp]);
  };
  std::int64_t piece = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; piece + (kUnroll - 1) * stride < pieces; piece += kUnroll * stride) {
    uint4 x[kUnroll], y[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      x[u] = __ldcs(a + piece + u * stride), y[u] = __ldcs(b + piece + u * stride);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) add_piece(x[u], y[u], piece + u * stride);
  }
  for (; piece < pieces; piece += stride) add_piece(__ldcs(a + piece), __ldcs(b + piece), piece);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    const auto* p = reinterpret_cast<const typename F::Code*>(want);
    const auto* q = reinterpret_cast<const typename F::Code*>(got);
    for (std::int64_t i = pieces * F::kPerPiece; i < elements; ++i) {
      const std::int64_t first = pieces * (16 / static_cast<std::int64_t>(sizeof(*p)));
      const int at = static_cast<int>(i - pieces * F::kPerPiece);
      add<kDtype>(t, F::code(p + first, at), F::code(q + first, at), i, table, histograms[warp]);
    }
  }

  Part part{};
  for (int i = 0; i < kSums; ++i) part.sums[i] = t.sums[i];
  for (int i = 0; i < kCounts; ++i) part.counts[i] = t.counts[i];
  part.max_abs = t.max_abs, part.max_rel = t.max_rel, part.worst = t.worst;
  part.max_ulp = t.max_ulp, part.ulp_low = t.ulp_low, part.ulp_high = t.ulp_high;
  reduce_warp(part);
  if (lane == 0) warps[warp] = part;
  __syncthreads();
  Part& own = parts->blocks[blockIdx.x];
  if (threadIdx.x == 0) {
    for (int w = 1; w < kWarps; ++w) merge(warps[0], warps[w]);
    for (int i = 0; i < kUlpBuckets; ++i) warps[0].histogram[i] = 0;
    own = warps[0];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kUlpBuckets; i += kThreads) {
    std::int64_t sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += histograms[w][i];
    own.histogram[i] = sum;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&parts->finished, 1U) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (warp == 0) {
    Part sum{};
    sum.worst = -1;
    for (unsigned int i = lane; i < gridDim.x; i += 32) {
      Part other = parts->blocks[i];
      merge(sum, other);
    }
    reduce_warp(sum);
    if (lane == 0)
      for (int i = 0; i < kUlpBuckets; ++i) sum.histogram[i] = 0;
    if (lane == 0) parts->total = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kUlpBuckets; i += kThreads) {
    std::int64_t sum = 0;
    for (unsigned int block = 0; block < gridDim.x; ++block)
      sum += parts->blocks[block].histogram[i];
    parts->total.histogram[i] = sum;
  }
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(std::string(what) + ": " + cudaGetErrorName(status) + " (" +
                    cudaGetErrorString(status) + ")");
}

using Kernel = void (*)(const std::byte*, const std::byte*, std::int64_t, const Meaning*, Parts*);
Kernel kernel_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
      return pass<Dtype::F64>;
    case Dtype::F32:
      return pass<Dtype::F32>;
    case Dtype::TF32:
      return pass<Dtype::TF32>;
    case Dtype::BF16:
      return pass<Dtype::BF16>;
    case Dtype::F16:
      return pass<Dtype::F16>;
    case Dtype::I64:
      return pass<Dtype::I64>;
    case Dtype::I32:
      return pass<Dtype::I32>;
    case Dtype::I16:
      return pass<Dtype::I16>;
    case Dtype::E2M1:
      return pass<Dtype::E2M1>;
    default:
      return pass<Dtype::U8>;
  }
}

}  // namespace

DevicePairStats::DevicePairStats(Dtype dtype)
    : dtype_(dtype), table_(256 * sizeof(Meaning)), parts_(sizeof(Parts)) {
  if (format(dtype).bits > 8) return;
  std::vector<Meaning> meanings(256);
  for (std::uint64_t c = 0; c < 256; ++c) meanings[c] = {decode(dtype, c), ulp_rank(dtype, c)};
  check(cudaMemcpy(table_.data(), meanings.data(), 256 * sizeof(Meaning), cudaMemcpyHostToDevice),
        "the codes' meanings");
}

void DevicePairStats::enqueue(const std::byte* want, const std::byte* got, std::int64_t elements,
                              DeviceStream& stream) {
  elements_ = elements;
  auto* parts = reinterpret_cast<Parts*>(parts_.data());
  const auto queue = static_cast<cudaStream_t>(stream.handle());
  check(cudaMemsetAsync(&parts->finished, 0, sizeof(parts->finished), queue), "clear");
  const std::int64_t work = (elements + 8 * kThreads - 1) / (8 * kThreads);
  const auto blocks =
      static_cast<unsigned int>(std::clamp<std::int64_t>(work, 1, std::int64_t{kMostBlocks}));
  kernel_of(dtype_)<<<blocks, kThreads, 0, queue>>>(
      want, got, elements, reinterpret_cast<const Meaning*>(table_.data()), parts);
  check(cudaGetLastError(), "pair statistics");
}

PairStats DevicePairStats::result(DeviceStream& stream) {
  Part total;
  const auto queue = static_cast<cudaStream_t>(stream.handle());
  check(cudaMemcpyAsync(&total, parts_.data(), sizeof(total), cudaMemcpyDeviceToHost, queue),
        "pair statistics");
  check(cudaStreamSynchronize(queue), "pair statistics");
  const auto& n = total.counts;
  PairStats s{
      .elements = elements_,
      .differing = n[kDiffering],
      .mismatched_nonfinite = n[kMismatched],
      .nan_a = n[kNanA],
      .nan_b = n[kNanB],
      .inf_a = n[kInfA],
      .inf_b = n[kInfB],
      .zero_a = n[kZeroA],
      .zero_b = n[kZeroB],
      .finite_pairs = n[kFinite],
      .want_zero_got_nonzero = n[kZeroToNonzero],
      .sum_sq_diff = total.sums[kSqDiff],
      .sum_sq_a = total.sums[kSqA],
      .sum_sq_b = total.sums[kSqB],
      .dot = total.sums[kDot],
      .sum_diff = total.sums[kDiff],
      .sum_abs_diff = total.sums[kAbsDiff],
      .max_abs = total.max_abs,
      .max_rel = total.max_rel,
      .worst_index = total.worst,
      .max_ulp = static_cast<std::int64_t>(total.max_ulp),
      .sum_ulp = static_cast<double>(total.ulp_high) * 0x1p64 + static_cast<double>(total.ulp_low)};
  std::int64_t others = 0;
  for (std::size_t i = 0; i < s.log2_ulp_histogram.size(); ++i)
    others += s.log2_ulp_histogram[i] = total.histogram[i];
  s.log2_ulp_histogram[kUlpCentre] = s.finite_pairs - others;
  return s;
}

PairStats pair_stats_on_device(Dtype dtype, const std::byte* want, const std::byte* got,
                               std::int64_t elements, DeviceStream& stream) {
  DevicePairStats stats(dtype);
  stats.enqueue(want, got, elements, stream);
  return stats.result(stream);
}

}  // namespace parity
