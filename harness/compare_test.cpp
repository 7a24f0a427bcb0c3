// Each view catches what all others let pass, and is silent on clean tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "harness/compare_fixture.hpp"

namespace parity::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Compare, CleanTensorsPass) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16}) {
    const TensorRecord r = draw({.dtype = dtype}).judged();
    EXPECT_EQ(r.status, "pass") << name(dtype) << " " << r.view;
    EXPECT_THAT(violated(r), IsEmpty());
    EXPECT_NEAR(r.rel_l2, 4e-3, 1e-3);
    EXPECT_EQ(r.views.size(), 9u) << "finiteness, bound, floor, ratio, slice, three of bias, grid";
  }
}

TEST(Compare, OnlyFinitenessSeesANanWhereThereWasNone) {
  Drawn d = draw({});
  d.observed[77] = kNan;
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("finiteness"));
  EXPECT_EQ(r.pattern, "the only error is in t=0, h=1, v=13");
  EXPECT_EQ(r.worst->letters, "t=0,h=1,v=13");
}

TEST(Compare, InfinitiesMustMatchWithTheirSign) {
  Drawn d = draw({});
  d.expected.value[5] = d.observed[5] = -kInfinity;
  d.expected.value[6] = d.observed[6] = kNan;
  for (Evaluation& run : d.base.runs) run[0].value[5] = -kInfinity, run[0].value[6] = kNan;
  EXPECT_EQ(d.judged().status, "pass");
  d.observed[5] = kInfinity;
  EXPECT_THAT(violated(d.judged()), ElementsAre("finiteness"));
  d.bound.nonfinite = NonFinite::AnyWhereTruthIsNonFinite;
  EXPECT_EQ(d.judged().status, "pass");
  d.observed[5] = 0;  // but a number is none
  EXPECT_THAT(violated(d.judged()), ElementsAre("finiteness"));
}

TEST(Compare, OnlyTheBoundSeesOneWrongElement) {
  Drawn d = draw({.dims = {{"T", 32}, {"H", 2}, {"V", 512}}});
  const TensorRecord clean = d.judged();
  const double limit = find_view(clean, View::Bound)->limit;
  d.observed[12345] = d.expected.value[12345] + 1.2 * limit * 6.7 * 4e-3;  // c = 6.6
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("bound"));
  EXPECT_EQ(r.worst->letters, letters(d.expected.spec.dims, 12345));
  EXPECT_LT(r.rel_l2, 1.05 * clean.rel_l2) << "a norm over the tensor hides it";
  EXPECT_EQ(r.mismatches, 1);
}

TEST(Compare, OnlyTheSliceViewSeesOneNoisyHead) {
  // Noise of one token and head doubled: within every element's bound, lost in the tensor's norm.
  Drawn d = draw({.dims = {{"T", 256}, {"H", 4}, {"V", 64}}});
  for (std::size_t i = 64 * 10; i < 64 * 11; ++i)
    d.observed[i] = d.expected.value[i] + 2.5 * (d.observed[i] - d.expected.value[i]);
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("slice"));
  EXPECT_THAT(find_view(r, View::Slice)->detail, HasSubstr("t=2,h=2"));
}

TEST(Compare, OnlyTheGainSeesTruncation) {
  // The bf16 rounding of the output towards zero: the offset is blind to it, the norm hardly moves.
  Drawn d = draw({.dims = {{"T", 130}, {"H", 2}, {"V", 128}}, .dtype = Dtype::BF16});
  for (double& v : d.observed) v = round_to(Dtype::BF16, v, Rounding::TowardZero);
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("bias"));
  EXPECT_LT(r.gain, -1e-3);
  EXPECT_LT(std::abs(r.offset_z), 5);
  EXPECT_THAT(find_view(r, View::Bias)->detail, HasSubstr("gain"));
}

