// How close is close enough: contracts, truth with its magnitude companion, and the one inequality.
//
//   allowed_i = rho u(out) |x*_i|  +  c_acc g(n, u(acc)) m_i  +  sum_j c_j u_j m_i  +  subnormals
//   s_min(out)
//
// The strict form carries (1 + rho u(out)) on the second and third terms (an error made before the
// last rounding is scaled by it). Growths: Higham, Accuracy and Stability, 2nd ed., §3.1; Higham
// and Mary 2019, thm 2.4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.hpp"
#include "harness/dtype.hpp"
#include "harness/tensor.hpp"

namespace parity {

struct Noise;  // noise.hpp

// How closely the base follows the kernel: decides the ratio factor (twin and faithful 1.15,
// partial 2: only the data types are known).
enum class Fidelity : std::uint8_t { Twin, Faithful, Partial };
std::string_view name(Fidelity);
double ratio_factor(Fidelity);

// An intermediate that the kernel stores in a narrower format.
struct RoundingPoint {
  std::string where = {};  // a name that the op's base knows: "w", "u", "operand", "o"
  Dtype to = Dtype::BF16;
  Rounding mode = Rounding::NearestEven;
  bool operator==(const RoundingPoint&) const = default;
};

// What a kernel promises about its arithmetic.
struct Contract {
  std::string name = {};           // short, for people: "f32", "fla_bf16"
  std::vector<Dtype> dtypes = {};  // case dtypes that it takes
  Dtype accumulate = Dtype::F32;
  std::int64_t chunk =
      0;  // block of a recurrence or reduction; 0: none. The kernel option "chunk" overrides it
  std::vector<RoundingPoint> roundings = {};
  Fidelity fidelity = Fidelity::Faithful;
  bool deterministic = true;  // repeats are bit-equal
  std::vector<std::string> invariant =
      {};  // "threads", "batch", "split", "chunk", "causal": bit-equal under these

  const RoundingPoint* rounding(std::string_view where) const;
  std::string key() const;  // equal keys have equal bases
};

struct Growth {
  enum class Kind : std::uint8_t { None, WorstCase, Blocked, Pairwise, Probabilistic };
  Kind kind = Kind::None;
  double n = 1;       // length of the reduction
  double block = 1;   // Blocked
  double lambda = 9;  // Probabilistic: sqrt(2 ln(2 n N / alpha)); about 9 at alpha = 1e-6
};
// g(n, u); +inf where the form is void (n u >= 1), so that nothing passes by it.
double growth_factor(const Growth&, double u);
// lambda of the probabilistic form for a reduction of n terms in each of so many elements, all of
// them right with probability 1 - alpha.
double growth_lambda(double n, double elements, double alpha);

struct RoundingTerm {
  double c = 1;
  Dtype to = Dtype::BF16;
  std::string_view what = {};  // "P before PV"
};

enum class BoundKind : std::uint8_t { Exact, Proved, Estimated };
enum class ScaleFrom : std::uint8_t {
  Reference,
  Spread
};  // magnitude companion, or sigma of the base's variants
enum class NonFinite : std::uint8_t { MustMatch, AnyWhereTruthIsNonFinite };
std::string_view name(BoundKind);

struct Bound {
  BoundKind kind = BoundKind::Estimated;
  double rho = 1;  // final rounding: 1 to nearest, 2 truncation or stochastic
  double c_acc = 1;
  Growth growth = {};
  Dtype accumulate = Dtype::F32;
  std::vector<RoundingTerm> roundings = {};
  ScaleFrom scale_from = ScaleFrom::Reference;
  double c_sigma = 0;  // with ScaleFrom::Spread: allowed = rho u |x*| + c_sigma sigma_i + floor. 0:
                       // from the family-wise target over the tensor and the degrees of freedom of
                       // sigma (noise.hpp), which is the rule
  double subnormals = 1;  // floor, in smallest subnormals of the output
  NonFinite nonfinite = NonFinite::MustMatch;
  bool strict_signed_zero = false;
  double f_floor = 3;         // against the noise floor: 2 high, 3 normal, 5 exploratory
  std::string_view why = {};  // the derivation; `parity check` refuses an empty one
};

// The op's bound, beside its cases.
struct BoundDef {
  std::string_view op = {};
  Bound (*bound)(const Case&, const Contract&, const TensorSpec&) = nullptr;
};

// fp64 truth of one output and its magnitude companion. For codes, scales and ids `bits` holds the
// exact answer in the storage format and `ignore` marks elements that the definition leaves open
// (1: not compared).
struct ExpectedTensor {
  TensorSpec spec = {};
  std::vector<double> value = {};
  std::vector<double> scale = {};
  std::vector<std::byte> bits = {};
  std::vector<std::uint8_t> ignore = {};
};
struct Expected {
  std::vector<ExpectedTensor> tensors = {};
  std::string refused =
      {};  // the op refuses these inputs, and why (a golden may record that its source did)
  const ExpectedTensor* find(std::string_view name) const;
};

// One evaluation at a contract: per output (by the names of `Expected`) the values after the
// output's own rounding.
struct Values {
  std::string name = {};
  std::vector<double> value = {};
  std::vector<std::byte> bits = {};  // codes, scales, ids
};
using Evaluation = std::vector<Values>;

// base[0] is the base, base[1..K] its harmless variants. `noise` is what they say about each output
// (noise.cpp), kept so that many candidates of one case share it; where it is missing, compare()
// works it out for itself.
struct Base {
  std::vector<Evaluation> runs = {};
  std::vector<Noise> noise;  // no initialiser: kernels need not know what it is
  const Values* find(std::size_t run, std::string_view name) const;
  const Noise* noise_of(std::string_view name) const;
};

}  // namespace parity
