// The operands of one chunk of one sequence and value head, in f32 rows, and the products of decays
// between its tokens.
#pragma once

#include <cstdint>

#include "kernels/kda/problem.hpp"
#include "kernels/kda/scratch.hpp"

namespace parity::kda_kernel {

struct Place {
  std::int64_t n = 0, hv = 0;
  std::int64_t index = 0;  // chunk of the sequence
  std::int64_t token = 0;  // first token, a row of the B*T
  std::int64_t rows = 0;   // <= C
};

std::int64_t chunk_count(const Problem&, std::int64_t n);
Place place_of(const Problem&, std::int64_t n, std::int64_t hv, std::int64_t index);
// The state before a chunk, V x K, in what the forward saves.
float* saved_state(const Problem&, const Place&);

class Chunk {
 public:
  Chunk(const Problem&, Scratch&);
  static std::int64_t floats(const Shape&);  // scratch that it takes

  void load(const Place&);
  // scores_q[i,j] = sum_d q_i k_j decay(j,i), j <= i;  scores_k = sign sum_d k_i k_j decay(j,i), j
  // < i.
  void score(float sign);

  // Rows [first, middle) are read by rows [middle, last) through one off-diagonal tile; calls
  // visit(first, middle, last) for every such tile, halves of C first.
  template <class Visit>
  void each_tile(const Visit& visit) const {
    for (std::int64_t half = C / 2; half >= kLeaf; half /= 2)
      for (std::int64_t first = 0; first + half < place.rows; first += 2 * half) {
        const std::int64_t end = first + 2 * half;
        visit(first, first + half, end < place.rows ? end : place.rows);
      }
  }
  // What load(next) will read, and rows of another tensor of value heads.
  void fetch_ahead(const Place& next, Ahead&) const;
  void fetch_ahead(const Place& next, const void* data, bool narrow, std::int64_t width,
                   Ahead&) const;
  // The chunk's rows of a tensor of value heads.
  Stored rows(const void* data, bool narrow, std::int64_t width) const {
    return p.rows(data, narrow, place.token, place.hv, p.HV, width);
  }
  // D, k D and (lower rows) q D of a tile.
  void scale_tile(std::int64_t first, std::int64_t middle, std::int64_t last);

  const Problem& p;
  const Micro& m;
  const std::int64_t C, ldk, ldv, ldc, Kp, Vp;
  Place place = {};
  float *q, *k;       // q carries scale; both normalised where the kernel does it
  float *a, *g;       // decay of a token; g only where something needs it
  float *P, *S;       // products from the start of the chunk, and to its end
  float* beta;        // C, or rows of V (headwise)
  float* beta_slope;  // d beta / d logit
  float *rstd_q, *rstd_k;
  float *scores_q, *scores_k;  // C x ldc
  float *D, *qs, *ks, *kT;     // of one tile at a time

  const float* decay_of_chunk() const { return P + (place.rows - 1) * ldk; }
  Gate gate() const;

 private:
  void normalise(float* x, float* rstd);
  void load_gate();
  void load_beta();
  void score_tiles(float sign);
  void score_leaves(float sign);
  float* bias_;
};

// Replacements of the scores under faults that concern exponents and their anchors (anchored.cpp).
bool anchored(Fault, bool backward);
void anchored_scores(Chunk&, float sign);

// Changes to the decays under faults that concern the gate (gate_faults.cpp).
void spoil_raw_gate(Chunk&);
void spoil_decay(Chunk&);
void head_zero_decay(const Chunk&, float* decay_K);

}  // namespace parity::kda_kernel
