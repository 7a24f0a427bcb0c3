// One row is drawn at a time; what must be the same for every token (a repeated key, a head's own
// decay) is drawn at an index that does not depend on the token.
#include "cases/kda_fills.hpp"

#include <algorithm>
#include <cmath>

#include "harness/numeric/philox.hpp"

namespace parity::kda_cases {
namespace {

enum class Keys { Random, Correlated, Repeated, Edges };
enum class Gates { Moderate, Open, Weak, Mixed, Saturated, Masked, Steep };
enum class Betas { Middle, Strong, One, Two, Edges };

struct Regime {
  Keys keys = Keys::Random;
  Gates gates = Gates::Moderate;
  Betas betas = Betas::Middle;
  bool decades = false;
};

// Indices far from those of the elements.
constexpr std::uint64_t kPerHead = std::uint64_t{1} << 40, kPerToken = std::uint64_t{1} << 41,
                        kSecond = std::uint64_t{1} << 42;

struct Place {
  std::uint64_t token = 0, head = 0;  // of a row of [B,T,H,...]
};

Place place(const RowDraw& d) {
  const auto heads = static_cast<std::uint64_t>(d.spec.dims.size() > 2 ? d.spec.dims[2].extent : 1);
  const auto row = static_cast<std::uint64_t>(d.row);
  return {row / heads, row % heads};
}

void normalise(std::span<double> row) {
  double sum = 0;
  for (const double x : row) sum += x * x;
  if (sum > 0)
    for (double& x : row) x /= std::sqrt(sum);
}

// q and k: of norm about sqrt(K) where the kernel normalises, else of norm 1.
void draw_key(const RowDraw& d, std::span<double> out, Keys keys) {
  const auto first = static_cast<std::uint64_t>(d.first),
             K = static_cast<std::uint64_t>(out.size());
  const Place at = place(d);
  const bool key = d.spec.name == "k";
  for (std::uint64_t j = 0; j < K; ++j) {
    out[j] = d.rng.normal(first + j);
    if (keys == Keys::Correlated) out[j] = d.rng.uniform(first + j, 0, 2);
    if (keys == Keys::Repeated && key)
      out[j] = d.rng.normal(kPerHead + at.head * K + j) + 0.05 * out[j];
  }
  if (!d.problem.options.flag("l2norm")) normalise(out);
  if (keys != Keys::Edges || !key) return;
  const std::int64_t kind = d.rng.integer(kPerToken + at.token, 0, 4);
  for (double& x : out) x *= kind == 0 ? 0 : kind == 1 ? 1e-3 : 1;
}

// Natural-log decay of a channel.
double gate(const RowDraw& d, std::uint64_t j, Gates gates) {
  const auto i = static_cast<std::uint64_t>(d.first) + j;
  const Place at = place(d);
  const double u = d.rng.uniform(i, 0.5, 1.5);
  switch (gates) {
    case Gates::Moderate: {
      const double head = 1.0 / static_cast<double>(1 + 3 * (at.head % 4));
      return -0.5 * head * u * d.rng.uniform01(kSecond + i);
    }
    case Gates::Open:
      return 0;
    case Gates::Weak:
      return -0.0017 * u;
    case Gates::Mixed: {
      constexpr double kDecays[] = {0, 0.01, 0.2, 1, 4};
      return -kDecays[(j * 2 + at.head * 3) % 5] * u;
    }
    case Gates::Saturated:
      return -5;
    case Gates::Masked: {
      const bool token = d.rng.uniform01(kPerToken + at.token) < 0.08,
                 channel = d.rng.uniform01(kSecond + i) < 0.05;
      return token || channel ? -1000 : -0.01 * u;
    }
    case Gates::Steep:
      return (j + at.head) % 4 == 1 ? -8 * u : -0.3 * u;
  }
  return 0;
}

// What the kernel turns into about the same: both activations rise with the raw gate.
double raw_gate(const RowDraw& d, std::uint64_t j, Gates gates) {
  const double x = d.rng.normal(static_cast<std::uint64_t>(d.first) + j);
  const Place at = place(d);
  switch (gates) {
    case Gates::Moderate:
      return 1.5 * x - 2 - static_cast<double>(at.head % 3);
    case Gates::Open:
      return x - 40;
    case Gates::Weak:
      return 0.3 * x - 6;
    case Gates::Mixed:
      return 3 * x - 1;
    case Gates::Saturated:
      return j % 4 == 1 ? x - 1 : 5 + 0.5 * x;
    case Gates::Masked:
      return x < -1.3 ? 60 : 0.3 * x - 5;
    case Gates::Steep:
      return 20 + x;
  }
  return 0;
}

double beta(const RowDraw& d, std::uint64_t i, Betas betas) {
  switch (betas) {
    case Betas::Middle:
      return d.rng.uniform(i, 0.05, 0.95);
    case Betas::Strong:
      return d.rng.uniform(i, 0.9, 1);
    case Betas::One:
      return 1;
    case Betas::Two:
      return 2;
    case Betas::Edges:
      return static_cast<double>(d.rng.integer(i, 0, 2));
  }
  return 0;
}

double logit(const RowDraw& d, std::uint64_t i, Betas betas) {
  const double x = d.rng.normal(i);
  switch (betas) {
    case Betas::Middle:
      return x;
    case Betas::Strong:
      return 3 + 0.5 * x;
    case Betas::One:
      return 20 + x;
    case Betas::Two:
      return 40 + x;
    case Betas::Edges:
      return 12 * x;
  }
  return 0;
}

// Six decades: of v by column, and of its cotangent by token, falling along every 64: the gradients
// of a quiet token's gate stand beside sums that only the loud ones before it enter.
double loudness(const RowDraw& d, std::uint64_t j) {
  const bool cotangent = d.spec.name == "cotangents/o";
  if (!cotangent && d.spec.name != "v") return 1;
  const auto tokens = static_cast<std::uint64_t>(d.spec.dims[1].extent);
  const std::int64_t steps =
      cotangent ? static_cast<std::int64_t>(6 - place(d).token % tokens % 64 * 7 / 64)
                : d.rng.integer(kSecond + j, 0, 6);
  double size = 1e-3;
  for (std::int64_t n = 0; n < steps; ++n) size *= 10;
  return size;
}

void draw(const RowDraw& d, std::span<double> out, const Regime& regime) {
  const std::string& name = d.spec.name;
  if (name == "q" || name == "k") return draw_key(d, out, regime.keys);
  for (std::uint64_t j = 0; j < out.size(); ++j) {
    const std::uint64_t i = static_cast<std::uint64_t>(d.first) + j;
    out[j] = name == "g"            ? gate(d, j, regime.gates)
             : name == "g_raw"      ? raw_gate(d, j, regime.gates)
             : name == "A_log"      ? d.rng.uniform(i, -0.6, 0.6)
             : name == "dt_bias"    ? 0.5 * d.rng.normal(i)
             : name == "beta"       ? beta(d, i, regime.betas)
             : name == "beta_logit" ? logit(d, i, regime.betas)
                                    : d.rng.normal(i) * (regime.decades ? loudness(d, j) : 1);
  }
}

template <Keys keys, Gates gates, Betas betas, bool decades = false>
void row(const RowDraw& d, std::span<double> out) {
  draw(d, out, Regime{keys, gates, betas, decades});
}

// Decays of an exact probe.
enum class Exact { Open, Forget, Halve };

// exp(-n ln 2) is 2^-n where the kernel says so (option halvings). A channel is halved at three
// tokens of its batch at most: states and their gradients stay multiples of 1/8, products of the
// two of 1/64, and sums of gates, in f32 too, multiples of ln 2 as it is rounded there.
double halvings(const RowDraw& d, std::uint64_t j) {
  constexpr double kLn2 = 0x1.62e43p-1;  // to f32
  const auto extent = [&](std::size_t axis) {
    return static_cast<std::uint64_t>(d.spec.dims[axis].extent);
  };
  const Place at = place(d);
  const std::uint64_t T = extent(1), batch = at.token / T, token = at.token % T,
                      channel = ((batch * extent(2) + at.head) * extent(3) + j) * 3;
  int count = 0;
  for (std::uint64_t n = 0; n < 3; ++n)
    count += d.rng.integer(kPerHead + channel + n, 0, static_cast<std::int64_t>(T) - 1) ==
             static_cast<std::int64_t>(token);
  return count == 0 ? 0 : count == 1 ? -kLn2 : -2 * kLn2;
}

// Small integers. Keys have one or two entries of +-1, so that I - beta k k^T is orthogonal or a
// projection and nothing grows faster than linearly: every intermediate of every order of
// evaluation is an integer far below 2^24.
void draw_integers(const RowDraw& d, std::span<double> out, Exact decays, std::int64_t largest) {
  const std::string& name = d.spec.name;
  const auto K = static_cast<std::uint64_t>(out.size());
  if (name == "k") {
    for (double& x : out) x = 0;
    const auto row = static_cast<std::uint64_t>(d.row);
    for (std::int64_t n = d.rng.integer(3 * row, 1, largest); n > 0; --n) {
      const std::uint64_t i = 3 * row + static_cast<std::uint64_t>(n);
      out[static_cast<std::size_t>(d.rng.integer(i, 0, static_cast<std::int64_t>(K) - 1))] =
          d.rng.integer(kSecond + i, 0, 1) ? 1 : -1;
    }
    return;
  }
  for (std::uint64_t j = 0; j < K; ++j) {
    const std::uint64_t i = static_cast<std::uint64_t>(d.first) + j;
    const bool forgotten = decays == Exact::Forget && d.rng.uniform01(i) < 0.04;
    out[j] = name == "g"      ? (decays == Exact::Halve ? halvings(d, j)
                                 : forgotten            ? -1000
                                                        : 0)
             : name == "beta" ? static_cast<double>(d.rng.integer(i, 0, 1))
                              : static_cast<double>(d.rng.integer(i, -largest, largest));
  }
}

// A memory of K rows: every token overwrites one with its value, up to the sign, and reads one. A
// result is a number that tells the token, head and column it came from.
void permutation_row(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const auto row = static_cast<std::uint64_t>(d.row), first = static_cast<std::uint64_t>(d.first);
  if (name == "q" || name == "k") {
    std::ranges::fill(out, 0);
    const auto last = static_cast<std::int64_t>(out.size()) - 1;
    out[static_cast<std::size_t>(d.rng.integer(row, 0, last))] =
        d.rng.integer(kSecond + row, 0, 1) ? 1 : -1;
    return;
  }
  for (std::uint64_t j = 0; j < out.size(); ++j)
    out[j] = name == "g"      ? 0
             : name == "beta" ? 1
                              : static_cast<double>((first + j) * 37 % 127) - 63;
}

void integer_row(const RowDraw& d, std::span<double> out) { draw_integers(d, out, Exact::Open, 2); }
void sign_row(const RowDraw& d, std::span<double> out) { draw_integers(d, out, Exact::Forget, 1); }
void forgetful_row(const RowDraw& d, std::span<double> out) {
  draw_integers(d, out, Exact::Forget, 2);
}
void halving_row(const RowDraw& d, std::span<double> out) {
  draw_integers(d, out, Exact::Halve, 2);
}

}  // namespace

Fill ordinary() {
  return {"ordinary",
          "random keys, moderate gates that differ by head and channel: indexing, scales, missing "
          "terms",
          row<Keys::Random, Gates::Moderate, Betas::Middle>};
}
Fill open_gate() {
  return {"open", "gates exactly 0: the delta rule alone, what the gate's branch must not change",
          row<Keys::Random, Gates::Open, Betas::Middle>};
}
Fill weak() {
  return {
      "weak",
      "correlated keys, decay 0.998, beta near 1: the triangular inverse is full and must be exact",
      row<Keys::Correlated, Gates::Weak, Betas::Strong>};
}
Fill repeated() {
  return {"repeated",
          "one key again and again, beta 1: errors are ten times the usual and still legal",
          row<Keys::Repeated, Gates::Weak, Betas::One>};
}
Fill mixed() {
  return {"mixed",
          "decays from 0 to e^-6 side by side: a decay of the wrong channel, head, row or chunk",
          row<Keys::Random, Gates::Mixed, Betas::Middle>};
}
Fill saturated() {
  return {
      "saturated",
      "gates at the lower bound -5: exponents beyond 88 within a chunk, gate gradients that cancel",
      row<Keys::Random, Gates::Saturated, Betas::Middle>};
}
Fill masked() {
  return {"masked",
          "-1000 at some tokens and channels, others open: suffix sums lose all digits if taken by "
          "difference",
          row<Keys::Random, Gates::Masked, Betas::Middle>};
}
Fill steep() {
  return {"steep",
          "-8 a token in some channels, below any bound: powers of decays overflow where only "
          "their ratio is finite",
          row<Keys::Random, Gates::Steep, Betas::Middle>};
}
Fill reflect() {
  return {"reflect", "beta 2: reflections, errors are carried undamped",
          row<Keys::Random, Gates::Weak, Betas::Two>};
}
Fill edges() {
  return {"edges", "beta 0, 1 and 2, keys of norm 0 and 1e-3: divisions by beta, the norm's eps",
          row<Keys::Edges, Gates::Moderate, Betas::Edges>};
}
Fill decades() {
  return {"decades", "values over six decades: errors that a norm over the tensor would hide",
          row<Keys::Random, Gates::Mixed, Betas::Middle, true>};
}
Fill integers() {
  return {"integers",
          "small integers and sparse keys: every order of evaluation gives the same bits",
          integer_row, true};
}
Fill signs() {
  return {"signs",
          "-1, 0 and 1 with decays of 1 and 0, few enough that bf16 holds every intermediate",
          sign_row, true};
}
Fill forgetful() {
  return {"forgetful",
          "integers with decays of exactly 1 and 0: masks, chunk borders, what a cleared channel "
          "leaves behind",
          forgetful_row, true};
}
Fill halved() {
  return {"halved",
          "integers with decays of 1, 1/2 and 1/4: every product of decays has a value of its own, "
          "so one of a wrong token, channel or chunk shows in the bits",
          halving_row, true};
}
Fill permuted() {
  return {"permuted",
          "one-hot keys and queries, beta 1: a result is a number that names the token, head and "
          "column it was written from",
          permutation_row, true};
}

}  // namespace parity::kda_cases
