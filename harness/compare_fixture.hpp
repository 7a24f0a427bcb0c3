// Synthetic tensors for tests of the judge: a truth of known scale, a base with K variants and a
// candidate, all drawn from the same noise, so that the candidate is clean until a test damages it.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/numeric/philox.hpp"
#include "harness/walk.hpp"

namespace parity::test {

struct Synthetic {
  std::vector<Dim> dims = {{"T", 64}, {"H", 4}, {"V", 64}};
  Dtype dtype = Dtype::F32;
  double noise = 4e-3;  // RMS of an error before the last rounding, relative to the truth's RMS
  int variants = kVariants;
  std::uint64_t seed = 1;
  std::function<double(std::int64_t)> scale = {};  // of the noise of element i; 1 where absent
  double shared = 0;  // part of the noise that the elements of a row have in common
  Fidelity fidelity = Fidelity::Faithful;
  Bound bound = {.kind = BoundKind::Estimated, .scale_from = ScaleFrom::Spread, .why = "synthetic"};
};

struct Drawn {
  ExpectedTensor expected = {};
  Base base = {};
  std::vector<double> observed = {};  // before rounding to the storage format
  Fidelity fidelity = Fidelity::Faithful;
  Bound bound = {};
  bool exact = false;
  bool details = true;

  TensorRecord judged() const {
    TensorRecord record = compare({.expected = expected,
                                   .base = &base,
                                   .observed = make_tensor(expected.spec, observed),
                                   .bound = bound,
                                   .fidelity = fidelity,
                                   .exact = exact,
                                   .details = details});
    judge_tensor(record);
    return record;
  }
};

inline std::vector<double> rounded(Dtype dtype, std::vector<double> values) {
  for (double& v : values) v = round_to(dtype, v);
  return values;
}

inline Drawn draw(const Synthetic& s) {
  Drawn d{.fidelity = s.fidelity, .bound = s.bound};
  d.expected.spec = {.name = "o", .role = Role::Output, .dtype = s.dtype, .dims = s.dims};
  const std::int64_t n = elements(s.dims), columns = s.dims.empty() ? 1 : s.dims.back().extent;
  const auto size = static_cast<std::size_t>(n);
  d.expected.value.resize(size);
  Rng{.seed = s.seed, .stream = 0}.fill_normal(0, d.expected.value);
  d.expected.scale.assign(size, 1.0);
  const auto evaluation = [&](std::uint64_t stream) {
    const Rng own{.seed = s.seed, .stream = stream}, row{.seed = s.seed, .stream = stream + 1000};
    std::vector<double> values = d.expected.value;
    std::vector<double> noise(size);
    own.fill_normal(0, noise);
    const double apart = std::sqrt(1 - s.shared * s.shared);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double common =
          s.shared > 0 ? s.shared * row.normal(static_cast<std::uint64_t>(i / columns)) : 0;
      values[at] += s.noise * (s.scale ? s.scale(i) : 1) * (apart * noise[at] + common);
    }
    return values;
  };
  for (int v = 0; v <= s.variants; ++v)
    d.base.runs.push_back({Values{
        .name = "o", .value = rounded(s.dtype, evaluation(static_cast<std::uint64_t>(v) + 1))}});
  d.observed = evaluation(500);
  return d;
}

inline std::vector<std::string> violated(const TensorRecord& record) {
  std::vector<std::string> views;
  for (const ViewResult& view : record.views)
    if (!view.ok && (views.empty() || views.back() != view.view)) views.push_back(view.view);
  return views;
}

inline const ViewResult* find_view(const TensorRecord& record, View view) {
  for (const ViewResult& v : record.views)
    if (v.view == name(view)) return &v;
  return nullptr;
}

}  // namespace parity::test
