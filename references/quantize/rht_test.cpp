// The random Hadamard transform: known answer, inverse, products that it leaves alone.
#include "references/quantize/rht.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "harness/numeric/philox.hpp"

namespace parity::quantize {
namespace {

Matrix noise(std::int64_t rows, std::int64_t columns, std::uint64_t seed, Dtype dtype) {
  Matrix m{.rows = rows, .columns = columns};
  const Rng rng{seed, 0};
  for (std::int64_t i = 0; i < rows * columns; ++i)
    m.values.push_back(
        static_cast<float>(round_to(dtype, rng.normal(static_cast<std::uint64_t>(i)))));
  return m;
}

// a b^T, in double.
std::vector<double> product(const Matrix& a, const Matrix& b) {
  std::vector<double> c;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.rows; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k)
        sum += static_cast<double>(a.values[static_cast<std::size_t>(i * a.columns + k)]) *
               static_cast<double>(b.values[static_cast<std::size_t>(j * b.columns + k)]);
      c.push_back(sum);
    }
  return c;
}

double relative(const std::vector<double>& want, const std::vector<double>& got) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (want[i] - got[i]) * (want[i] - got[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

TEST(Rht, DefaultSigns) {
  const Signs te = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
  EXPECT_EQ(signs_of(kTeSigns), te);
}

// f(i) = ((37 i + 11) mod 64 - 32)/8 with 5.25 at 5: exact, and already bf16.
TEST(Rht, KnownAnswer) {
  Matrix x{.rows = 1, .columns = 16};
  for (int i = 0; i < 16; ++i)
    x.values.push_back(i == 5 ? 5.25F : static_cast<float>((37 * i + 11) % 64 - 32) / 8);
  const std::vector<float> want = {-2.625F, -.5F, 1.25F, -.125F, -2.375F, -4.5F, 1.75F, -2.875F,
                                   -2.125F, 0,    -2.5F, 1.125F, 1.875F,  2.25F, 3.5F,  -4.625F};
  EXPECT_EQ(rht(x, signs_of(kTeSigns), Dtype::BF16).values, want);
  EXPECT_EQ(
      rht_inverse(rht(x, signs_of(kTeSigns), Dtype::F32), signs_of(kTeSigns), Dtype::F32).values,
      x.values);
}

// Every unit vector comes back, for every sign vector that differs in one place and the TE one.
TEST(Rht, InverseIsItsTranspose) {
  Matrix unit{.rows = 16, .columns = 16, .values = std::vector<float>(256, 0)};
  for (std::size_t i = 0; i < 16; ++i) unit.values[17 * i] = 1;
  for (int bit = -1; bit < 16; ++bit) {
    const Signs signs = signs_of(static_cast<std::uint16_t>(bit < 0 ? kTeSigns : 1 << bit));
    const Matrix r = rht(unit, signs, Dtype::BF16);
    for (const float entry : r.values) EXPECT_EQ(std::fabs(entry), 0.25F);
    EXPECT_EQ(rht_inverse(r, signs, Dtype::BF16).values, unit.values);
    EXPECT_EQ(rht(rht_inverse(unit, signs, Dtype::BF16), signs, Dtype::BF16).values, unit.values);
  }
}

// (A R)(B R)^T = A B^T with the same signs; with another sign vector nothing of it is left, and a
// wrong order that both share does not show in the product.
TEST(Rht, BothOperandsCancel) {
  const Matrix a = noise(8, 64, 1, Dtype::BF16);
  const Matrix b = noise(12, 64, 2, Dtype::BF16);
  const Signs signs = signs_of(kTeSigns);
  const std::vector<double> plain = product(a, b);
  EXPECT_LT(relative(plain, product(rht(a, signs, Dtype::F32), rht(b, signs, Dtype::F32))), 1e-6);
  EXPECT_LT(relative(plain, product(rht(a, signs, Dtype::BF16), rht(b, signs, Dtype::BF16))), 5e-3);
  const auto with = [&](Defect of_a, Defect of_b) {
    return relative(plain,
                    product(rht(a, signs, Dtype::F32, of_a), rht(b, signs, Dtype::F32, of_b)));
  };
  EXPECT_GT(with(Defect::None, Defect::RhtOtherSigns), 0.3);
  EXPECT_GT(with(Defect::None, Defect::RhtNoSigns), 0.7);
  EXPECT_GT(with(Defect::None, Defect::RhtOrder), 0.7);
  EXPECT_LT(with(Defect::RhtOrder, Defect::RhtOrder), 1e-6);
}

// The sum is exact: what cancels leaves the small term, whatever the order.
TEST(Rht, SumIsExact) {
  Matrix x{.rows = 1, .columns = 16, .values = std::vector<float>(16, 0)};
  x.values[0] = 0x1p100F;
  x.values[1] = 0x1p-20F;
  x.values[2] = -0x1p100F;
  const Matrix y = rht(x, signs_of(std::uint16_t{0}), Dtype::BF16);
  EXPECT_EQ(y.values[0], 0x1p-22F);
  EXPECT_EQ(y.values[1], -0x1p-22F);
  x.values[1] = std::numeric_limits<float>::quiet_NaN();
  for (const float v : rht(x, signs_of(kTeSigns), Dtype::BF16).values) EXPECT_TRUE(std::isnan(v));
}

TEST(Rht, RefusesWhatIsNoSignVector) {
  TensorSpec spec = vector_spec("signs", 16);
  std::vector<double> signs(16, 1);
  EXPECT_EQ(signs_of(make_tensor(spec, signs)), signs_of(std::uint16_t{0}));
  signs[3] = 0;
  EXPECT_ANY_THROW(signs_of(make_tensor(spec, signs)));
  EXPECT_ANY_THROW(signs_of(make_tensor(vector_spec("signs", 8), std::vector<double>(8, 1))));
}

}  // namespace
}  // namespace parity::quantize
