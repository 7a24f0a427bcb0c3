// The inner loops of the fp64 recurrence, over one row of V contiguous value columns. Compiled
// three times (rows.cpp, rows_avx2.cpp, rows_avx512.cpp from rows.inl) and chosen at run time: sums
// run in eight fixed lanes and nothing is contracted, so the bits are the same on every machine.
#pragma once

#include <cstddef>

namespace parity::kda {

struct BackwardSums {
  double lam_u = 0;        // sum_v Lam u
  double state_de = 0;     // sum_v S~ de
  double d_state = 0;      // sum_v D S~
  double abs_d_state = 0;  // sum_v |D S~|
  double lam_error = 0;    // sum_v (A S~)^2
  double state_error = 0;  // sum_v (D M)^2
};

struct Rows {
  // row *= a;  r += k row;  norm += (w row)^2
  void (*decay)(double* row, double a, double k, double w, double* r, double* norm, std::size_t V);
  // row += k u;  o += q row
  void (*write)(double* row, double k, const double* u, double q, double* o, std::size_t V);
  // row += k u
  void (*add)(double* row, double k, const double* u, std::size_t V);
  // lam += q d_o;  du += k lam;  norm += (w lam)^2;  returns sum_v state d_o
  double (*adjoint)(double* lam, const double* state, double q, double k, double w,
                    const double* d_o, double* du, double* norm, std::size_t V);
  // The sums above with D = lam - k de, then lam = a D. A and M: companions of Lam and S~ by value
  // column.
  BackwardSums (*close)(double* lam, const double* state, double a, double k, const double* u,
                        const double* de, const double* A, const double* M, std::size_t V);
  double (*dot)(const double* x, const double* y, std::size_t V);
};

extern const Rows kRows;
extern const Rows kRowsAvx2;
extern const Rows kRowsAvx512;
const Rows& rows();  // the widest that this processor has

}  // namespace parity::kda
