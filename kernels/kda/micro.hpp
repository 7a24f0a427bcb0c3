// The inner loops of the KDA kernels on the CPU, as one table of functions per instruction set.
//
// Matrices are row-major f32 with a leading dimension that is a multiple of 16; columns are padded
// to a multiple of 16 lanes, and the padding of keys, queries and values is zero. Sums run in one
// fixed order (k ascending per element; dot products in 16 lanes, folded 8, 4, 2, 1), so AVX2 and
// AVX-512 give the same bits; the portable table does not fuse multiply and add.
//
// n rows of a chunk or leaf, K key channels, V value columns, C rows of a chunk.
#pragma once

#include <cstdint>
#include <string_view>

namespace parity::kda_kernel {

inline constexpr std::int64_t kLanes = 16;
inline constexpr std::int64_t kLeaf = 16;  // rows of a diagonal block

inline constexpr std::int64_t pad(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
// Leading dimension: an odd number of cache lines, so that a column of tiles does not fall into a
// few sets of the L1 cache.
inline constexpr std::int64_t leading(std::int64_t n) {
  return pad(n) / kLanes % 2 == 0 ? pad(n) + kLanes : pad(n);
}

// Rows of memory to bring into the L2 cache little by little while products are computed.
struct Ahead {
  struct Part {
    const char* at = nullptr;
    std::int64_t stride = 0, rows = 0, bytes = 0;
  };
  Part parts[8] = {};
  int count = 0, part = 0;
  std::int64_t row = 0, byte = 0;

  void clear() { count = part = 0, row = byte = 0; }
  void add(const void* at, std::int64_t stride, std::int64_t rows, std::int64_t bytes) {
    if (at && rows > 0 && count < 8)
      parts[count++] = {static_cast<const char*>(at), stride, rows, bytes};
  }
};

// What a product is added to: nothing; the old values, from which its chains of additions start; or
// the old values, or those times a factor a row, added last, so that what is large is rounded once
// and not at every term.
enum class Onto : std::uint8_t { Zero, Keep, Add, ScaleRows };
enum class Band : std::uint8_t {
  Full,
  Lower,
  Upper
};  // which k of row i can be non-zero: all, k <= i, k >= i

// out[m,n] = onto + A[m,k] B[k,n];  n a multiple of 16. A(i,k) = a[i a_row + k a_col], one of the
// two strides being 1.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0, a_col = 1;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* out = nullptr;
  std::int64_t ldo = 0;
  Onto onto = Onto::Zero;
  const float* row_scale = nullptr;  // ScaleRows: row_scale[i] out[i,:] + ...
  Band band = Band::Full;
  // A second product with the same strides, added term by term between those of the first (a_row =
  // 1 only).
  const float *a2 = nullptr, *b2 = nullptr;
  Ahead* ahead = nullptr;
};

// Rows of a tensor in its storage format, `stride` elements apart.
struct Stored {
  const void* data = nullptr;
  bool bf16 = false;  // else f32
  std::int64_t stride = 0;
};

enum class GateKind : std::uint8_t { Given, Softplus, Lower };

// kda.md §2.1. Given: g = x. Softplus: g = -coefficient softplus(x + bias). Lower: g = lower
// sigmoid(coefficient (x + bias)).
struct Gate {
  GateKind kind = GateKind::Given;
  float coefficient = 1;  // exp(A_log)
  float lower = 0;
  const float* bias = nullptr;  // K padded, or null
};

// Decay products D of rows [first, last) around the anchor `middle`: prefix products from the
// anchor below it, suffix products up to it above. Every factor is a product of neighbouring a_t <=
// 1, so nothing overflows and a pair of rows that no closed gate separates is exact to (i - j)
// roundoffs, whatever the cumulative gate is.
//   i >= middle   D_i = a_middle ... a_i
//   j <  middle   D_j = a_{j+1} ... a_{middle-1}
struct Decay {
  const float* a = nullptr;
  float* out = nullptr;
  std::int64_t ld = 0, cols = 0;
  std::int64_t first = 0, middle = 0, last = 0;
};

// One diagonal block of n <= 16 rows, decays applied pair by pair.
//   scores_q[i,j] = sum_d q_i k_j D_ij (j <= i)     scores_k[i,j] = sign sum_d k_i k_j D_ij (j < i)
//   zero elsewhere
struct LeafScores {
  const float *q = nullptr, *k = nullptr, *a = nullptr;
  std::int64_t ld = 0, cols = 0, rows = 0;
  float sign = 1;
  float *scores_q = nullptr, *scores_k = nullptr;
  std::int64_t ldc = 0;
};

// Gradients of a diagonal block: dq += sum_j dA_ij k_j D_ij, dk += both sides, dg_t += sum over the
// pairs j < t <= i.
struct LeafGrad {
  const float *q = nullptr, *k = nullptr, *a = nullptr;
  std::int64_t ld = 0, cols = 0, rows = 0;
  const float *d_scores_q = nullptr, *d_scores_k = nullptr;
  std::int64_t ldc = 0;
  float *dq = nullptr, *dk = nullptr, *dg = nullptr;
};

// Triangular solve of a diagonal block, row after row. beta has one value a row, or a row of V
// (headwise).
//   forward    e_i += sum_{j<i} scores[i,j] u_j ;  u_i = beta_i e_i
//   backward   x_i += sum_{m>i} scores[m,i] x_m ;  x_i is du_i ;  dbeta_i = e_i . x_i ;  x_i <-
//   -beta_i x_i
// In the forward the scores carry the minus sign, in the backward x does.
struct LeafSolve {
  const float* scores = nullptr;
  std::int64_t ldc = 0;
  const float* beta = nullptr;
  bool headwise = false;
  std::int64_t ld = 0, cols = 0, rows = 0;
  float* e = nullptr;
  float* u = nullptr;                               // forward: u;  backward: x
  const float *scores_q = nullptr, *d_o = nullptr;  // backward
  float* d_beta = nullptr;  // backward: one value a row, or a row of V (leading dimension ld)
};

// Adds the gradients of one off-diagonal tile: rows [middle, last) read columns [first, middle).
//   lower rows  dq += D xq ;  dk += D xk ;  dg_t += sum_{m >= t} (qs xq + ks xk)_m
//   upper rows  dk += D y  ;                dg_t += sum_{j < t} (ks y)_j
// xq, xk have their row 0 at `middle`, y at `first`; all else at row 0 of the chunk.
struct TileGrad {
  std::int64_t first = 0, middle = 0, last = 0, ld = 0, cols = 0;
  const float *D = nullptr, *qs = nullptr, *ks = nullptr;
  const float *xq = nullptr, *xk = nullptr, *y = nullptr;
  float *dq = nullptr, *dk = nullptr, *dg = nullptr;
};

// Sets the gradients from the states at both ends of a chunk of n rows.
//   dq = P x ;  dk = P y + S z ;  dg_t = through + sum_{j < t} (kg z)_j + sum_{m >= t} (qg x + kt
//   y)_m
struct ChunkGrad {
  std::int64_t rows = 0, ld = 0, cols = 0;
  const float *P = nullptr, *S = nullptr, *qg = nullptr, *kt = nullptr, *kg = nullptr;
  const float *x = nullptr, *y = nullptr, *z = nullptr;
  const float* through =
      nullptr;  // one row: what passes from the state before to the state after the chunk
  float *dq = nullptr, *dk = nullptr, *dg = nullptr;
};

// Gate gradients of n rows: x_n is the raw gate, dg the gradient of g (overwritten by that of x).
struct GateGrad {
  Gate gate = {};
  std::int64_t rows = 0, ld = 0, cols = 0;
  const float* x = nullptr;
  float* dg = nullptr;
  float* d_bias = nullptr;         // K padded: += column sums of dx
  float* d_coefficient = nullptr;  // K padded: += column sums of the terms of dA_log
};

// One token of the recurrence: S is K x ld.
struct Token {
  float* state = nullptr;
  std::int64_t ld = 0, K = 0, cols = 0;
  const float *q = nullptr, *k = nullptr, *a = nullptr, *v = nullptr, *beta = nullptr;
  bool headwise = false;
  float* o = nullptr;
};

struct Micro {
  std::string_view name = {};
  void (*product)(const Product&) = nullptr;
  // out[c,r] = in[r,c]; rows are padded with zeros to a multiple of 16, cols are a multiple of 16.
  void (*transpose)(const float* in, std::int64_t ldi, std::int64_t rows, std::int64_t cols,
                    float* out, std::int64_t ldo) = nullptr;
  void (*load)(const Stored& in, std::int64_t rows, std::int64_t cols, float* out,
               std::int64_t ldo) = nullptr;
  // `out.data` is written; f32 -> bf16 rounds to nearest even.
  void (*store)(const float* in, std::int64_t ldi, std::int64_t rows, std::int64_t cols,
                const Stored& out) = nullptr;
  // x <- a = exp(g(x)); g is kept where `g` is not null.
  void (*decay)(const Gate&, float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols,
                float* g) = nullptr;
  void (*gate_grad)(const GateGrad&) = nullptr;
  // value = sigmoid(x), complement = 1 - sigmoid(x), each to its own relative accuracy; n a
  // multiple of 16.
  void (*sigmoid)(const float* x, std::int64_t n, float* value, float* complement) = nullptr;
  void (*exp)(const float* x, std::int64_t n, float* out) = nullptr;  // n a multiple of 16
  // rstd_i = 1 / sqrt(sum x^2 + eps); x <- x rstd_i
  void (*normalise)(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols, float eps,
                    float* rstd) = nullptr;
  // dy <- rstd (dy - y (y . dy)) with y = x rstd, x as stored
  void (*normalise_grad)(const float* x, const float* rstd, std::int64_t ld, std::int64_t rows,
                         std::int64_t cols, float* dy) = nullptr;
  void (*decay_products)(const Decay&) = nullptr;
  // out = sign x y over rows x cols, all with one leading dimension; `out` may be x
  void (*multiply)(const float* x, const float* y, float sign, std::int64_t ld, std::int64_t rows,
                   std::int64_t cols, float* out) = nullptr;
  void (*scale)(float* x, float factor, std::int64_t ld, std::int64_t rows,
                std::int64_t cols) = nullptr;
  void (*add)(const float* x, std::int64_t n,
              float* out) = nullptr;  // out += x; n a multiple of 16
  void (*leaf_scores)(const LeafScores&) = nullptr;
  void (*leaf_solve)(const LeafSolve&) = nullptr;
  void (*leaf_solve_back)(const LeafSolve&) = nullptr;
  void (*leaf_grad)(const LeafGrad&) = nullptr;
  void (*tile_grad)(const TileGrad&) = nullptr;
  void (*chunk_grad)(const ChunkGrad&) = nullptr;
  // out_c = factor_c sum_r x[r,c] y[r,c]
  void (*column_dots)(const float* x, const float* y, std::int64_t ld, std::int64_t rows,
                      std::int64_t cols, const float* factor, float* out) = nullptr;
  void (*token)(const Token&) = nullptr;
};

extern const Micro kPortable;
extern const Micro kAvx2;    // with FMA
extern const Micro kAvx512;  // F, BW, DQ, VL

// "portable", "avx2", "avx512"; null if this processor lacks it or the name is unknown.
const Micro* find_micro(std::string_view name);
const Micro& best_micro();

}  // namespace parity::kda_kernel
