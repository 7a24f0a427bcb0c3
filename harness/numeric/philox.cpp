#include "harness/numeric/philox.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace parity {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

// The 128 bits of a block, as two draws.
struct Pair {
  std::uint64_t even = 0, odd = 0;
};

Pair block(const Rng& rng, std::uint64_t number) {
  const PhiloxCounter r =
      philox4x32_10({low(number), high(number), low(rng.stream), high(rng.stream)},
                    {low(rng.seed), high(rng.seed)});
  return {r[0] | static_cast<std::uint64_t>(r[1]) << 32, r[2] | static_cast<std::uint64_t>(r[3])
                                                                    << 32};
}

double uniform_of(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

double normal_of(std::uint64_t bits) {
  return normal_quantile((static_cast<double>(bits >> 12) + 0.5) * 0x1p-52);
}

template <class F>
void fill(const Rng& rng, std::uint64_t first, std::span<double> out, F&& value) {
  std::size_t i = 0;
  if (first % 2 != 0 && !out.empty()) out[i++] = value(block(rng, first / 2).odd);
  for (; i + 2 <= out.size(); i += 2) {
    const Pair pair = block(rng, (first + i) / 2);
    out[i] = value(pair.even);
    out[i + 1] = value(pair.odd);
  }
  if (i < out.size()) out[i] = value(block(rng, (first + i) / 2).even);
}

// Natural logarithm of a positive normal number, within about 2 ulp where AS 241 needs it (x <
// 0.08): with x = m * 2^e, m in [sqrt(1/2), sqrt(2)), s = (m - 1)/(m + 1): log x = e log 2 + 2 (s +
// s^3/3 + s^5/5 + …), s^2 < 0.0295.
double portable_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto e = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++e;
  }
  const double s = (m - 1) / (m + 1);
  const double t = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * t;
  // log 2 in two parts; the upper has trailing zeros, so that its product with e is exact.
  constexpr double kLog2High = 0x1.62e42fefa38p-1;
  constexpr double kLog2Low = 0x1.ef35793c7673p-45;
  return e * kLog2High + (2 * s + (2 * s * series + e * kLog2Low));
}

double ratio(const double (&numerator)[8], const double (&denominator)[8], double x) {
  double n = numerator[7];
  double d = denominator[7];
  for (int k = 6; k >= 0; --k) {
    n = n * x + numerator[k];
    d = d * x + denominator[k];
  }
  return n / d;
}

// Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics
// 37 (1988) 477-484.
constexpr double kA[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                          3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double kB[8] = {1.0,
                          4.2313330701600911252e1,
                          6.8718700749205790830e2,
                          5.3941960214247511077e3,
                          2.1213794301586595867e4,
                          3.9307895800092710610e4,
                          2.8729085735721942674e4,
                          5.2264952788528545610e3};
constexpr double kC[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                          5.76949722146069140550e0,  3.64784832476320460504e0,
                          1.27045825245236838258e0,  2.41780725177450611770e-1,
                          2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kD[8] = {1.0,
                          2.05319162663775882187e0,
                          1.67638483018380384940e0,
                          6.89767334985100004550e-1,
                          1.48103976427480074590e-1,
                          1.51986665636164571966e-2,
                          5.47593808499534494600e-4,
                          1.05075007164441684324e-9};
constexpr double kE[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                          1.78482653991729133580e0,  2.96560571828504891230e-1,
                          2.65321895265761230930e-2, 1.24266094738807843860e-3,
                          2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kF[8] = {1.0,
                          5.99832206555887937690e-1,
                          1.36929880922735805310e-1,
                          1.48753612908506148525e-2,
                          7.86869131145613259100e-4,
                          1.84631831751005468180e-5,
                          1.42151175831644588870e-7,
                          2.04426310338993978564e-15};

}  // namespace

PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += 0x9E3779B9u;  // golden ratio
    key[1] += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

std::uint64_t Rng::bits(std::uint64_t i) const {
  const Pair pair = block(*this, i / 2);
  return i % 2 == 0 ? pair.even : pair.odd;
}

double Rng::uniform01(std::uint64_t i) const { return uniform_of(bits(i)); }

double Rng::uniform(std::uint64_t i, double a, double b) const {
  return a + (b - a) * uniform01(i);
}

std::int64_t Rng::integer(std::uint64_t i, std::int64_t lo, std::int64_t hi) const {
  const std::uint64_t span = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo);
  const Wide product = Wide{bits(i)} * (Wide{span} + 1);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(lo) +
                                   static_cast<std::uint64_t>(product >> 64));
}

double Rng::normal(std::uint64_t i) const { return normal_of(bits(i)); }

void Rng::fill_uniform01(std::uint64_t first, std::span<double> out) const {
  fill(*this, first, out, uniform_of);
}

void Rng::fill_normal(std::uint64_t first, std::span<double> out) const {
  fill(*this, first, out, normal_of);
}

Rng Rng::split(std::uint64_t n) const {
  constexpr std::uint64_t kDomain = 0x5851F42D4C957F2Du;  // apart from the keys of plain draws
  const Pair pair = block(Rng{.seed = seed ^ kDomain, .stream = stream}, n);
  return {.seed = pair.even, .stream = pair.odd};
}

double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) {
    if (p == 0) return -std::numeric_limits<double>::infinity();
    if (p == 1) return std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) return q * ratio(kA, kB, 0.180625 - q * q);
  const double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p));
  const double tail = r <= 5 ? ratio(kC, kD, r - 1.6) : ratio(kE, kF, r - 5);
  return q < 0 ? -tail : tail;
}

}  // namespace parity
