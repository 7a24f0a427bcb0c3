// The statistics of a pair on the device against the CPU's, in a child process: this one must not
// have CUDA initialised when others fork.
#include "harness/cuda/device_pair_stats.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "harness/cuda/device_info.hpp"
#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

constexpr Dtype kAll[] = {Dtype::F64,  Dtype::F32,  Dtype::TF32, Dtype::BF16,
                          Dtype::F16,  Dtype::E4M3, Dtype::E5M2, Dtype::E8M0,
                          Dtype::E3M2, Dtype::E2M3, Dtype::E2M1, Dtype::I64,
                          Dtype::I32,  Dtype::I16,  Dtype::I8,   Dtype::U8};

// Empty where both agree as device_pair_stats.hpp says.
std::string difference(const PairStats& cpu, const PairStats& device) {
  PairStats rest = device;
  const auto close = [&](double want, double& got, double size) {
    const double allowed = static_cast<double>(cpu.elements) * 0x1p-52 * size;
    const bool ok = std::abs(want - got) <= allowed || want == got;
    got = want;  // what is left must be equal
    return ok;
  };
  const double a = cpu.sum_sq_a, b = cpu.sum_sq_b, d = cpu.sum_sq_diff;
  const bool sums = close(a, rest.sum_sq_a, a) & close(b, rest.sum_sq_b, b) &
                    close(d, rest.sum_sq_diff, d) & close(cpu.dot, rest.dot, std::sqrt(a * b)) &
                    close(cpu.sum_diff, rest.sum_diff, cpu.sum_abs_diff) &
                    close(cpu.sum_abs_diff, rest.sum_abs_diff, cpu.sum_abs_diff);
  if (!sums) return "sums";
  if (rest == cpu) return "";
  return "counts, maxima or histogram: max_abs " + std::to_string(rest.max_abs) + " at " +
         std::to_string(rest.worst_index) + ", differing " + std::to_string(rest.differing) +
         ", max_ulp " + std::to_string(rest.max_ulp);
}

// Random codes, all kinds of values; every `one_in`-th differs, by little or by all.
std::string compare(Dtype dtype, std::int64_t elements, std::int64_t one_in, bool wild) {
  std::vector<std::byte> want(bytes_for(dtype, elements)), got;
  const Rng rng{.seed = 3, .stream = static_cast<std::uint64_t>(elements)};
  if (wild) {
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] = static_cast<std::byte>(rng.uniform01(i) * 256);
  } else {
    std::vector<double> values(static_cast<std::size_t>(elements));
    rng.fill_normal(0, values);
    for (double& x : values) x *= 8;
    narrow(dtype, values, 0, want.data());
  }
  got = want;
  for (std::size_t i = 0; i < got.size(); i += static_cast<std::size_t>(one_in))
    got[i] ^= static_cast<std::byte>(wild ? rng.split(1).uniform01(i) * 256 : 1);
  const PairStats cpu = pair_stats_plain(dtype, want.data(), got.data(), elements);
  DeviceStream stream;
  DeviceMemory a(want.size()), b(got.size());
  stream.upload(want, a);
  stream.upload(got, b);
  return difference(cpu, pair_stats_on_device(dtype, a.data(), b.data(), elements, stream));
}

int compare_all() {
  int wrong = 0;
  for (const Dtype dtype : kAll)
    for (const std::int64_t elements : {1, 33, 4096, 100003})
      for (const std::int64_t one_in : {1, 997})
        for (const bool wild : {false, true}) {
          // Random bits of f64 overflow every sum of squares.
          if (wild && dtype == Dtype::F64) continue;
          const std::string text = compare(dtype, elements, one_in, wild);
          if (text.empty()) continue;
          ++wrong;
          std::fprintf(stderr, "%s, %lld elements, one in %lld%s: %s\n",
                       std::string(name(dtype)).c_str(), static_cast<long long>(elements),
                       static_cast<long long>(one_in), wild ? ", random codes" : "", text.c_str());
        }
  return wrong;
}

TEST(DevicePairStats, AgreeWithTheCpu) {
  if (query_devices().devices.empty()) return;
  EXPECT_EXIT(std::_Exit(std::min(compare_all(), 100)), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace parity
