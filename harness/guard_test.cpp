#include "harness/guard.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace parity {
namespace {

constexpr Dtype kAll[] = {Dtype::F64,  Dtype::F32,  Dtype::TF32, Dtype::BF16, Dtype::F16,
                          Dtype::E4M3, Dtype::E5M2, Dtype::E8M0, Dtype::E3M2, Dtype::E2M3,
                          Dtype::E2M1, Dtype::I64,  Dtype::I32,  Dtype::I16,  Dtype::I8,
                          Dtype::U8,   Dtype::Bool};

TensorSpec spec_of(Dtype dtype, std::int64_t n) {
  return {.name = "o", .role = Role::Output, .dtype = dtype, .dims = {{"N", n}}};
}

TEST(Guard, PayloadIsAlignedAndPoisonedToItsLastByte) {
  for (const Dtype dtype : kAll)
    for (const std::int64_t n : {0, 1, 3, 64, 1001}) {
      const std::size_t bytes = bytes_for(dtype, n);
      GuardedBuffer buffer(dtype, bytes);
      EXPECT_EQ(std::bit_cast<std::uintptr_t>(buffer.payload().data()) % 64, 0u);
      for (int which = 0; which < kPoisons; ++which) {
        buffer.poison(which);
        EXPECT_EQ(buffer.broken_canary(), "") << name(dtype);
        EXPECT_EQ(Unwritten(spec_of(dtype, n), buffer.payload(), which).bytes(),
                  static_cast<std::int64_t>(bytes))
            << name(dtype) << " x" << n;
      }
    }
}

TEST(Guard, CanariesAndPoisonsAreNanWhereTheFormatHasOne) {
  for (const Dtype dtype : kAll) {
    if (!format(dtype).is_float || !format(dtype).has_nan) continue;
    const std::uint64_t canary = canary_pattern(dtype), poison = poison_pattern(dtype, 0);
    std::byte bytes[8];
    std::memcpy(bytes, &canary, 8);
    double value = 0;
    widen(dtype, bytes, 0, {&value, 1});
    EXPECT_TRUE(std::isnan(value)) << name(dtype);
    std::memcpy(bytes, &poison, 8);
    widen(dtype, bytes, 0, {&value, 1});
    EXPECT_TRUE(std::isnan(value)) << name(dtype);
    if (dtype != Dtype::E8M0) {  // which has one NaN only
      EXPECT_NE(canary, poison) << name(dtype);
    }
  }
}

TEST(Guard, EveryBrokenCanaryByteIsSeen) {
  for (const Dtype dtype : {Dtype::F64, Dtype::BF16, Dtype::U8}) {
    GuardedBuffer buffer(dtype, 24);
    std::byte* start = buffer.payload().data();
    for (std::ptrdiff_t i = -256; i < 24 + 256; ++i) {
      if (i >= 0 && i < 24) continue;
      start[i] ^= std::byte{0x10};
      EXPECT_NE(buffer.broken_canary(), "") << i;
      start[i] ^= std::byte{0x10};
    }
    EXPECT_EQ(buffer.broken_canary(), "");
    start[27] = std::byte{0};
    EXPECT_EQ(buffer.broken_canary(), "byte 3 past the end (offset 27 of 24 bytes)");
    buffer.repair_canaries();
    start[-2] = std::byte{0};
    EXPECT_EQ(buffer.broken_canary(), "byte 2 before the start (offset -2 of 24 bytes)");
  }
}

TEST(Guard, OneElementThatNobodyWroteIsFoundInEveryFormat) {
  for (const Dtype dtype : kAll) {
    const TensorSpec spec = spec_of(dtype, 16);
    GuardedBuffer buffer(dtype, bytes_for(dtype, 16));
    const std::int64_t hole = 5;
    // A kernel that writes the same code everywhere but at the hole, for each of several codes.
    for (const std::uint64_t code : {0u, 1u, 6u, 9u}) {
      std::optional<Unwritten> unwritten;
      for (int which = 0; which < kPoisons; ++which) {
        buffer.poison(which);
        for (std::int64_t i = 0; i < 16; ++i)
          if (i != hole) store_code(dtype, buffer.payload().data(), i, code);
        if (which == 0)
          unwritten.emplace(spec, buffer.payload(), which);
        else if (!poison_is_unmistakable(dtype))
          unwritten->narrow(buffer.payload(), which);
      }
      const auto want = static_cast<std::int64_t>(dtype == Dtype::E2M1 ? 1 : bytes_for(dtype, 1));
      EXPECT_EQ(unwritten->bytes(), want) << name(dtype) << " code " << code;
      EXPECT_NE(unwritten->sentence().find("(n="), std::string::npos);
    }
  }
}

TEST(Guard, WhatTheDefinitionLeavesOpenNeedNotBeWritten) {
  for (const Dtype dtype : {Dtype::F32, Dtype::U8, Dtype::E2M1}) {
    const TensorSpec spec = spec_of(dtype, 4);
    GuardedBuffer buffer(dtype, bytes_for(dtype, 4));
    buffer.poison(0);
    const std::vector<std::uint8_t> open(4, 1), some = {1, 0, 1, 1};
    EXPECT_TRUE(Unwritten(spec, buffer.payload(), 0, open).empty());
    EXPECT_EQ(Unwritten(spec, buffer.payload(), 0, some).bytes(), dtype == Dtype::F32 ? 4 : 1);
  }
}

TEST(Guard, DifferencesAreFoundAtTheirOffset) {
  const std::vector<std::byte> a(100, std::byte{1});
  std::vector<std::byte> b = a;
  EXPECT_EQ(first_difference(a, b), -1);
  b[99] = std::byte{2};
  EXPECT_EQ(first_difference(a, b), 99);
  b[0] = std::byte{2};
  EXPECT_EQ(first_difference(a, b), 0);
  EXPECT_EQ(first_difference(a, std::span(a).first(7)), 7);
}

}  // namespace
}  // namespace parity
