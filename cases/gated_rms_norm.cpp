// Cases and bound of gated_rms_norm.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Weights around one.
bool weight_row(const RowDraw& d, std::span<double> out) {
  if (d.spec.name != "weight") return false;
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  for (double& w : out) w = 1 + w / 4;
  return true;
}

void noise(const RowDraw& d, std::span<double> out) {
  if (!weight_row(d, out)) d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Mean squares from 1 to 2^-40, through eps = 1e-5, and a zero row.
void small_rows(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.name != "x") return;
  const auto row = static_cast<int>(d.row % 21);
  for (double& x : out) x = row == 20 ? 0 : x * std::ldexp(1.0, -row);
}

// Gates up to +-40: closed ones give zeros, open ones a slope that vanishes.
void saturated(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.name == "gate")
    for (double& g : out) g *= 16;
}

// Equal sizes 2^k under eps = 0, gates 0 (sigmoid 1/2), weights +-1 and +-2, integer cotangents:
// everything is dyadic.
void exact_rows(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(d.first) + i;
    const double sign = d.rng.integer(at, 0, 1) == 0 ? -1 : 1;
    if (d.spec.name == "x")
      out[i] = sign * std::ldexp(1.0, static_cast<int>(d.row % 7) - 3);
    else if (d.spec.name == "gate")
      out[i] = 0;
    else if (d.spec.name == "weight")
      out[i] = sign * (i % 2 == 0 ? 1 : 2);
    else
      out[i] = static_cast<double>(d.rng.integer(at, -1, 1));
  }
}

Sizes rows(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t V) {
  return {{"B", B, {}}, {"T", T, {}}, {"HV", HV, {}}, {"V", V, {}}};
}

const Fill kNormal{"normal", "the usual case", noise};
const Fill kSmall{"small_rows", "eps inside or outside the root shows", small_rows};
const Fill kSaturated{"saturated", "gates closed and open", saturated};

const Register usual{CaseSet{
    .op = "gated_rms_norm",
    .what = "Rows of every size, gates of every kind",
    .lane = Lane::Smoke,
    .sizes = {rows(2, 21, 2, 32),  // 84 rows: five or six a slot
              rows(1, 5, 1, 13)},  // fewer rows than slots, tail of every vector width
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kSmall, kSaturated},
    .options = {{{"recompute", "1"}}},
}};

const Register more{CaseSet{
    .op = "gated_rms_norm",
    .what = "Other widths, many rows, one row",
    .lane = Lane::Full,
    .sizes = {rows(1, 150, 1, 64), rows(1, 1, 1, 64), rows(3, 7, 2, 100)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kSmall, kSaturated},
    .options = {{{"recompute", "1"}}, {{"eps", "1e-6"}}},
    .seeds = {0, 1},
}};

const Register exact{CaseSet{
    .op = "gated_rms_norm",
    .what = "Mean squares that are powers of four",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {rows(1, 9, 2, 16)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"exact_rows", "equal sizes, gates of one half", exact_rows, true}},
    .options = {{{"eps", "0"}, {"recompute", "1"}}},
}};

Bound bound(const Case&, const Contract& contract, const TensorSpec&) {
  return {.kind = BoundKind::Estimated,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
          .accumulate = contract.accumulate,
          .why =
              "the companion counts roundoffs: n + 2 of the mean square, halved by the root, 4 of "
              "a sigmoid (its exponential "
              "within 2, which is an estimate of libm), 5 of s for 1 - s, 9 sqrt(n) of the weight "
              "gradient's sum over n rows "
              "(Higham, 2nd ed., 3.1). One final rounding."};
}

const Register definition{BoundDef{.op = "gated_rms_norm", .bound = bound}};

}  // namespace
}  // namespace parity
