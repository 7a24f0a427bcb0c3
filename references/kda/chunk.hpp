// The chunked delta rule in f32 with a contract's rounding points: one sequence and value head at a
// time (kda.md §4).
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "references/kda/dense.hpp"
#include "references/kda/faults.hpp"
#include "references/kda/points.hpp"
#include "references/kda/problem.hpp"

namespace parity::kda {

using Floats32 = std::vector<float>;

inline constexpr float kLog2e = 1.44269502F;  // 0x3FB8AA3B: gates are kept in log2 units
inline constexpr std::size_t kSub = 16;  // rows of a sub-chunk: blocks of the triangular inverse

// Orders of summation by length: ascending in the base, shuffled in its variants.
class Orders {
 public:
  explicit Orders(std::uint64_t seed) : seed_(seed) {}  // 0: ascending
  const std::uint16_t* of(std::size_t length);

 private:
  std::uint64_t seed_;
  std::map<std::size_t, std::vector<std::uint16_t>> orders_ = {};
};

// Everything that the loops of one evaluation share.
struct Engine {
  const Setup& setup;
  Points points = {};
  Fault fault = Fault::None;
  std::size_t chunk = 64;
  float diagonal_anchor =
      0;  // log2 units below the first row, for diagonal blocks made as one product
  Noise noise = {};
  Orders orders{0};
  bool substitute = false;  // v' by substitution, not through the inverse M (chunk_solve.cpp)
  // Sums start from what the product is added to and take one term after the other, as kernels with
  // one chain of fused multiply-adds do. Legal, and noisier than a product that is summed first
  // where that is small. Of variants only.
  bool chained = false;
  bool open = false;  // every gate of the case is 0 (faults of the branch without a gate)
  float scalar = 0;   // sum of S_T dS_T over all sequences and heads (ScalarStateGradient)

  bool has(Fault f) const { return fault == f; }
  // c[n x m] = a[n x k] b[k x m]
  void multiply(Floats32& c, Strided a, const Floats32& b, std::size_t n, std::size_t m,
                std::size_t k);
  // c[n x m] += sign a[n x k] b[k x m]
  void add_product(Floats32& c, Strided a, const Floats32& b, std::size_t n, std::size_t m,
                   std::size_t k, float sign);
  void exp2(Floats32& y, const Floats32& x) const;  // in place is fine
  void round(const Point& point, Floats32& x) { point(x, noise); }
};

// What the recurrence sees, whole tensors in f32.
struct Wide {
  Floats32 q, k, v, g, beta, h0, d_o, d_ht;  // q, k normalised; g natural log, effective
};

// One chunk of one chain; matrices have rows of K, V or n.
struct Chunk {
  std::size_t n = 0;
  std::int64_t row = 0;         // row of its first token among the B*T
  Floats32 q, k, v, beta, d_o;  // beta: n
  Floats32 G;                   // prefix sums, log2 units
  Floats32 eG, eLast;           // 2^G; 2^(G_last), K
  Floats32 tail;                // 2^(G_last - G)
  Floats32 Aqk, L, M;           // n x n; M rounded
  Floats32 w, kg, qg, v_new;    // rounded; w is beta k 2^G where there is no inverse, k 2^G where
                                // it is applied to the residual
  Floats32 h;                   // S_in as operand, rounded, K x V
  Floats32 stray;               // faults: gates of another row, K, in place of the right one
  bool first = false, last = false, second = false;  // of its sequence; of a pair (chunk borders)
  std::function<void(const Floats32& dh, Floats32& dG_last)> padding = {};  // TailGateSum
};

// Gradients of one chain in f32, accumulated per value head.
struct ChainGradients {
  Floats32 dq, dk, dv, dG, dbeta;  // of one chunk: n rows
};

void fill_products(Engine&, Chunk&);  // Aqk, L, M
// In place: (I + L)^-1 x and (I + L)^-T x, n rows.
void solve_forward(const Chunk&, Floats32& x, std::size_t columns);
void solve_backward(const Chunk&, Floats32& x, std::size_t columns);
void forward_chunk(Engine&, Chunk&, Floats32& S, float* o, std::size_t o_stride);
// dS: gradient of the state after the chunk on entry, before it on return.
void backward_chunk(Engine&, const Chunk&, Floats32& dS, ChainGradients&);
// Adds the terms of dAqk and dL to dq, dk, dbeta and dG.
void backward_products(Engine&, const Chunk&, const Floats32& dAqk, const Floats32& dL,
                       ChainGradients&);

Floats32 transposed(const Floats32& x, std::size_t rows, std::size_t columns);
inline Strided by_rows(const Floats32& x, std::size_t columns) { return {x.data(), columns, 1}; }
inline Strided by_columns(const Floats32& x, std::size_t columns) { return {x.data(), 1, columns}; }

}  // namespace parity::kda
