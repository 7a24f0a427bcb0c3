// Sixteen columns at a time give the bits of one dot product after another.
#include "references/tensorcore/gemm.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity::tensorcore {
namespace {

enum class Draw { Normal, AnyBits, Wide };

struct Stored {
  std::vector<std::byte> codes = {};
  std::vector<std::uint8_t> scales = {};
};

Stored drawn(const Unit& unit, Dtype dtype, std::int64_t elements, Draw draw, const Rng& rng) {
  Stored s;
  s.codes.resize(bytes_for(dtype, elements));
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - format(dtype).bits);
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const double wide = std::ldexp(1.0, static_cast<int>(rng.split(1).integer(at, -20, 20)));
    store_code(dtype, s.codes.data(), i,
               draw == Draw::AnyBits
                   ? rng.bits(at) & mask
                   : encode(dtype, rng.normal(at) * (draw == Draw::Wide ? wide : 1)));
    const std::int64_t least = unit.scaling == Scaling::E4M3 ? 0 : 120;
    const auto scale = static_cast<std::uint8_t>(rng.split(2).integer(at, least, least + 15));
    s.scales.push_back(draw == Draw::AnyBits ? static_cast<std::uint8_t>(rng.split(2).bits(at))
                                             : scale);
  }
  return s;
}

std::vector<Isa> instruction_sets() {
  std::vector<Isa> all = {Isa::Plain};
  if (missing_capability("avx2").empty()) all.push_back(Isa::Avx2);
  if (missing_capability("avx512").empty()) all.push_back(Isa::Avx512);
  return all;
}

void expect_equal(const Product& p) {
  std::vector<float> want;
  for (std::int64_t m = 0; m < p.a.rows; ++m)
    for (std::int64_t n = 0; n < p.b.rows; ++n) {
      const std::uint64_t c = accumulator(p, m, n);
      want.push_back(value_of(p.schedule.accumulate, c));
    }
  for (const Isa isa : instruction_sets())
    for (const int threads : {1, 3}) {
      const std::vector<float> got = accumulators(p, threads, isa);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), 4 * got.size()), 0)
          << p.schedule.unit->name() << " " << name(p.a.dtype) << " acc "
          << name(p.schedule.accumulate) << " slice " << p.schedule.slice << " isa "
          << static_cast<int>(isa) << " threads " << threads;
    }
}

TEST(TensorCoreGemm, LanesEqualDotProducts) {
  constexpr std::int64_t M = 5, N = 17, K = 72;  // a tail of every instruction but k8 and k4
  std::uint64_t stream = 0;
  for (const Unit& unit : units())
    for (const Dtype dtype : unit.inputs)
      for (const Draw draw : {Draw::Normal, Draw::AnyBits, Draw::Wide}) {
        if (dtype == Dtype::F64) continue;
        const Stored a = drawn(unit, dtype, M * K, draw, Rng{1, stream++});
        const Stored b = drawn(unit, dtype, N * K, draw, Rng{1, stream++});
        for (const Dtype accumulate : {Dtype::F32, Dtype::F16}) {
          if (accumulate == Dtype::F16 && unit.scheme == Scheme::Fma) continue;
          for (const std::int64_t slice : {0, 32})
            expect_equal({.a = {dtype, a.codes.data(), M, a.scales},
                          .b = {dtype, b.codes.data(), N, b.scales},
                          .K = K,
                          .schedule = {.unit = &unit, .accumulate = accumulate, .slice = slice}});
        }
      }
}

TEST(TensorCoreGemm, SlicesAreAddedInTheirOrder) {
  const Unit* unit = find_unit("sm_90", "wgmma", Dtype::BF16, Dtype::BF16);
  std::vector<std::byte> a(2 * 48), b(2 * 48);
  for (std::int64_t k = 0; k < 48; ++k) {
    store_code(Dtype::BF16, a.data(), k,
               encode(Dtype::BF16, k < 16   ? 0x1p30
                                   : k < 32 ? -0x1p30
                                            : 1));
    store_code(Dtype::BF16, b.data(), k, encode(Dtype::BF16, 1));
  }
  Product p{.a = {Dtype::BF16, a.data(), 1}, .b = {Dtype::BF16, b.data(), 1}, .K = 48};
  p.schedule = {.unit = unit, .slice = 16};
  EXPECT_EQ(accumulators(p, 1).front(), 16);
  p.schedule.descending = true;  // 16 is lost in 2^34
  EXPECT_EQ(accumulators(p, 1).front(), 0);
  p.schedule = {.unit = unit};
  EXPECT_EQ(accumulators(p, 1).front(), 16);
}

TEST(TensorCoreGemm, Tf32InputsAreTruncatedUnlessRounded) {
  const Unit* unit = find_unit("sm_90", "wgmma", Dtype::TF32, Dtype::TF32);
  const float x = 1 + 0x1.8p-11F, one = 1;
  Product p{.a = {Dtype::F32, std::as_bytes(std::span(&x, 1)).data(), 1},
            .b = {Dtype::F32, std::as_bytes(std::span(&one, 1)).data(), 1},
            .K = 1,
            .schedule = {.unit = unit}};
  EXPECT_EQ(accumulators(p, 1).front(), 1);
  p.schedule.nearest_inputs = true;
  EXPECT_EQ(accumulators(p, 1).front(), 1 + 0x1p-10F);
}

}  // namespace
}  // namespace parity::tensorcore
