// The inner loops of the fp64 recurrence, over one row of V contiguous value columns. Compiled
// three times (rows.cpp, rows_avx2.cpp, rows_avx512.cpp from rows.inl) and chosen at run time: sums
// run in eight fixed lanes and nothing is contracted, so the bits are the same on every machine.
#pragma once

#include <cstddef>

namespace parity::kda {

// What closes a token in the backward, by value column.
struct Columns {
  const double *u, *de;
  const double *A, *M;  // companions of Lam and of the state before the token
  const double *u_error, *de_error;
};

struct BackwardSums {
  double lam_u = 0, state_de = 0;       // sum_v Lam u, sum_v S~ de
  double lam_u_error = 0;               // sum_v (Lam u_error)^2
  double state_de_error = 0;            // sum_v (S~ de_error)^2
  double d_state = 0, abs_d_state = 0;  // sum_v D S~, sum_v |D S~|
  double lam_error = 0;                 // sum_v (A S~)^2
  double state_error = 0;               // sum_v (D M)^2
};

struct Rows {
  // row *= a;  r += k row;  kept += (w row)^2;  read += (x row)^2
  void (*decay)(double* row, double a, double k, double w, double x, double* r, double* kept,
                double* read, std::size_t V);
  // row += k u;  o += q row
  void (*write)(double* row, double k, const double* u, double q, double* o, std::size_t V);
  // row += k u
  void (*add)(double* row, double k, const double* u, std::size_t V);
  // lam += q d_o;  du += k lam;  kept += (w lam)^2;  read += (x lam)^2;  returns sum_v state d_o
  double (*adjoint)(double* lam, const double* state, double q, double k, double w, double x,
                    const double* d_o, double* du, double* kept, double* read, std::size_t V);
  // The sums above with D = lam - k de, then lam = a D.
  BackwardSums (*close)(double* lam, const double* state, double a, double k, const Columns&,
                        std::size_t V);
  double (*dot)(const double* x, const double* y, std::size_t V);
};

extern const Rows kRows;
extern const Rows kRowsAvx2;
extern const Rows kRowsAvx512;
const Rows& rows();  // the widest that this processor has

}  // namespace parity::kda
