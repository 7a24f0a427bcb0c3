// The rounding points of the chunked kernels, by the names that a contract uses (kda.md §4.2),
// applied to f32 values.
//
//   qk            normalised q and k
//   g             the chunk's prefix sums of the gate
//   aqk m         Aqk; the inverse M
//   beta_k kbg    k beta, and then with e^G: operand of w
//   beta_v        beta v: operand of u
//   w u kg qg     as in kda.md §4
//   residual      beta (v - (k e^G) S), which M makes v' of where there is neither w nor u
//   v_new         v' = u - w S
//   h             S_in of a chunk, as operand
//   state         the carried S itself (FlashKDA)
//   products      operands of the products inside a chunk, off its diagonal 16 x 16 blocks
//   diagonal      operands in the diagonal blocks, which are then one product with a common anchor
//   between       the same in five products, each with a boundary between the two tokens as anchor
//   merge         operands of the products that merge the inverses of the diagonal blocks
//   dv_new        dv', after Aqk^T do and after + kg dS
//   dh h_dh       dS_out of a chunk, as operand; products S_in dS_out and their row sums
//   adjoint       (I + L)^-T dv', alone and times beta, where there is no dW
//   dw kge        dW, and k e^G beside it in dM
//   dm            dM before each of its two products
//   d_diagonal    like diagonal, in the backward
//   d_parts       the same with each operand in two parts, three of whose four products are added
//   dqk           dq and dk before the backward of the norm
//   dbias         the raw gate's gradient before its sum over tokens, and the sum
//   o             the output itself, where it is not rounded to nearest
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "harness/bound.hpp"

namespace parity::kda {

// Bits for the variants' roundings, a function of the value; off in the base itself.
struct Noise {
  std::uint64_t seed = 0;
  bool on = false;
  std::uint32_t of(std::uint64_t value) const {  // splitmix64
    std::uint64_t z = (value + seed) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
  }
};

// Each value times 1 + u, |u| <= 2^-24 and a function of the value: what a rounding to f32 may do.
// Values that look exact are left alone.
void jitter(std::span<float> x, const Noise&);

// One point: rounds in place. In the variants truncation is kept (it belongs to the contract),
// rounding to nearest is done on a randomly shifted grid, and where nothing is stored narrow the
// value is jittered, so that every rounding to f32 is drawn anew and not only the order of sums.
struct Point {
  Dtype to = Dtype::F32;
  Rounding mode = Rounding::NearestEven;
  void operator()(std::span<float> x, const Noise& noise) const;
  bool on() const { return to != Dtype::F32; }
};

struct Points {
  Point qk, aqk, m, w, u, kg, qg, v_new, h, state, beta_k, kbg, beta_v, products, diagonal, between,
      merge, residual, adjoint;
  Point dv_new, dh, h_dh, dw, kge, dm, dqk, g, dbias, o, d_diagonal, d_parts;
};
Points points_of(const Contract&);  // throws Failure naming a point that is not in the list above

}  // namespace parity::kda
