#include "harness/drift/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace parity::drift {
namespace {

constexpr std::size_t kColumns = 3;
constexpr std::array<const char*, kColumns> kNames = {"loss", "grad_norm", "grad_norm/layer"};
constexpr std::array<double, kColumns> kScales = {1, 30, 30};  // of the loss's noise
constexpr std::array<double, kColumns> kEnd = {2, 0.5, 0.1}, kFall = {3.5, 2, 0.4},
                                       kTime = {60, 40, 40};
constexpr double kFirstSpread = 5e-6, kLastSpread = 6e-4, kGrowth = 12;
constexpr std::int64_t kBurst = 20;
constexpr double kBurstFactor = 30;
constexpr double kPrinted = 1e-4;  // the last place of a loss in most logs

struct Path {
  std::vector<double> normal = {}, uniform = {};
  // One run: logs of its columns, by step.
  std::array<std::vector<double>, kColumns> log = {};
};

double innovation(const Noise& noise, std::span<const double> normals) {
  if (noise.degrees == 0) return normals[0];
  double square = 0;
  for (int d = 1; d <= noise.degrees; ++d)
    square += normals[static_cast<std::size_t>(d)] * normals[static_cast<std::size_t>(d)];
  return normals[0] / std::sqrt(square / noise.degrees);
}

void walk(const Ensemble& ensemble, const Noise& noise, const Planted& planted, const Rng& rng,
          Path& path) {
  const auto steps = static_cast<std::size_t>(ensemble.steps);
  const std::size_t each = 1 + static_cast<std::size_t>(noise.degrees);
  path.normal.resize(steps * (kColumns + 1) * each);
  path.uniform.resize(steps);
  rng.fill_normal(0, path.normal);
  rng.split(1).fill_uniform01(0, path.uniform);
  const double fresh = std::sqrt(1 - noise.memory * noise.memory);
  std::array<double, kColumns + 1> state{};
  std::int64_t burst = 0;
  for (std::size_t c = 0; c < kColumns; ++c) path.log[c].resize(steps);
  for (std::size_t t = 0; t < steps; ++t) {
    const auto time = static_cast<double>(t);
    const bool late = 2 * t >= steps;
    burst = path.uniform[t] < noise.burst ? kBurst : std::max<std::int64_t>(0, burst - 1);
    for (std::size_t c = 0; c < state.size(); ++c)
      state[c] =
          noise.memory * state[c] +
          fresh * innovation(noise,
                             std::span(path.normal).subspan((t * state.size() + c) * each, each));
    const double spread =
        std::min(kLastSpread, kFirstSpread * std::exp(time / kGrowth)) * (burst ? kBurstFactor : 1);
    for (std::size_t c = 0; c < kColumns; ++c) {
      double own = 0.6 * state[kColumns] + 0.8 * state[c];  // a part is common to all columns
      double shift = 0;
      const auto add = [&](bool here, double by) { shift += here ? std::log1p(by) : 0; };
      add(planted.plant == Plant::Everything, planted.size);
      add(planted.plant == Plant::Parameter && c == 2, planted.size);
      add(planted.plant == Plant::Late && c == 0 && late, planted.size);
      add(planted.plant == Plant::Ramp && c == 0, planted.size * time / static_cast<double>(steps));
      if (planted.plant == Plant::Rough && c == 0 && late) own *= planted.size;
      path.log[c][t] = std::log(kEnd[c] + kFall[c] * std::exp(-time / kTime[c])) +
                       kScales[c] * spread * own + shift;
    }
  }
}

double largest(std::span<const double> a, std::span<const double> b, std::size_t steps,
               bool relative) {
  double most = 0;
  for (std::size_t t = 0; t < std::min(steps, a.size()); ++t)
    most = std::max(most, std::abs(a[t] - b[t]) / (relative ? std::abs(b[t]) : 1));
  return most;
}

}  // namespace

std::span<const Noise> noises() {
  static constexpr std::array kList = {
      Noise{.name = "AR(1), memory 0.9", .memory = 0.9},
      Noise{.name = "Student's t, 3 degrees", .degrees = 3},
      Noise{.name = "AR(1), memory 0.99, t of 3", .memory = 0.99, .degrees = 3},
      Noise{.name = "AR(1), memory 0.9, bursts", .memory = 0.9, .burst = 1e-3},
  };
  return kList;
}

std::span<const Planted> plants() {
  static constexpr std::array kList = {
      Planted{"all x 1.0005 from the start", Plant::Everything, 5e-4},
      Planted{"norm of one parameter x 1.01", Plant::Parameter, 0.01},
      Planted{"loss x 1.005, last half", Plant::Late, 5e-3},
      Planted{"loss ramps to x 1.005", Plant::Ramp, 5e-3},
      Planted{"noise of the loss x 5, last half", Plant::Rough, 5},
  };
  return kList;
}

std::span<const Rule> rules() {
  static constexpr std::array kList = {
      Rule{"printed loss equal", 0,
           [](std::span<const double> a, std::span<const double> b) {
             double unlike = 0;
             for (std::size_t t = 0; t < a.size(); ++t)
               unlike += std::round(a[t] / kPrinted) != std::round(b[t] / kPrinted) ? 1 : 0;
             return unlike;
           }},
      Rule{"final difference <= 1e-2", 1e-2,
           [](std::span<const double> a, std::span<const double> b) {
             return std::abs(a.back() - b.back());
           }},
      Rule{"<= 3e-3 over 10 steps", 3e-3,
           [](std::span<const double> a, std::span<const double> b) {
             return largest(a, b, 10, false);
           }},
      Rule{"within 5 % everywhere", 0.05,
           [](std::span<const double> a, std::span<const double> b) {
             return largest(a, b, a.size(), true);
           }},
  };
  return kList;
}

Draw draw(const Ensemble& ensemble, const Noise& noise, const Planted& planted, const Rng& rng) {
  const std::size_t runs = ensemble.references + 1;
  std::vector<Path> paths(runs);
  for (std::size_t r = 0; r < runs; ++r)
    walk(ensemble, noise, r == 0 ? planted : Planted{}, rng.split(r), paths[r]);
  Draw result;
  std::vector<double> values(runs);
  for (std::size_t c = 0; c < kColumns; ++c) {
    Column& column = result.columns.emplace_back(ColumnOptions{
        .name = kNames[c], .runs = runs, .steps = ensemble.steps, .parameter = c == 2});
    for (std::int64_t t = 0; t < ensemble.steps; ++t) {
      for (std::size_t r = 0; r < runs; ++r)
        values[r] = std::exp(paths[r].log[c][static_cast<std::size_t>(t)]);
      column.add(t, values, values[0] * 0x1p-23);
      if (c == 0) {
        result.candidate.push_back(values[0]);
        result.reference.push_back(values[1]);
      }
    }
  }
  return result;
}

double Share::low() const {
  const double n = static_cast<double>(of), p = value(), z = 1.96;
  return n == 0 ? 0
                : (p + z * z / (2 * n) - z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n))) /
                      (1 + z * z / n);
}

double Share::high() const {
  const double n = static_cast<double>(of), p = value(), z = 1.96;
  return n == 0 ? 1
                : (p + z * z / (2 * n) + z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n))) /
                      (1 + z * z / n);
}

double roc_area(std::span<const double> clean, std::span<const double> faulty) {
  double wins = 0;
  for (const double f : faulty)
    for (const double c : clean) wins += f > c ? 1 : f == c ? 0.5 : 0;
  const double pairs = static_cast<double>(clean.size()) * static_cast<double>(faulty.size());
  return pairs > 0 ? wins / pairs : 0;
}

}  // namespace parity::drift
