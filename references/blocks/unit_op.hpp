// What the references of small ops share: one set of formulas, evaluated in double for the truth
// and in float for the base, and a stored case read by the op's own tensor specs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "harness/walk.hpp"

namespace parity::unit {

// Results of one evaluation by tensor name; names that a case does not have are dropped.
template <class T>
using Results = std::map<std::string, std::vector<T>, std::less<>>;

// Harmless variation of an f32 evaluation: an intermediate moved by up to half an ulp, a sum taken
// in another order. Variation 0, and every double evaluation, is the plain one. An exact probe is
// exact in any order, but not after a move. Variants past the noise floor's own stand for other
// legal kernels in the count of false alarms: they move by an eighth of an ulp only, since a
// rounding and a move of half an ulp each are more than any kernel may make.
class Vary {
 public:
  Vary() = default;
  explicit Vary(const BaseRequest& request)
      : variation_(request.variation),
        reach_(request.variation == 0 || request.problem.check == Check::Exact ? 0
               : request.variation <= kVariants                                ? 0x1p-24
                                                                               : 0x1p-26),
        rng_{request.seed, 0x756e6974} {}

  double operator()(double x) { return x; }
  float operator()(float x) {
    if (reach_ == 0) return x;
    const double moved = 1 + rng_.uniform(count_++, -reach_, reach_);
    return static_cast<float>(static_cast<double>(x) * moved);
  }

  double sum(std::span<const double> terms) const;  // Neumaier
  float sum(std::span<const float> terms) const;    // in a row; variants: in blocks, and backwards

 private:
  int variation_ = 0;
  double reach_ = 0;  // relative; half an ulp is 2^-24 of a value just above a power of two
  Rng rng_ = {};
  std::uint64_t count_ = 0;
};

template <class T>
std::vector<T> widened(const Tensors& tensors, std::string_view name) {
  const std::vector<double> wide = tensors.at(name).widened();
  return std::vector<T>(wide.begin(), wide.end());
}

// Truth with its companions; tensors of role gradient only where asked for.
Expected expected_of(const std::vector<TensorSpec>&, Results<double>&& value,
                     Results<double>&& scale, bool gradients);
// Each result rounded to its tensor's format once (the base of a kernel that stores f32 results).
Evaluation evaluation_of(const std::vector<TensorSpec>&, const Results<float>&, bool gradients);

// ---- stored cases
// ------------------------------------------------------------------------------------------------------

std::string attribute(const StoredCase&, const std::string& name,
                      const std::string& otherwise = {});
bool has(const StoredCase&, std::string_view path);
// Extents of a stored tensor. GoldenError where it does not have that many axes.
std::vector<std::int64_t> shape(const StoredCase&, const std::string& path, std::size_t axes);
// Option `name` from an attribute, unless that is the value which an absent option has.
void set_option(const StoredCase&, Options&, const char* name, const std::string& attribute_name,
                double usual);
// Inputs and result paths by the op's specs; the case's sizes and options must be set.
void import_tensors(const StoredCase&, const OpDef&, ImportedCase&);

// ---- sequences
// ---------------------------------------------------------------------------------------------------------

// Row (b T + t) of the first token of each sequence, and one past the last: B sequences of T, or
// the parts of a packed T.
std::vector<std::int64_t> sequence_starts(const Case&);
bool derive_cu_seqlens(const Case&, Tensor&);  // OpDef::derive

// Roundoffs of a sum of n terms over tokens or rows: n at worst, and no more than 9 sqrt(n) but
// once in 10^6 (Higham and Mary 2019, theorem 2.4, lambda = 9).
inline double sum_units(double n) { return std::min(n, 9 * std::sqrt(n)); }

inline double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
inline float sigmoid(float x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// Companions count roundoffs of this in place of a sigmoid: an f32 exponential below 2^-126 may be
// flushed to zero or kept as a subnormal, an error of 2^-126 = 2^-102 roundoffs.
inline constexpr double kFlushed = 0x1p-100;
inline double sigmoid_size(double x) { return sigmoid(x) + kFlushed; }

// Roundoffs by which 1 - s may be off, c being its true value: 1 + e rounds by one, the quotient by
// half of one, and e below half a roundoff is lost altogether, which leaves an error of c itself.
// Cases in f64 are evaluated in f64, others in f32.
inline double complement_units(const Case& problem, double c) {
  return std::min(6.0, 2 * c / (problem.dtype == Dtype::F64 ? 0x1p-53 : 0x1p-24));
}

// 1 - sigmoid: to full precision in the truth, by subtraction in f32 as kernels do.
inline double complement(double logit, double) { return sigmoid(-logit); }
inline float complement(float, float s) { return 1 - s; }

}  // namespace parity::unit
