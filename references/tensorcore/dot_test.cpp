// The software tensor core against published vectors, and against exact arithmetic wherever nothing
// is truncated.
#include "references/tensorcore/dot.hpp"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/numeric/philox.hpp"

namespace parity::tensorcore {
namespace {

using Codes = std::vector<std::uint64_t>;

std::uint64_t f32(double x) { return encode(Dtype::F32, x); }

Instruction instruction(std::string_view arch, std::string_view family, Dtype type,
                        Dtype d = Dtype::F32) {
  return {find_unit(arch, family, type, type), type, type, d};
}

// Products x_i * 1, c: as codes of the instruction's types.
std::uint64_t sum_of(const Instruction& i, double c, const std::vector<double>& products) {
  Codes a, b;
  for (const double p : products) {
    a.push_back(encode(i.a, std::ldexp(p, std::ilogb(p) < 0 ? -std::ilogb(p) / 2 : 0)));
    b.push_back(encode(i.b, std::ldexp(1.0, std::ilogb(p) < 0 ? std::ilogb(p) / 2 : 0)));
  }
  return dot(i, {a, b}, encode(i.d, c));
}

struct Row {
  const char* what;
  double c;
  std::vector<double> products;
  std::uint64_t bits23, bits24, bits25, bits13;
};

TEST(TensorCore, PublishedVectors) {
  constexpr std::uint64_t kOne = 0x3F800000, kNext = 0x3F800001;
  const std::vector<Row> rows = {
      {"two products of 2^-24", 1, std::vector(2, 0x1p-24), kOne, kNext, kNext, kOne},
      {"four of 2^-25", 1, std::vector(4, 0x1p-25), kOne, kOne, kNext, kOne},
      {"eight of 2^-26", 1, std::vector(8, 0x1p-26), kOne, kOne, kOne, kOne},
      {"2^-24 and 2^-25", 1, {0x1p-24, 0x1p-25}, kOne, kOne, kOne, kOne}};
  for (const Row& row : rows) {
    // sm_70 adds four at once.
    const std::uint64_t volta =
        row.products.size() > 4
            ? row.bits23
            : sum_of(instruction("sm_70", "mma", Dtype::F16), row.c, row.products);
    EXPECT_EQ(volta, row.bits23) << row.what;
    EXPECT_EQ(sum_of(instruction("sm_75", "mma", Dtype::F16), row.c, row.products), row.bits24)
        << row.what;
    EXPECT_EQ(sum_of(instruction("sm_80", "mma", Dtype::BF16), row.c, row.products), row.bits24)
        << row.what;
    for (const char* family : {"mma", "wgmma"})
      for (const Dtype type : {Dtype::F16, Dtype::BF16})
        EXPECT_EQ(sum_of(instruction("sm_90", family, type), row.c, row.products), row.bits25)
            << row.what;
    EXPECT_EQ(sum_of(instruction("sm_100", "tcgen05", Dtype::BF16), row.c, row.products),
              row.bits25)
        << row.what;
    EXPECT_EQ(sum_of(instruction("sm_90", "wgmma", Dtype::E5M2), row.c, row.products), row.bits13)
        << row.what;
  }
}

// ---- block-scaled fp4

std::uint64_t nvfp4(const std::vector<double>& first_of_blocks, double c, std::uint64_t scale_a,
                    double b = 1, int elements = 1) {
  const Instruction i = instruction("sm_120", "mma.mxf4nvf4", Dtype::E2M1);
  Codes a(64, 0), ones(64, encode(Dtype::E2M1, b));
  for (std::size_t block = 0; block < first_of_blocks.size(); ++block)
    for (int e = 0; e < elements; ++e)
      a[16 * block + static_cast<std::size_t>(e)] = encode(Dtype::E2M1, first_of_blocks[block]);
  const std::uint64_t unit = encode(Dtype::E4M3, 1);
  const Codes sa = {scale_a, unit, unit, unit}, sb(4, unit);
  return dot(i, {a, ones, sa, sb}, f32(c));
}

TEST(TensorCore, BlockScaledVectors) {
  const std::uint64_t unit = encode(Dtype::E4M3, 1);
  EXPECT_EQ(nvfp4({1, -1}, 0x1p-35, unit), f32(0x1p-35));
  EXPECT_EQ(nvfp4({1, -1}, 0x1p-36, unit), 0u);
  // Sums of blocks are not renormalised: 576 - 576 + 2^-35.
  EXPECT_EQ(nvfp4({6, -6}, 0x1p-35, unit, 6, 16), f32(0x1p-35));
  EXPECT_EQ(nvfp4({1}, -0x1p-30, unit), 0x3F7FFFFFu);  // truncated
  EXPECT_EQ(nvfp4({1}, 0, 0x7F), kNanF32);
  EXPECT_EQ(nvfp4({1}, std::nan(""), unit), kNanF32);
  EXPECT_EQ(nvfp4({1}, 0, unit | 0x80), f32(1));  // the sign of a scale is not looked at
  EXPECT_EQ(nvfp4({1}, 0, 1), f32(0x1p-9));       // a subnormal scale
}

TEST(TensorCore, ScaleExponentsAreAdded) {
  const Instruction i = instruction("sm_100", "tcgen05.mxf8f6f4", Dtype::E4M3);
  const Codes a = {encode(Dtype::E4M3, 1.5)}, b = {encode(Dtype::E4M3, -2)};
  const auto scaled = [&](std::uint64_t sa, std::uint64_t sb) {
    const Codes scale_a = {sa}, scale_b = {sb};
    return dot(i, {a, b, scale_a, scale_b}, 0);
  };
  EXPECT_EQ(scaled(127, 127), f32(-3));
  EXPECT_EQ(scaled(130, 120), f32(-3 * 0x1p-4));
  EXPECT_EQ(scaled(254, 254), 0xFF800000u);  // beyond f32
  EXPECT_EQ(scaled(0, 254), f32(-3));        // 2^-127 2^127: no code is special but NaN
  EXPECT_EQ(scaled(0xFF, 127), kNanF32);
}

// ---- exact arithmetic

// Every pair of codes: one product has no other to be aligned with, and is exact in f32.
TEST(TensorCore, EveryProductOfSmallFormats) {
  for (const Unit& unit : units()) {
    if (unit.scheme == Scheme::BlockDots || unit.scheme == Scheme::Fma) continue;
    for (const Dtype type : unit.inputs) {
      const int bits = format(type).bits;
      if (bits > 8) continue;
      const Instruction i{&unit, type, type, Dtype::F32};
      const Codes unit_scale = {127};
      for (std::uint64_t x = 0; x < std::uint64_t{1} << bits; ++x)
        for (std::uint64_t y = 0; y < std::uint64_t{1} << bits; ++y) {
          const Codes a = {x}, b = {y};
          const double exact = decode(type, x) * decode(type, y);
          const std::uint64_t want = std::isnan(exact) ? kNanF32 : f32(exact + 0.0);
          ASSERT_EQ(dot(i, {a, b, unit_scale, unit_scale}, 0), want)
              << unit.name() << " " << name(type) << " " << x << " " << y;
        }
    }
  }
}

// Four fp4 factors in all 2^16 ways, beside a c: within F bits of each other, so that the sum is
// exact, and short enough for f32.
TEST(TensorCore, EverySumOfTwoFp4Products) {
  const Instruction plain = instruction("sm_100", "tcgen05", Dtype::E2M1);
  const Instruction blocks = instruction("sm_100", "tcgen05.mxf4", Dtype::E2M1);
  const Codes scales(2, 127);
  for (std::uint64_t bits = 0; bits < 1 << 16; ++bits) {
    const Codes a = {bits & 15, (bits >> 4) & 15}, b = {(bits >> 8) & 15, bits >> 12};
    const double sum = decode(Dtype::E2M1, a[0]) * decode(Dtype::E2M1, b[0]) +
                       decode(Dtype::E2M1, a[1]) * decode(Dtype::E2M1, b[1]) - 0.375;
    ASSERT_EQ(dot(plain, {a, b}, f32(-0.375)), f32(sum)) << bits;
    ASSERT_EQ(dot(blocks, {a, b, scales, scales}, f32(-0.375)), f32(sum)) << bits;
  }
}

// Sums of a whole instruction against integers: |x| of e4m3 are multiples of 2^-9 below 2^9, so
// that their products' sum is an integer times 2^-18, below 2^42. A wide F keeps all of it, and
// what is left is one truncation.
TEST(TensorCore, TruncatesAnExactSumOnce) {
  Unit wide = *find_unit("sm_100", "tcgen05", Dtype::E4M3, Dtype::E4M3);
  wide.fraction = 40;
  const Rng rng{5, 0};
  std::uint64_t draw = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Codes a, b;
    std::int64_t sum = 0;
    for (int k = 0; k < 32; ++k) {
      a.push_back(static_cast<std::uint64_t>(rng.integer(draw, 0, 0x7E)) |
                  (rng.split(1).bits(draw) & 0x80));
      ++draw;
      b.push_back(static_cast<std::uint64_t>(rng.integer(draw++, 0, 0x7E)));
      sum += static_cast<std::int64_t>(0x1p18 * decode(Dtype::E4M3, a.back()) *
                                       decode(Dtype::E4M3, b.back()));
    }
    auto size = static_cast<std::uint64_t>(std::abs(sum));
    const auto width = static_cast<int>(std::bit_width(size));
    if (width > 24) size = size >> (width - 24) << (width - 24);
    const double kept = std::ldexp(static_cast<double>(size), -18);
    for (const Keeps keeps : {Keeps::F32, Keeps::E8M13}) {
      wide.keeps = keeps;
      double want = kept;
      if (keeps == Keeps::E8M13 && width > 14)
        want = std::ldexp(static_cast<double>(size >> (width - 14) << (width - 14)), -18);
      ASSERT_EQ(dot({&wide, Dtype::E4M3, Dtype::E4M3, Dtype::F32}, {a, b}, 0),
                f32(sum < 0 ? -want : want + 0.0));
    }
    // An f16 accumulator rounds the same sum to nearest even.
    ASSERT_EQ(dot({&wide, Dtype::E4M3, Dtype::E4M3, Dtype::F16}, {a, b}, 0),
              encode(Dtype::F16, std::ldexp(static_cast<double>(sum), -18)));
  }
}

// ---- infinities, NaN, zeros, subnormals

TEST(TensorCore, SpecialValues) {
  constexpr std::uint64_t kInf = 0x7F800000, kMinusInf = 0xFF800000;
  const auto bf16 = [](double x) { return encode(Dtype::BF16, x); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [arch, family] : {std::pair{"sm_90", "wgmma"}, std::pair{"sm_100", "tcgen05"}}) {
    const Instruction i = instruction(arch, family, Dtype::BF16);
    const auto run = [&](std::vector<double> a, std::vector<double> b, std::uint64_t c) {
      Codes x, y;
      for (const double v : a) x.push_back(bf16(v));
      for (const double v : b) y.push_back(bf16(v));
      return dot(i, {x, y}, c);
    };
    EXPECT_EQ(run({kInfinity}, {1}, 0), kInf);
    EXPECT_EQ(run({kInfinity}, {-1}, 0), kMinusInf);
    EXPECT_EQ(run({kInfinity}, {0}, 0), kNanF32);
    EXPECT_EQ(run({kInfinity, kInfinity}, {1, -1}, 0), kNanF32);
    EXPECT_EQ(run({1}, {1}, kInf), kInf);
    EXPECT_EQ(run({kInfinity}, {-1}, kInf), kNanF32);
    EXPECT_EQ(run({1}, {1}, 0x7FC00001), kNanF32);            // no payload survives
    EXPECT_EQ(run({0x1p127}, {2}, 0), kInf);                  // overflow of a truncated sum
    EXPECT_EQ(run({0x1p127, 0x1p127}, {2, -2}, f32(1)), 0u);  // none: the terms cancel, and trim c
    EXPECT_EQ(run({-0.0}, {1}, 0x80000000), 0u);              // every zero is +0
    EXPECT_EQ(run({1, 1}, {1, -1}, 0x80000000), 0u);
    EXPECT_EQ(run({0x1p-100}, {0x1p-49}, 0), 1u);            // subnormals are kept
    EXPECT_EQ(run({0x1p-133}, {0x1p10}, 0), f32(0x1p-123));  // as operands too
    EXPECT_EQ(run({0x1p-100}, {-0x1p-60}, 0), 0u);           // below half of the least: truncated
    // A zero takes no part in the alignment.
    EXPECT_EQ(run({0, 0x1p-100}, {0x1p126, 0x1p-20}, 0), f32(0x1p-120));
  }
}

TEST(TensorCore, Fp8OfMmaSyncIsTwoHalfStepsAndAnAddition) {
  const Instruction mma = instruction("sm_90", "mma", Dtype::E4M3);
  const Instruction wgmma = instruction("sm_90", "wgmma", Dtype::E4M3);
  const Codes a(32, encode(Dtype::E4M3, 1)), one(32, encode(Dtype::E4M3, 1));
  Codes b = one;
  b[0] = encode(Dtype::E4M3, 256);
  b[1] = encode(Dtype::E4M3, 0x1p-9);
  // 13 bits below 256 end at 2^-5.
  EXPECT_EQ(dot(wgmma, {a, b}, 0), f32(256 + 30));
  EXPECT_EQ(dot(mma, {a, b}, 0), f32(256 + 30 + 0x1p-9));
  // c is added to nearest even, where an instruction that aligns it would truncate.
  EXPECT_EQ(dot(mma, {one, one}, f32(0x1p30)), f32(0x1p30));
  EXPECT_EQ(dot(mma, {one, one}, f32(0x1p29 + 64)), f32(0x1p29 + 128));
}

// Found by ci/device/tensorcore_check on an H200, among 7e8 outputs: operands go through f16, where
// subnormal e4m3 numbers are normal, and products with them have smaller nominal exponents.
TEST(TensorCore, Fp8OfMmaSyncNormalisesWhatWasSubnormal) {
  struct Recorded {
    Dtype a, b;
    std::uint64_t c, d;
    std::string_view row, column;
  };
  const Recorded all[] = {
      {Dtype::E4M3, Dtype::E5M2, 0x3df0f80b, 0x429af9b1,
       "1ada00058000802c81f658806edb8180e4808066f6000003008000800400e184",
       "0080a1a1807780a2808026a08000f7803900008080f1f400ea003a2d72ab3d2c"},
      {Dtype::E4M3, Dtype::E5M2, 0x80000000, 0x3dba1e00,
       "6472e200bf800000ea81007680808000f58360a60080b080808080f480800f00",
       "80803e800080f300b4f5260080f700ea00a18031f12bb4ad0000a48068008000"},
      {Dtype::E4M3, Dtype::E5M2, 0xb6e8f4fe, 0x42860805,
       "71c1b7f5b506634491043381d345c18490809385b7d6806451666445b081c417",
       "8288a0c0c0a090a180c983f8192059a859102359a242f3802b9821894b58b181"},
      {Dtype::E5M2, Dtype::E4M3, 0x80000000, 0x4669c2d6,
       "9c13523dc5a74cd42950b214830c2446e9430192099fb7bc1c07e8ba86926c85",
       "59502ac6b24b06f63812712287c8ce6505c0f1c8565921440ad90e12de311df6"},
      {Dtype::E5M2, Dtype::E4M3, 0x0acf4a2e, 0x44cfc97a,
       "9a0921107928004a201249f8a3c0f02bc8a388433a9aa9e00201b3c389088928",
       "c1b0e1e18752d19204f3929037d3a1139296f75556c67015f293a204c5e65397"},
      {Dtype::E5M2, Dtype::E4M3, 0x41c5af53, 0x4346a52c,
       "00758000800071f600a12c8080002e802cf6f4000000f5236b6880f12ee900ac",
       "80849000101b0000800180eb8036b327e000008080f580001c00f38085000000"},
      {Dtype::E5M2, Dtype::E4M3, 0x861e4c90, 0x43878259,
       "41a1538bb91150e93bb16bc042dab1bbfba01a62d9085bbb69582a813b11a8ba",
       "75f11162b7b12603c71486f5b111c596066185b216b18251268163d10c5592a7"},
      {Dtype::E5M2, Dtype::E4M3, 0xb9ab57be, 0xc4be810a,
       "1bc34212a9c0328b8251b203536a43d84b7b0929ed2951a2136b48e9401bb1b2",
       "d0069714d4d14382f704a11556935286c087c4c51592310705a1d217f63621a2"},
      {Dtype::E5M2, Dtype::E4M3, 0xaef784e1, 0x43bc60af,
       "5caa2f48a0bd6792e273277a9beec323c54849a354b4a34238ad0e920d8250a2",
       "9c8cd618f65b94982416d6044721edbc362a2d1f0fd97130125eb1980066b1c2"},
  };
  const auto codes = [](std::string_view hex) {
    Codes list;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      list.push_back(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16));
    return list;
  };
  for (const Recorded& r : all) {
    const Instruction i{find_unit("sm_90", "mma", r.a, r.b), r.a, r.b, Dtype::F32};
    EXPECT_EQ(dot(i, {codes(r.row), codes(r.column)}, r.c), r.d) << r.row;
  }
}

TEST(TensorCore, InstructionsByName) {
  const Instruction i = parse_instruction("sm_90", "wgmma_m64n8k32_f32_e4m3_e5m2");
  EXPECT_EQ(i.unit->fraction, 13);
  EXPECT_EQ(i.b, Dtype::E5M2);
  EXPECT_EQ(parse_instruction("sm_90", "mma_m8n8k4_f64").unit->scheme, Scheme::Fma);
  for (const char* name :
       {"wgmma", "mma_m16n8_f32_bf16", "mma_m16n8k16_f16_bf16", "wgmma_m64n8k16_f32_e4m3",
        "mma_m16n8k16_bf16_bf16", "mma_m8n8k4_f32_f64"})
    EXPECT_THROW((void)parse_instruction("sm_90", name), std::invalid_argument) << name;
  for (const Unit& unit : units()) {
    EXPECT_EQ(unit.hw_verified, unit.arch == "sm_90") << unit.name();
    EXPECT_EQ(unit.k % unit.group, 0) << unit.name();
  }
}

}  // namespace
}  // namespace parity::tensorcore
