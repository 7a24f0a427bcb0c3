// One launch of a KDA kernel: what the case asks for, where its tensors lie, and the fault that is
// switched on.
//
// Options and tensor names are those of the op (kda.md §1, §2):
// gate=given|softplus|lower|lower_noA, lb, bias, l2norm, beta=given|sigmoid|neg, headwise, scale,
// h0, dht, vfirst, taps, unused. Tensors: q k [B,T,H,K], v o [B,T,HV,V], g [B,T,HV,K], beta
// [B,T,HV] or [B,T,HV,V], states [N,HV,K,V] or [N,HV,V,K].
#pragma once

#include <cstdint>
#include <vector>

#include "harness/kernel.hpp"
#include "kernels/kda/faults.hpp"
#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {

// Tokens [first, first + length) of the B*T rows; its chunks are numbered from first_chunk on.
struct Sequence {
  std::int64_t first = 0, length = 0, first_chunk = 0;
};

struct Shape {
  std::int64_t B = 1, T = 1, H = 1, HV = 1, K = 1, V = 1, N = 1;
  std::int64_t chunk = 64;
  std::int64_t chunks = 0;  // of all sequences
  std::vector<Sequence> sequences = {};
  bool packed = false;
  GateKind gate = GateKind::Given;
  bool has_A = false, has_bias = false;
  float lower = 0;
  bool l2norm = false, sigmoid = false, headwise = false, v_first = false;
  float beta_factor = 1, scale = 1;
  bool bf16 = false;

  std::int64_t tokens() const { return B * T; }
  std::int64_t group() const { return HV / H; }
  std::int64_t used_tokens() const {
    return sequences.empty() ? 0 : sequences.back().first + sequences.back().length;
  }
};

Shape shape_of(const Case&, const Options&, std::int64_t default_chunk);

struct Problem : Shape {
  const Micro* micro = nullptr;
  Fault fault = Fault::None;
  int threads = 1;

  // Storage: q k v o and their gradients in the case's format, raw gates and beta too; all others
  // f32.
  const void *q = nullptr, *k = nullptr, *v = nullptr, *gate_in = nullptr, *beta_in = nullptr,
             *d_o = nullptr;
  const float *A_log = nullptr, *dt_bias = nullptr, *h0 = nullptr, *d_ht = nullptr;

  void* o = nullptr;
  float *final_state = nullptr, *g_tap = nullptr, *beta_tap = nullptr;

  void *dq = nullptr, *dk = nullptr, *dv = nullptr, *d_raw = nullptr, *d_beta = nullptr,
       *d_logit = nullptr;
  float *dg = nullptr, *dA = nullptr, *d_bias = nullptr, *dh0 = nullptr;
  bool d_beta_bf16 = false;

  float *saved_states = nullptr, *saved_errors = nullptr;  // [chunks,HV,V,K], [B*T,HV,V]
  std::byte* workspace = nullptr;

  bool is(Fault f) const { return fault == f; }
  // Rows of `heads` heads of `width` elements, beginning at token `t` and head `h`.
  Stored rows(const void* data, bool narrow, std::int64_t t, std::int64_t h, std::int64_t heads,
              std::int64_t width) const {
    const std::int64_t offset = (t * heads + h) * width;
    const auto* base = static_cast<const std::byte*>(data);
    return {.data = base + offset * (narrow ? 2 : 4), .bf16 = narrow, .stride = heads * width};
  }
  bool gate_bf16() const { return bf16 && gate != GateKind::Given; }
  std::int64_t state_offset(std::int64_t n, std::int64_t hv) const { return (n * HV + hv) * K * V; }
};

Problem problem_of(const Launch&, std::int64_t default_chunk);

// Shared by the registrations. `refuses` names what a kernel does not take; the tensors saved by
// the chunked forward.
std::string refuses(const Case&, const Options&);
std::vector<TensorSpec> saved_specs(const Shape&);

// A state of one sequence and head, K rows of V: from and to the layout of the tensors.
void load_state(const Problem&, const float* tensor, std::int64_t n, std::int64_t hv,
                float* rows_KV, std::int64_t ld);
void store_state(const Problem&, const float* rows_KV, std::int64_t ld, std::int64_t n,
                 std::int64_t hv, float* tensor);

}  // namespace parity::kda_kernel