TEST(Compare, OnlyTheGainOfAHeadSeesOneTruncatedHeadOfMany) {
  Drawn d = draw({.dims = {{"T", 128}, {"H", 32}, {"V", 64}}, .dtype = Dtype::BF16});
  for (std::size_t i = 0; i < d.observed.size(); ++i)
    if (i / 64 % 32 == 7)
      d.observed[i] = round_to(Dtype::BF16, d.observed[i], Rounding::TowardZero);
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("bias"));
  EXPECT_TRUE(find_view(r, View::Bias)->ok) << "over the tensor it is diluted";
  EXPECT_THAT(
      r.views.back().view == "grid" ? r.views[r.views.size() - 2].detail : r.views.back().detail,
      HasSubstr("in h=7"));
}

TEST(Compare, OnlyTheOffsetSeesAConstant) {
  Drawn d = draw({});
  for (double& v : d.observed) v += 6e-4;  // a seventh of the noise
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("bias"));
  EXPECT_LT(r.rel_l2, 1.03 * r.rel_l2_base);
  EXPECT_GT(r.offset_z, 8);
  EXPECT_LT(std::abs(r.gain), 1e-3);
}

TEST(Compare, OnlyTheGridSeesAStateKeptInBf16) {
  Drawn d = draw({.noise = 8e-3});
  for (double& v : d.observed) v = round_to(Dtype::BF16, v);
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("grid"));
  EXPECT_EQ(r.grid_format, "bf16");
  EXPECT_EQ(r.grid_share, 1);
}

TEST(Compare, AGridThatTheTruthOrTheContractLiesOnIsLegal) {
  Drawn integers = draw({.noise = 0});
  for (double& v : integers.expected.value) v = std::round(8 * v);
  integers.observed = integers.expected.value;
  for (Evaluation& run : integers.base.runs) run[0].value = integers.expected.value;
  EXPECT_EQ(integers.judged().status, "pass");
  Drawn contract = draw({.noise = 8e-3});
  for (double& v : contract.observed) v = round_to(Dtype::BF16, v);
  for (Evaluation& run : contract.base.runs) run[0].value = rounded(Dtype::BF16, run[0].value);
  EXPECT_EQ(contract.judged().status, "pass");
}

TEST(Compare, OnlyTheRatioSeesAQuarterMoreNoise) {
  Drawn d = draw({.dims = {{"C", 16384}}});
  for (std::size_t i = 0; i < d.observed.size(); ++i)
    d.observed[i] = d.expected.value[i] + 1.25 * (d.observed[i] - d.expected.value[i]);
  EXPECT_THAT(violated(d.judged()), ElementsAre("ratio"));
}

TEST(Compare, OnlyTheFloorSeesAnErrorBeyondTheVariants) {
  // Only the data types are known (ratio 2), the op is critical (floor 2), and the base drew badly:
  // its own error is half as large again as its variants'.
  Drawn d = draw({.fidelity = Fidelity::Partial});
  d.bound.f_floor = 2;
  Values& base = d.base.runs[0][0];
  for (std::size_t i = 0; i < base.value.size(); ++i) {
    base.value[i] = d.expected.value[i] + 1.5 * (base.value[i] - d.expected.value[i]);
    d.observed[i] = d.expected.value[i] + 2.85 * (d.observed[i] - d.expected.value[i]);
  }
  EXPECT_THAT(violated(d.judged()), ElementsAre("floor"));
}

TEST(Compare, ExactAsksForEquality) {
  Drawn d = draw({.noise = 0});
  d.exact = true;
  EXPECT_EQ(d.judged().status, "pass");
  d.observed[9] = std::nextafter(static_cast<float>(d.observed[9]), 10.0F);
  const TensorRecord r = d.judged();
  EXPECT_THAT(violated(r), ElementsAre("exact"));
  EXPECT_EQ(r.mismatches, 1);
  EXPECT_EQ(r.max_ulp, 1);
  EXPECT_FALSE(r.worst->base) << "equality has no base";
  d.observed[9] = kNan;
  EXPECT_THAT(violated(d.judged()), ElementsAre("finiteness", "exact"));
}

TEST(Compare, SignedZerosAreStrictOnDemand) {
  Drawn d = draw({.noise = 0});
  d.exact = true;
  d.expected.value[0] = 0.0, d.observed[0] = -0.0;
  EXPECT_EQ(d.judged().status, "pass");
  d.bound.strict_signed_zero = true;
  EXPECT_THAT(violated(d.judged()), ElementsAre("exact"));
}

