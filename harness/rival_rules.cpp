#include "harness/rival_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace parity {
namespace {

double size(std::span<const double> a) {  // L2
  double sum = 0;
  for (const double v : a) sum += v * v;
  return std::sqrt(sum);
}

double error(std::span<const double> a, std::span<const double> truth) {  // L2
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != truth[i]) sum += (a[i] - truth[i]) * (a[i] - truth[i]);  // inf where inf belongs
  return std::sqrt(sum);
}

double largest(std::span<const double> a, std::span<const double> truth) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != truth[i] && !(std::abs(a[i] - truth[i]) <= most)) most = std::abs(a[i] - truth[i]);
  return most;
}

// Mean and largest of |a - x| / |x| where x is not small.
struct Relative {
  double mean = 0, most = 0;
};
Relative relative(std::span<const double> a, std::span<const double> truth) {
  Relative r;
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    constexpr double kSmall = 0x1p-14;
    if (std::abs(truth[i]) < kSmall) continue;
    const double e = std::abs(a[i] - truth[i]) / std::abs(truth[i]);
    r.mean += e;
    if (!(e <= r.most)) r.most = e;
    ++n;
  }
  if (n) r.mean /= static_cast<double>(n);
  return r;
}

bool nmse(const RuleInput& in) {
  const double e = error(in.candidate, in.truth), s = size(in.truth);
  return s == 0 ? e == 0 : e * e / (s * s) <= 5e-4;
}

bool fla_ratio(const RuleInput& in) {
  if (largest(in.candidate, in.truth) <= 1e-6) return true;
  const double n = std::sqrt(static_cast<double>(in.truth.size()));
  return error(in.candidate, in.truth) / n / (size(in.truth) / n + 1e-8) < 0.005;
}

bool cosine(const RuleInput& in) {
  double dot = 0;
  for (std::size_t i = 0; i < in.truth.size(); ++i) dot += in.candidate[i] * in.truth[i];
  const double s = size(in.candidate) * size(in.truth);
  return s == 0 ? size(in.candidate) == size(in.truth) : dot / s >= 0.99;
}

bool allclose(const RuleInput& in) {
  for (std::size_t i = 0; i < in.truth.size(); ++i) {
    const double c = in.candidate[i], x = in.truth[i];
    if (c != x && !(std::abs(c - x) <= 1e-2 + 1e-2 * std::abs(x))) return false;
  }
  return true;
}

bool cutlass(const RuleInput& in) {
  constexpr double kEpsilon = 0.05, kFloor = 1.0 / 256;
  for (std::size_t i = 0; i < in.truth.size(); ++i) {
    const double c = in.candidate[i], x = in.truth[i], apart = std::abs(c - x);
    if (c == x) continue;
    const bool small = c == 0 || x == 0 || apart < kFloor;
    const double limit = small ? kEpsilon * kFloor : kEpsilon * (std::abs(c) + std::abs(x));
    if (!(apart < limit)) return false;
  }
  return true;
}

// Twice the error of a plain implementation, and what 0.3 there and back rounds off.
bool flash_attention(const RuleInput& in) {
  double rounding = 0;
  for (const double x : in.truth) {
    const double there = round_to(in.dtype, round_to(in.dtype, x) + 0.3);
    const double back = round_to(in.dtype, there - 0.3);
    if (std::isfinite(back)) rounding = std::max(rounding, std::abs(back - round_to(in.dtype, x)));
  }
  return largest(in.candidate, in.truth) <= 2 * largest(in.base, in.truth) + 2 * rounding;
}

bool dynamo(const RuleInput& in) {
  const double n = std::sqrt(static_cast<double>(std::max<std::size_t>(in.truth.size(), 1)));
  const double times = format(in.dtype).bits < 32 ? 3 : 2;
  return error(in.candidate, in.truth) / n <= times * error(in.base, in.truth) / n + 1e-4 / 10;
}

bool msprobe(const RuleInput& in) {
  const Relative a = relative(in.candidate, in.truth), b = relative(in.base, in.truth);
  const auto within = [](double ours, double theirs, double times) {
    return ours <= times * theirs || ours == 0 || (theirs == 0 && ours <= 1e-6);
  };
  return within(error(in.candidate, in.truth), error(in.base, in.truth), 2) &&
         within(a.most, b.most, 10) && within(a.mean, b.mean, 2);
}

constexpr std::array<RivalRule, 8> kRules = {{
    {"NMSE 5e-4", "ggml test-backend-ops", "|c - x|^2 <= 5e-4 |x|^2", nmse},
    {"ratio 0.005", "flash-linear-attention assert_close", "RMS(c - x) < 0.005 RMS(x), or 1e-6",
     fla_ratio},
    {"cosine 0.99", "many", "<c, x> >= 0.99 |c| |x|", cosine},
    {"allclose 1e-2", "KernelBench", "|c - x| <= 1e-2 + 1e-2 |x| everywhere", allclose},
    {"relative 0.05", "CUTLASS profiler", "|c - x| < 0.05 (|c| + |x|) everywhere", cutlass},
    {"2x baseline", "FlashAttention", "max|c - x| <= 2 max|base - x| + rounding", flash_attention},
    {"same", "Dynamo", "RMS(c - x) <= 2 (3) RMS(base - x) + 1e-5", dynamo},
    {"benchmark L0", "msprobe", "RMS 2x, largest relative 10x, mean relative 2x the base's",
     msprobe},
}};

}  // namespace

std::span<const RivalRule> rival_rules() { return kRules; }

}  // namespace parity
