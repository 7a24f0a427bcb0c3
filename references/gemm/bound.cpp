// How far a product may be from its truth: by the contract's arithmetic.
//
// Plain f32: a product, K - 1 additions, a start and at most 4 scalings of one roundoff each
// (Higham, Accuracy and Stability, 2nd ed., 3.1).
//
// A matrix unit: a step truncates each of group + 1 terms by less than 2^-F of the greatest nominal
// size, and the sum by 2^-kept of itself. Both are at most m, the companion, which counts nominal
// sizes. Partial sums of slices are added in f32. tf32 operands lose 2^-10 of themselves truncated,
// 2^-11 rounded.
#include <cmath>

#include "references/gemm/problem.hpp"

namespace parity::gemm {
namespace {

constexpr double kScalings = 4;

double ceil_div(std::int64_t a, std::int64_t b) { return static_cast<double>((a + b - 1) / b); }

// Roundoffs of f32.
double units_of(const tensorcore::Schedule& s, std::int64_t K) {
  using tensorcore::Scheme;
  const tensorcore::Unit& unit = *s.unit;
  const double slices = s.slice == 0 ? 1 : ceil_div(K, s.slice);
  if (unit.scheme == Scheme::Fma) return static_cast<double>(K) + slices;
  const int group = unit.scheme == Scheme::BlockDots ? 64 : unit.group;
  // Sums of 16 products may exceed the nominal size of their scales 576 times: never less than it.
  const double terms = unit.scheme == Scheme::BlockDots ? 5 : group + 1;
  const bool narrow = unit.keeps == tensorcore::Keeps::E8M13;
  const double kept = s.accumulate == Dtype::F16 ? 0x1p-11 : narrow ? 0x1p-13 : 0x1p-23;
  const double step = terms * std::ldexp(1.0, -unit.fraction) + kept;
  const double steps = slices * ceil_div(s.slice == 0 ? K : s.slice, group);
  double units = (steps * step) * 0x1p24 + slices;
  if (unit.scheme == Scheme::ViaHalf) units += ceil_div(K, unit.k);
  if (unit.inputs.front() == Dtype::TF32) units += s.nearest_inputs ? 0x1p14 : 0x1p15;
  return units;
}

Bound bound(const Case& c, const Contract& contract, const TensorSpec&) {
  const Problem p = problem_of(c);
  const auto schedule = schedule_of(p, schedule_name(contract));
  Bound b{.kind = BoundKind::Proved,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
          .why =
              "plain f32: a roundoff for each product, addition and scaling (Higham, 2nd ed., "
              "3.1), one final rounding"};
  b.c_acc = static_cast<double>(p.K) + 1;
  if (schedule) {
    b.c_acc = units_of(*schedule, p.K);
    b.why =
        "a matrix unit: group + 1 terms truncated F bits below the greatest, the sum to what "
        "the accumulator keeps, at every step; slices added in f32; one final rounding";
  }
  b.c_acc += kScalings;
  return b;
}

const Register definition{BoundDef{.op = "gemm", .bound = bound}};

}  // namespace
}  // namespace parity::gemm