TEST(Compare, ZeroAgainstZeroIsNoMetric) {
  Drawn d = draw({.noise = 0});
  for (double& v : d.expected.value) v = 0;
  d.observed = d.expected.value;
  for (Evaluation& run : d.base.runs) run[0].value = d.expected.value;
  const TensorRecord r = d.judged();
  EXPECT_EQ(r.status, "pass");
  EXPECT_EQ(r.rel_l2, 0);
  EXPECT_EQ(r.cosine, 1);
  EXPECT_EQ(r.offset_z, 0);
  d.observed[3] = 1e-3;
  const TensorRecord wrong = d.judged();
  EXPECT_EQ(wrong.status, "fail");
  EXPECT_TRUE(std::isinf(wrong.rel_l2));
  EXPECT_EQ(wrong.cosine, 0);
}

TEST(Compare, ShapeTypeAndEmptiness) {
  Drawn d = draw({});
  Tensor other =
      make_tensor({.name = "o", .dtype = Dtype::F32, .dims = {{"T", 64}, {"H", 4}, {"V", 63}}});
  TensorRecord r =
      compare({.expected = d.expected, .base = &d.base, .observed = other, .bound = d.bound});
  judge_tensor(r);
  EXPECT_THAT(violated(r), ElementsAre("accounting"));
  EXPECT_THAT(r.views[0].detail, HasSubstr("64 x 4 x 63"));
  Drawn empty = draw({.dims = {{"T", 0}, {"V", 8}}});
  EXPECT_EQ(empty.judged().status, "unproven");
}

TEST(Compare, RefutedVoidAndOversizedBoundsProveNothing) {
  Drawn d = draw({});
  d.bound = {.kind = BoundKind::Proved,
             .rho = 1,
             .roundings = {{1, Dtype::F16, "nothing like it"}},
             .why = "too tight"};
  TensorRecord r = d.judged();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.unproven, HasSubstr("refuted by the base"));
  d.bound = {.kind = BoundKind::Proved,
             .growth = {.kind = Growth::Kind::WorstCase, .n = 256},
             .accumulate = Dtype::BF16,
             .why = "n u = 1"};
  r = d.judged();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.unproven, HasSubstr("void"));
  d.bound = {.kind = BoundKind::Proved, .roundings = {{4000, Dtype::BF16, "huge"}}, .why = "huge"};
  r = d.judged();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.unproven, HasSubstr("larger than the output"));
}

TEST(Compare, TooFewVariantsProveNothing) {
  const TensorRecord r = draw({.variants = 2}).judged();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.unproven, HasSubstr("K too small"));
}

TEST(Compare, WithoutABaseTheBoundDecides) {
  Drawn d = draw({.noise = 1e-3});
  const Bound proved{
      .kind = BoundKind::Proved, .roundings = {{3, Dtype::BF16, "generous"}}, .why = "test"};
  TensorRecord r = compare({.expected = d.expected,
                            .observed = make_tensor(d.expected.spec, d.observed),
                            .bound = proved});
  judge_tensor(r);
  EXPECT_EQ(r.status, "pass");
  EXPECT_EQ(r.views.size(), 2u);
  EXPECT_EQ(find_view(r, View::Bound)->limit, 1);
}

TEST(Compare, AllowedIsTheStrictForm) {
  Drawn d = draw({.dtype = Dtype::E4M3, .noise = 0});
  const Bound bound{.kind = BoundKind::Proved,
                    .rho = 2,
                    .c_acc = 3,
                    .growth = {.kind = Growth::Kind::WorstCase, .n = 10},
                    .roundings = {{2, Dtype::BF16, "p"}},
                    .subnormals = 2,
                    .why = "test"};
  TensorRecord r = compare({.expected = d.expected,
                            .observed = make_tensor(d.expected.spec, d.expected.value),
                            .bound = bound});
  const double u = 0x1p-4, acc = 10 * 0x1p-24 / (1 - 10 * 0x1p-24);
  const double x = std::abs(r.worst->truth), e = std::abs(r.worst->candidate - r.worst->truth);
  const double allowed = 2 * u * x + (1 + 2 * u) * (3 * acc + 2 * 0x1p-8) + 2 * 0x1p-9;
  EXPECT_NEAR(r.worst->bound_used, e / allowed, 1e-12);
}

