#include "golden/io/mxfp4.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "golden/io/memory_file_test.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

using test::file_of;

Tensor bytes_of(const std::string& name, std::int64_t rows, std::int64_t cols,
                const std::function<int(std::int64_t)>& byte) {
  Tensor t = make_tensor({.name = name, .dtype = Dtype::U8, .dims = {{"A", rows}, {"B", cols}}});
  for (std::size_t i = 0; i < t.bytes.size(); ++i)
    t.bytes[i] = static_cast<std::byte>(byte(static_cast<std::int64_t>(i)));
  return t;
}

TEST(Mxfp4, EveryCodeTimesItsScale) {
  const auto code = [](std::int64_t i) { return static_cast<int>(i * 7 % 256); };
  const auto scale = [](std::int64_t i) { return static_cast<int>(i * 50); };  // 2^-127 .. 2^123
  const TensorFile file = dequantised(
      file_of({bytes_of("x.weight_packed", 2, 48, code), bytes_of("x.weight_scale", 2, 3, scale),
               bytes_of("other.weight_scale", 1, 1, scale)}));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_FALSE(holds_mxfp4(file));
  const Tensor whole = file.read(*file.find("x.weight"));
  EXPECT_EQ(whole.spec.dims[1].extent, 96);
  const std::vector<double> values = whole.widened();
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};  // of E2M1
  for (std::int64_t i = 0; i < 192; ++i) {
    const int nibble = i % 2 ? code(i / 2) >> 4 : code(i / 2) & 15;
    const double want =
        std::ldexp((nibble & 8 ? -1 : 1) * magnitudes[nibble & 7], scale(i / 32) - 127);
    EXPECT_EQ(values[static_cast<std::size_t>(i)], want) << i;
  }
  // Any range is the same bytes.
  for (std::int64_t first = 0; first < 384; first += 13) {
    std::vector<std::byte> part(static_cast<std::size_t>(std::min<std::int64_t>(71, 384 - first)));
    file.read(*file.find("x.weight"), first, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.bytes.begin() + first)) << first;
  }
}

TEST(Mxfp4, WhatIsNoPairOrNoNumberIsRefused) {
  const auto one = [](std::int64_t) { return 1; };
  EXPECT_THROW(dequantised(file_of({bytes_of("x.weight_packed", 2, 16, one)})), UsageError);
  EXPECT_THROW(dequantised(file_of({bytes_of("x.weight_packed", 2, 16, one),
                                    bytes_of("x.weight_scale", 2, 2, one)})),
               UsageError);
  EXPECT_THROW(dequantised(file_of({bytes_of("x.weight_packed", 2, 8, one),
                                    bytes_of("x.weight_scale", 2, 0, one)})),
               UsageError);
  for (const int bad : {255, 254}) {  // NaN; 6 * 2^127
    const TensorFile file =
        dequantised(file_of({bytes_of("x.weight_packed", 1, 16, [](std::int64_t) { return 0x77; }),
                             bytes_of("x.weight_scale", 1, 1, [&](std::int64_t) { return bad; })}));
    EXPECT_THROW((void)file.read(0), UsageError) << bad;
  }
}

}  // namespace
}  // namespace parity::io
