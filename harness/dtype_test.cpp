#include "harness/dtype.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>
#include <string>

namespace parity {
namespace {

TEST(Dtype, NamesAndAliasesParseBack) {
  for (int i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(parse_dtype(format(dtype).alias), dtype);
    EXPECT_EQ(parse_dtype("torch." + std::string(format(dtype).alias)), dtype);
  }
  EXPECT_EQ(parse_dtype("BF16"), Dtype::BF16);
  EXPECT_EQ(parse_dtype("half"), Dtype::F16);
  EXPECT_EQ(parse_dtype("float4_e2m1fn"), Dtype::E2M1);
}

TEST(Dtype, UnknownNamesTheNearest) {
  try {
    (void)parse_dtype("bflaot16");
    FAIL() << "parsed";
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'bfloat16'"), std::string::npos) << e.what();
  }
  EXPECT_THROW((void)parse_dtype(""), std::invalid_argument);
}

// The figures of the standards: IEEE 754, the OCP formats (8-bit FP8, MX) and NVIDIA's TF32.
TEST(Dtype, FormatsAreThoseOfTheStandards) {
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(format(Dtype::F64).max_finite, Limits::max());
  EXPECT_EQ(format(Dtype::F64).min_normal, Limits::min());
  EXPECT_EQ(format(Dtype::F64).min_subnormal, Limits::denorm_min());
  EXPECT_EQ(format(Dtype::F64).unit_roundoff, 0x1p-53);
  EXPECT_EQ(format(Dtype::F32).max_finite, static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(format(Dtype::F32).min_subnormal, 0x1p-149);
  EXPECT_EQ(format(Dtype::TF32).unit_roundoff, 0x1p-11);
  EXPECT_EQ(format(Dtype::BF16).max_finite, 0x1.FEp127);
  EXPECT_EQ(format(Dtype::F16).max_finite, 65504);
  EXPECT_EQ(format(Dtype::F16).min_subnormal, 0x1p-24);
  EXPECT_EQ(format(Dtype::E4M3).max_finite, 448);
  EXPECT_EQ(format(Dtype::E4M3).min_normal, 0x1p-6);
  EXPECT_EQ(format(Dtype::E4M3).min_subnormal, 0x1p-9);
  EXPECT_FALSE(format(Dtype::E4M3).has_inf);
  EXPECT_EQ(format(Dtype::E5M2).max_finite, 57344);
  EXPECT_EQ(format(Dtype::E8M0).max_finite, 0x1p127);
  EXPECT_EQ(format(Dtype::E8M0).min_normal, 0x1p-127);
  EXPECT_EQ(format(Dtype::E3M2).max_finite, 28);
  EXPECT_EQ(format(Dtype::E2M3).max_finite, 7.5);
  EXPECT_EQ(format(Dtype::E2M1).max_finite, 6);
  EXPECT_EQ(format(Dtype::E2M1).min_subnormal, 0.5);
  EXPECT_FALSE(format(Dtype::E2M1).has_nan);
}

// The table agrees with what the codes decode to.
TEST(Dtype, FormatsAgreeWithTheirCodes) {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::E4M3, Dtype::E5M2, Dtype::E8M0,
                            Dtype::E3M2, Dtype::E2M3, Dtype::E2M1}) {
    const Format& f = format(dtype);
    double largest = 0;
    double smallest = std::numeric_limits<double>::infinity();
    bool inf = false;
    bool nan = false;
    for (std::uint64_t code = 0; code < (std::uint64_t{1} << f.bits); ++code) {
      const double value = decode(dtype, code);
      inf = inf || std::isinf(value);
      nan = nan || std::isnan(value);
      if (std::isfinite(value)) largest = std::fmax(largest, value);
      if (value > 0) smallest = std::fmin(smallest, value);
    }
    EXPECT_EQ(largest, f.max_finite) << f.name;
    EXPECT_EQ(smallest, f.min_subnormal) << f.name;
    EXPECT_EQ(inf, f.has_inf) << f.name;
    EXPECT_EQ(nan, f.has_nan) << f.name;
    EXPECT_EQ(f.unit_roundoff, std::ldexp(1.0, -f.mantissa_bits - 1)) << f.name;
  }
}

TEST(Dtype, BytesOfPackedAndPlainFormats) {
  EXPECT_EQ(bytes_for(Dtype::E2M1, 0), 0u);
  EXPECT_EQ(bytes_for(Dtype::E2M1, 1), 1u);
  EXPECT_EQ(bytes_for(Dtype::E2M1, 5), 3u);
  EXPECT_EQ(bytes_for(Dtype::E2M3, 5), 5u);
  EXPECT_EQ(bytes_for(Dtype::TF32, 5), 20u);
  EXPECT_EQ(bytes_for(Dtype::Bool, 5), 5u);
  EXPECT_EQ(bytes_for(Dtype::I64, 5), 40u);
  EXPECT_THROW((void)bytes_for(Dtype::F32, -1), std::invalid_argument);
}

}  // namespace
}  // namespace parity