TEST(Compare, SmallTensorsAreNotJudgedByRatio) {
  const TensorRecord r = draw({.dims = {{"H", 8}}}).judged();
  EXPECT_EQ(r.status, "pass");
  EXPECT_EQ(find_view(r, View::Ratio), nullptr);
  EXPECT_EQ(find_view(r, View::Slice), nullptr);
  EXPECT_NE(find_view(r, View::Bound), nullptr);
}

TEST(Compare, PatternsNameTheGuiltyRegion) {
  const auto damaged =
      [](const std::function<bool(std::int64_t, std::int64_t, std::int64_t)>& wrong) {
        Drawn d = draw({});
        for (std::size_t i = 0; i < d.observed.size(); ++i) {
          const std::vector<std::int64_t> at =
              coordinates(d.expected.spec.dims, static_cast<std::int64_t>(i));
          if (wrong(at[0], at[1], at[2])) d.observed[i] += 1;
        }
        return d.judged().pattern;
      };
  EXPECT_EQ(damaged([](std::int64_t t, std::int64_t h, std::int64_t) { return h == 3 && t >= 48; }),
            "all 1024 errors are in t>=48, h=3");
  EXPECT_EQ(damaged([](std::int64_t, std::int64_t, std::int64_t v) { return v % 16 == 5; }),
            "all 1024 errors are in v%16=5");
  EXPECT_EQ(damaged([](std::int64_t, std::int64_t, std::int64_t) { return true; }),
            "every element is wrong");
  EXPECT_EQ(damaged([](std::int64_t t, std::int64_t, std::int64_t) { return t == 0 || t == 9; }),
            "all 512 errors are in t in {0, 9}");
}

TEST(Compare, RecordIsFilled) {
  const TensorRecord r = draw({}).judged();
  EXPECT_THAT(r.axes, ElementsAre("T", "H", "V"));
  EXPECT_EQ(r.elements, 64 * 4 * 64);
  EXPECT_GT(r.quantiles.at("p999"), r.quantiles.at("p50"));
  EXPECT_EQ(r.worst_points.size(), 10u);
  EXPECT_GE(r.worst_points[0].bound_used, r.worst_points[9].bound_used);
  EXPECT_GT(r.detectable, 0);
  EXPECT_LT(r.detectable, 0.05);
  EXPECT_LT(r.bound_that_would_pass, 1);
  EXPECT_EQ(r.heatmaps.size(), 2u);
  EXPECT_FALSE(r.profiles.empty());
  for (const AxisProfile& p : r.profiles) EXPECT_LT(p.chi_square, p.chi_limit) << p.axis;
  ASSERT_TRUE(r.scatter);
  std::int64_t counted = 0, counted_base = 0;
  for (const std::int64_t c : r.ulp_histogram) counted += c;
  for (const std::int64_t c : r.ulp_histogram_base) counted_base += c;
  EXPECT_EQ(counted, r.elements);
  EXPECT_EQ(counted_base, r.elements);
  EXPECT_NEAR(r.norm_ratio, 1, 1e-3);
  EXPECT_NEAR(r.cosine, 1, 1e-4);
}

TEST(Compare, WhatTheDefinitionLeavesOpenMayBeAnyNumber) {
  test::Drawn d = test::draw({});
  d.expected.ignore.assign(d.expected.value.size(), 0);
  for (std::size_t i = 64; i < 128; ++i) d.expected.ignore[i] = 1, d.observed[i] += 3;
  const TensorRecord r = d.judged();
  EXPECT_EQ(r.status, "pass") << r.view;
  EXPECT_EQ(r.open, 64);
  d.observed[128] += 3;
  EXPECT_EQ(d.judged().status, "fail");
}

TEST(Compare, WhatIsLeftOpenMustStillBeANumber) {
  test::Drawn d = test::draw({});
  d.expected.ignore.assign(d.expected.value.size(), 0);
  d.expected.ignore[5] = 1;
  d.observed[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(d.judged().status, "fail");
}

}  // namespace
}  // namespace parity::test
