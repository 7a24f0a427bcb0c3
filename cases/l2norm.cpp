// Cases and bound of l2norm.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

void noise(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Rows of size 2^0 to 2^-40, then a zero row: where eps stands shows in rows near 1e-3.
void small_rows(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.role == Role::Cotangent) return;
  const auto row = static_cast<int>(d.row % 22);
  for (double& x : out) x = row == 21 ? 0 : x * std::ldexp(1.0, -2 * row);
}

void large_rows(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= std::ldexp(1.0, static_cast<int>(d.row % 21));
}

// Equal sizes 2^k under eps = 0 and D a power of 4: the length is a power of two, and small
// integers follow exactly.
void exact_rows(const RowDraw& d, std::span<double> out) {
  const bool cotangent = d.spec.role == Role::Cotangent;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(d.first) + i;
    const double sign = d.rng.integer(at, 0, 1) == 0 ? -1 : 1;
    out[i] = cotangent ? static_cast<double>(d.rng.integer(at, -2, 2))
                       : sign * std::ldexp(1.0, static_cast<int>(d.row % 7) - 3);
  }
}

const Register usual{CaseSet{
    .op = "l2norm",
    .what = "Rows of every size, and where eps stands",
    .lane = Lane::Smoke,
    .sizes = {{{"N", 44, {}}, {"D", 128, {}}},
              {{"N", 66, {}}, {"D", 13, {}}}},  // 13: tail of every vector width
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"normal", "lengths near sqrt(D)", noise},
              {"small_rows", "lengths from 10 to 1e-11, and zero", small_rows}},
}};

const Register more{CaseSet{
    .op = "l2norm",
    .what = "Other widths and eps",
    .lane = Lane::Full,
    .sizes = {{{"N", 66, {}}, {"D", 96, {}}}, {{"N", 22, {}}, {"D", 512, {}}}},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"normal", "lengths near sqrt(D)", noise},
              {"small_rows", "lengths from 10 to 1e-11, and zero", small_rows},
              {"large_rows", "lengths up to 1e7", large_rows}},
    .options = {{}, {{"eps", "1e-3"}}},
    .seeds = {0, 1},
}};

const Register single{CaseSet{
    .op = "l2norm",
    .what = "Rows of one element: y is a sign, and the gradient is all eps",
    .lane = Lane::Full,
    .sizes = {{{"N", 44, {}}, {"D", 1, {}}}},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"small_rows", "lengths from 1 to 1e-11, and zero", small_rows}},
    .seeds = {0, 1},
}};

const Register exact{CaseSet{
    .op = "l2norm",
    .what = "Lengths that are powers of two",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {{{"N", 9, {}}, {"D", 16, {}}}, {{"N", 5, {}}, {"D", 64, {}}}},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"exact_rows", "equal sizes, signs at random", exact_rows, true}},
    .options = {{{"eps", "0"}}},
}};

Bound bound(const Case&, const Contract& contract, const TensorSpec&) {
  return {.kind = BoundKind::Proved,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
          .accumulate = contract.accumulate,
          .why =
              "the companion counts roundoffs: n + 1 of the sum of squares, halved by the root, 1 "
              "each of root, quotient "
              "and products; the projection adds n of its dot product (Higham, 2nd ed., 3.1). One "
              "final rounding."};
}

const Register definition{BoundDef{.op = "l2norm", .bound = bound}};

}  // namespace
}  // namespace parity
