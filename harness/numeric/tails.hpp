// Upper quantiles of the distributions that limits come from: the value that is exceeded with
// probability p, for p down to 1e-300 where the distribution reaches it (a family-wise target over
// many elements and many tensors needs 1e-10 and less, where tables and two-digit formulas end).
#pragma once

namespace parity {

// I_x(a, b), the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22,
// evaluated with Lentz' method). About 1e-13 relative.
[[nodiscard]] double incomplete_beta(double a, double b, double x);

[[nodiscard]] double normal_upper(double p);
[[nodiscard]] double student_upper(double p, double dof);
[[nodiscard]] double chi_square_upper(double p, double dof);  // Wilson and Hilferty 1931
[[nodiscard]] double fisher_upper(double p, double dof_above, double dof_below);

}  // namespace parity
