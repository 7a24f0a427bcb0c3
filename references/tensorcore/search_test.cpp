#include "references/tensorcore/search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/numeric/philox.hpp"
#include "references/tensorcore/schedule.hpp"

namespace parity::tensorcore {
namespace {

TEST(Schedules, NamesReadBack) {
  for (const Unit& unit : units())
    for (const std::int64_t slice : {0, 96}) {
      const bool fma = unit.scheme == Scheme::Fma;
      Schedule s{.unit = &unit, .slice = slice, .descending = slice > 0};
      if (unit.inputs.front() == Dtype::F64) s.accumulate = Dtype::F64;
      s.nearest_inputs = unit.inputs.front() == Dtype::TF32;
      const auto parsed = parse_schedule(name_of(s));
      ASSERT_TRUE(parsed) << name_of(s);
      EXPECT_EQ(schedule_for(*parsed, unit.inputs.front(), unit.inputs.front()), s) << name_of(s);
      if (!fma) {
        s.accumulate = Dtype::F16;
        EXPECT_EQ(
            schedule_for(*parse_schedule(name_of(s)), unit.inputs.front(), unit.inputs.front()), s);
      }
    }
  for (const char* name : {"", "f32", "sm_90", "sm_90.wgmma.k15", "sm_90.tcgen05", "sm_90..wgmma",
                           "sm_90.wgmma.slice0", "sm_90.wgmma.slice-8", "exact_chain"})
    EXPECT_FALSE(parse_schedule(name)) << name;
}

struct Gemm {
  Dtype dtype;
  std::int64_t M = 24, N = 20, K = 384;
  std::vector<std::byte> a, b;
  std::vector<float> y;

  Gemm(Dtype d, std::string_view schedule)
      : dtype(d), a(bytes_for(d, M * K)), b(bytes_for(d, N * K)) {
    std::vector<double> values(static_cast<std::size_t>(M * K));
    Rng{3, 0}.fill_normal(0, values);
    narrow(d, values, 0, a.data());
    values.resize(static_cast<std::size_t>(N * K));
    Rng{3, 1}.fill_normal(0, values);
    narrow(d, values, 0, b.data());
    Product p = product();
    p.schedule = *schedule_for(*parse_schedule(schedule), d, d);
    y = accumulators(p, 2);
  }
  Product product() const { return {.a = {dtype, a.data(), M}, .b = {dtype, b.data(), N}, .K = K}; }
  Found found() const {
    return search({.product = product(),
                   .store = [](float sum, std::int64_t, std::int64_t) -> std::uint64_t {
                     return std::bit_cast<std::uint32_t>(sum);
                   },
                   .stored = [&](std::int64_t m, std::int64_t n) -> std::uint64_t {
                     return std::bit_cast<std::uint32_t>(y[static_cast<std::size_t>(m * N + n)]);
                   }},
                  "sm_90", 2);
  }
};

TEST(ScheduleSearch, NamesTheScheduleThatGivesAllBits) {
  for (const auto& [dtype, schedule] : {std::pair{Dtype::F32, "sm_90.wgmma.k8.nearest.slice96"},
                                        {Dtype::F32, "sm_90.mma.k4"},
                                        {Dtype::F32, "sm_90.ffma.k1.slice128"},
                                        {Dtype::BF16, "sm_90.wgmma.k16"},
                                        {Dtype::BF16, "sm_90.mma.k8.slice48.descending"},
                                        {Dtype::F16, "sm_90.wgmma.k16.f16"},
                                        {Dtype::E4M3, "sm_90.wgmma.k32"},
                                        {Dtype::E4M3, "sm_90.wgmma.k32.slice128"},
                                        {Dtype::E5M2, "sm_90.mma.k32.slice64"}}) {
    const Found found = Gemm(dtype, schedule).found();
    ASSERT_FALSE(found.exact.empty()) << schedule << ": " << found.text();
    EXPECT_TRUE(found.nearest.all());
    const std::string wanted = schedule;
    EXPECT_TRUE(std::ranges::any_of(
        found.exact, [&](const Match& match) { return name_of(match.schedule) == wanted; }))
        << schedule << ": " << found.text();
    EXPECT_NE(found.text().find(schedule), std::string::npos);
  }
}

TEST(ScheduleSearch, OneWrongBitIsNoMatch) {
  Gemm gemm(Dtype::BF16, "sm_90.wgmma.k16");
  gemm.y.back() = std::nextafter(gemm.y.back(), 0.0F);
  const Found found = gemm.found();
  EXPECT_TRUE(found.exact.empty());
  EXPECT_EQ(found.nearest.equal, found.nearest.outputs - 1);
  EXPECT_EQ(name_of(found.nearest.schedule), "sm_90.wgmma.k16");
}

TEST(ScheduleSearch, NothingToTry) {
  Gemm gemm(Dtype::BF16, "sm_90.wgmma.k16");
  gemm.dtype = Dtype::E2M1;
  EXPECT_EQ(gemm.found().tried, 0);
}

}  // namespace
}  // namespace parity::tensorcore
