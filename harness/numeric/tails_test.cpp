#include "harness/numeric/tails.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace parity {
namespace {

TEST(Tails, NormalQuantilesOfPrintedTables) {
  EXPECT_NEAR(normal_upper(0.5), 0, 1e-15);
  EXPECT_NEAR(normal_upper(0.025), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_upper(1e-10), 6.361340902404056, 1e-9);
  EXPECT_NEAR(normal_upper(0.975), -1.959963984540054, 1e-12);
  EXPECT_TRUE(std::isinf(normal_upper(0)));
}

TEST(Tails, TheyInvertTheirTails) {
  for (const double p : {0.2, 1e-3, 1e-8, 1e-12, 1e-100}) {
    EXPECT_NEAR(0.5 * std::erfc(normal_upper(p) / std::sqrt(2.0)) / p, 1, 1e-9) << p;
  }
}

// Student's t with 1 and 2 degrees of freedom has closed forms.
TEST(Tails, StudentAgainstClosedForms) {
  for (const double p : {0.1, 1e-3, 1e-6, 1e-10}) {
    EXPECT_NEAR(student_upper(p, 1) * std::tan(3.14159265358979323846 * p), 1, 1e-9) << p;
    const double alpha = 4 * p * (1 - p);
    EXPECT_NEAR(student_upper(p, 2) / ((1 - 2 * p) * std::sqrt(2 / alpha)), 1, 1e-9) << p;
  }
  EXPECT_NEAR(student_upper(0.025, 8), 2.306004135033371, 1e-9);
  EXPECT_NEAR(student_upper(0.05, 8), 1.859548037530898, 1e-9);
  EXPECT_NEAR(student_upper(1e-10, 1e6), normal_upper(1e-10), 1e-3);
}

TEST(Tails, FisherAgainstStudentAndTables) {
  // F(1, n) is the square of t(n), two-sided.
  EXPECT_NEAR(fisher_upper(0.05, 1, 8), 2.306004135033371 * 2.306004135033371, 1e-8);
  EXPECT_NEAR(fisher_upper(0.05, 10, 20), 2.347877567, 1e-6);
  EXPECT_NEAR(fisher_upper(1e-9, 2e5, 3e5), fisher_upper(1e-9, 99999, 299999), 0.03);
}

TEST(Tails, ChiSquareWithinAThousandthOfTables) {
  EXPECT_NEAR(chi_square_upper(0.05, 10), 18.307, 0.02);
  EXPECT_NEAR(chi_square_upper(0.001, 100), 149.449, 0.15);
}

TEST(Tails, IncompleteBetaSymmetry) {
  for (const double x : {0.01, 0.3, 0.5, 0.9})
    EXPECT_NEAR(incomplete_beta(2.5, 7, x) + incomplete_beta(7, 2.5, 1 - x), 1, 1e-12);
  EXPECT_NEAR(incomplete_beta(1, 1, 0.37), 0.37, 1e-14);
}

}  // namespace
}  // namespace parity
