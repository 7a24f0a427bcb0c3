// The probes are what they say, drawn as everything else is, and the vectorised model agrees with
// its definition on them.
#include "references/tensorcore/probes.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

#include "harness/numeric/philox.hpp"
#include "references/tensorcore/gemm.hpp"

namespace parity::tensorcore {
namespace {

Fields fields_of(Dtype d) {
  const Format& f = format(d);
  return {f.exponent_bits, f.mantissa_bits, f.has_inf};
}

double value(Dtype d, std::uint32_t code) { return decode(d, code); }

TEST(Probes, DrawsArePhilox) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto want = philox4x32_10({i, 2 * i, 7, i << 20}, {i + 5, 11});
    const probes::Draw got = probes::philox({i, 2 * i, 7, i << 20}, i + 5, 11);
    EXPECT_EQ(want, (PhiloxCounter{got.x, got.y, got.z, got.w}));
  }
}

TEST(Probes, RecipesAreWhatTheySay) {
  for (const Dtype d : {Dtype::BF16, Dtype::F16, Dtype::E4M3, Dtype::E5M2, Dtype::F32}) {
    const Fields f = fields_of(d);
    std::set<Recipe> with_nan;
    int zeros = 0, subnormals = 0, drawn = 0;
    for (std::uint32_t tile = 0; tile < 64; ++tile)
      for (std::uint32_t row = 0; row < 16; ++row)
        for (std::uint32_t k = 0; k < 32; ++k) {
          const Recipe recipe = recipe_of(tile);
          const double x = value(d, operand_of(f, 1, tile, 0, row, k));
          if (!std::isfinite(x)) with_nan.insert(recipe);
          if (recipe == Recipe::Zeros) ++drawn, zeros += x == 0 ? 1 : 0;
          if (recipe == Recipe::Subnormal) subnormals += std::abs(x) < format(d).min_normal ? 1 : 0;
          if (recipe != Recipe::Cancels || k % 2 == 1) continue;
          // Neighbours cancel, whatever row of b they meet.
          EXPECT_EQ(x, -value(d, operand_of(f, 1, tile, 0, row, k + 1)));
          EXPECT_EQ(operand_of(f, 1, tile, 1, row, k), operand_of(f, 1, tile, 1, row, k + 1));
        }
    with_nan.erase(Recipe::Bits);  // f16 has few there
    EXPECT_EQ(with_nan, std::set{Recipe::Special}) << name(d);
    EXPECT_NEAR(zeros, drawn / 2, drawn / 20);
    EXPECT_GT(subnormals, 1000);
  }
}

// Sums of every recipe: enough of them are numbers, and no recipe is one number over and over.
TEST(Probes, TheModelsAgreeOnThem) {
  constexpr int kM = 16, kN = 16;
  for (const char* family : {"mma", "wgmma"})
    for (const Dtype d : {Dtype::BF16, Dtype::F16, Dtype::E4M3, Dtype::E5M2, Dtype::F32})
      for (const Dtype accumulate : {Dtype::F32, Dtype::F16}) {
        if (accumulate == Dtype::F16 && (d == Dtype::BF16 || d == Dtype::F32)) continue;
        const Dtype seen = d == Dtype::F32 ? Dtype::TF32 : d;
        const Unit& unit = *find_unit("sm_90", family, seen, seen);
        const Fields f = fields_of(d), of_c = fields_of(accumulate);
        for (std::uint32_t tile = 0; tile < std::uint32_t{kRecipes}; ++tile) {
          std::vector<std::byte> a(static_cast<std::size_t>(kM * unit.k * format(d).bits / 8));
          std::vector<std::byte> b = a;
          std::vector<float> c;
          for (std::uint32_t m = 0; m < kM; ++m)
            for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(unit.k); ++k) {
              const std::int64_t at = std::int64_t{m} * unit.k + k;
              store_code(d, a.data(), at, operand_of(f, 3, tile, 0, m, k));
              store_code(d, b.data(), at, operand_of(f, 3, tile, 1, m, k));
            }
          for (std::uint32_t m = 0; m < kM; ++m)
            for (std::uint32_t n = 0; n < kN; ++n)
              c.push_back(value_of(accumulate, accumulator_of(of_c, 3, tile, m, n)));
          const Product p{.a = {.dtype = d, .codes = a.data(), .rows = kM},
                          .b = {.dtype = d, .codes = b.data(), .rows = kN},
                          .K = unit.k,
                          .schedule = {.unit = &unit, .accumulate = accumulate},
                          .c = c.data()};
          const std::vector<float> fast = accumulators(p, /*threads=*/1);
          std::set<std::uint32_t> seen_sums;
          for (std::uint32_t m = 0; m < kM; ++m)
            for (std::uint32_t n = 0; n < kN; ++n) {
              const float sum = fast[m * kN + n];
              const std::uint64_t want = accumulator(p, m, n, accumulator_of(of_c, 3, tile, m, n));
              EXPECT_EQ(std::bit_cast<std::uint32_t>(sum),
                        std::bit_cast<std::uint32_t>(value_of(accumulate, want)))
                  << unit.name() << " " << kRecipeNames[tile] << " " << m << " " << n;
              seen_sums.insert(std::bit_cast<std::uint32_t>(sum));
            }
          EXPECT_GT(seen_sums.size(), accumulate == Dtype::F16 ? 2U : 8U)
              << unit.name() << " " << kRecipeNames[tile];
        }
      }
}

}  // namespace
}  // namespace parity::tensorcore
