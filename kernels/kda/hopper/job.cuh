// Kimi Delta Attention on Hopper in two kernels: what they share. `prepare` turns every chunk of 64
// tokens of every value head into an image of what the state pass needs, `carry` runs through a
// sequence's images. An image is laid out as shared memory will hold it (bf16 in swizzled rows of
// 128 bytes, hopper.cuh), so that one bulk copy brings it there:
//   keys    k e^G               64 tokens x 128 channels, two panels of 64 channels
//   reads   scale q e^G         the same
//   writes  k e^(G_end - G)     128 channels x 64 tokens
//   inverse (I + L)^-1          64 x 64
//   scores  Aqk                 64 x 64
//   decay   e^G_end             128 floats
//   beta                        64 floats
// Channels beyond K and tokens beyond a sequence's end are zero (decay: 1).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/hopper.cuh"
#include "kernels/kda/gates.cuh"

namespace parity::kda_kernel::hopper {

constexpr int kChunk = 64, kChannels = 128, kPanelChannels = 64;

constexpr std::uint32_t kKeys = 0, kReads = 16384, kWrites = 32768, kInverse = 49152,
                        kScores = 57344, kDecay = 65536, kBeta = kDecay + kChannels * 4,
                        kImage = kBeta + kChunk * 4;
constexpr std::uint32_t kPanel = 8192;  // 64 tokens of 64 channels

// Arithmetic that goes wrong in a mutant.
enum class Defect : std::uint8_t {
  None,
  UnscaledReads,     // the read of the state lacks the factor on q
  ColumnBeta,        // the triangular system takes beta of its column
  StrictMask,        // a token does not see itself
  HalfMerge,         // the merge of 32 x 32 blocks of the inverse takes diagonal blocks of 16 alone
  MissingSync,       // a product is read before slower warps have stored their part
  WrongSwizzle,      // the transposed keys in the phase of another row
  TailRows,          // tokens of the next sequence are read behind a sequence's end
  NarrowState,       // the carried state is rounded to bf16
  TruncatedOutput,   // o is truncated
  StateBeforeTail,   // the final state is that before the last, partial chunk
  DroppedTail,       // the last partial 16 rows of o are not written
  OneRowTooMany,     // a row behind the tensor's end is written
  UndecayedAdjoint,  // backward: dS passes a chunk undecayed
  BetaWithoutKeys,   // backward: dbeta lacks its key part
  LastHead,          // backward: dq and dk of the last value head of a group alone
  NoLastGate,        // backward: dG lacks what decays the state
  NoDiagonal,        // backward: a token's own score gives nothing to dq and dk
  StaleGradients,    // backward: rows of a buffer are read before slower warps have stored them
  HeadOfGroup,       // A_log and dt_bias by the query head
};

struct Job {
  std::int64_t length;  // tokens of a sequence, where cu is null
  int sequences;
  int H, HV, K, V;
  GateKind gate;
  bool l2norm, sigmoid, v_first;
  float lower, beta_factor, scale;
  const std::uint16_t *q, *k, *v, *beta;
  const void* gate_in;  // f32 where given, else bf16
  const float *A_log, *bias, *h0;
  const std::int64_t* cu;
  std::uint16_t* o;
  float *final_state, *g_tap, *beta_tap;
  std::byte* images;  // [chunks of all sequences, HV]
  std::byte* trails;  // the same, for the backward; null: a forward
  Defect defect;
};

// What the two state passes leave of a chunk for the backward, bf16, rows of v:
//   states    S at the chunk's start     128 columns of v x 128 channels
//   adjoints  dS at its end              the same
//   written   v'                         128 columns of v x 64 tokens
//   solved    (I + L)^-T dv'             the same
constexpr std::uint32_t kStates = 0, kAdjoints = 32768, kWritten = 65536, kSolved = 81920,
                        kTrail = 98304;
constexpr int kMostColumns = 128;  // of v, in a backward

// What a backward has beside the job of its forward.
struct Adjoint {
  const std::uint16_t* d_o;
  const float* d_state;  // of the final state, may be null
  std::uint16_t* d_v;
  float *d_q, *d_k;                 // of each value head and of normalised rows: [tokens, HV, K]
  float* d_g;                       // where gates are given
  std::uint16_t *d_raw, *d_beta;    // of raw gates; of beta or its logits
  float *d_beta_wide, *d_g_wide;    // f32 taps of both, may be null
  float *d_bias_parts, *d_A_parts;  // [chunks, HV, K] and [chunks, HV], null where not wanted
  float* d_h0;
};

struct Sequence {
  std::int64_t first, length, first_chunk;
};

__device__ inline int chunks_of(std::int64_t tokens) {
  return static_cast<int>((tokens + kChunk - 1) / kChunk);
}

__device__ inline Sequence sequence_of(const Job& p, int n) {
  if (p.cu == nullptr) return {n * p.length, p.length, std::int64_t{n} * chunks_of(p.length)};
  Sequence s{0, 0, 0};
  for (int i = 0; i < n; ++i) s.first_chunk += chunks_of(p.cu[i + 1] - p.cu[i]);
  s.first = p.cu[n];
  s.length = p.cu[n + 1] - s.first;
  return s;
}

// Rows of a chunk: tokens [first, first + rows).
struct Rows {
  std::int64_t first;
  int rows;  // 0: no such chunk
};
__device__ inline Rows rows_of(const Job& p, int chunk) {
  std::int64_t first = 0, length = p.length;
  if (p.cu == nullptr) {
    const int each = chunks_of(p.length);
    first = chunk / each * p.length;
    chunk %= each;
  } else {
    for (int n = 0; n < p.sequences; ++n, chunk -= chunks_of(length)) {
      first = p.cu[n];
      length = p.cu[n + 1] - first;
      if (chunk < chunks_of(length)) break;
      if (n + 1 == p.sequences) return {0, 0};
    }
  }
  const std::int64_t begin = std::int64_t{chunk} * kChunk, left = length - begin;
  return {first + begin, static_cast<int>(left < kChunk ? left : kChunk)};
}

__device__ inline std::byte* trail_of(const Job& p, std::int64_t chunk, int hv) {
  return p.trails + (chunk * p.HV + hv) * kTrail;
}
__device__ inline std::byte* image_of(const Job& p, std::int64_t chunk, int hv) {
  return p.images + (chunk * p.HV + hv) * kImage;
}

}  // namespace parity::kda_kernel::hopper
