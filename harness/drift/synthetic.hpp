// Ensembles of runs that never happened, to measure what the judgement promises: how often a clean
// candidate fails, which planted drifts are found, and what rules in use elsewhere would have said.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/drift/column.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::drift {

// Logarithms of a loss and of two gradient norms follow a curve plus noise whose spread grows by e
// every 12 steps from 5e-6 to 6e-4 (of the norms, 30 times that), as between real runs.
struct Noise {
  const char* name = "";
  double memory = 0;  // of one step in the next (AR(1))
  int degrees = 0;    // of Student's t of the innovations; 0: normal
  double burst = 0;   // chance of a step to begin 20 steps of 30 times the noise
};

enum class Plant {
  None,
  Everything,  // loss and norms times 1 + size, from the first step
  Parameter,   // one norm times 1 + size, from the first step: the loss knows nothing
  Late,        // the loss times 1 + size, over the last half
  Ramp,        // the loss times 1 + size t / steps
  Rough        // the loss's noise times size, over the last half
};
struct Planted {
  const char* name = "";
  Plant plant = Plant::None;
  double size = 0;
};

struct Ensemble {
  std::size_t references = 0;
  std::int64_t steps = 0;
};

// What the rules look at: the loss of the candidate and of one reference.
struct Draw {
  std::vector<Column> columns = {};
  std::vector<double> candidate = {}, reference = {};
};
Draw draw(const Ensemble&, const Noise&, const Planted&, const Rng&);

std::span<const Noise> noises();
std::span<const Planted> plants();  // without None

// Rules in use elsewhere, on the loss of two runs: a score that is to stay at or below a limit.
struct Rule {
  const char* name = "";
  double limit = 0;
  double (*score)(std::span<const double> candidate, std::span<const double> reference) = nullptr;
};
std::span<const Rule> rules();

// A share, with its 95 % interval (Wilson, "Probable inference", JASA 22, 1927).
struct Share {
  std::int64_t hits = 0, of = 0;
  double value() const { return of ? static_cast<double>(hits) / static_cast<double>(of) : 0; }
  double low() const;
  double high() const;
};

// Area under the ROC curve: the chance that a faulty run scores higher than a clean one, ties half.
double roc_area(std::span<const double> clean, std::span<const double> faulty);

}  // namespace parity::drift
