// Cases of moe_experts: experts with the routing given.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Ascending ids: K in a row, from a start that draws all but the last expert.
void ids_row(const RowDraw& d, std::span<double> out, std::int64_t experts) {
  const std::int64_t k = std::ssize(out);
  const std::int64_t first =
      d.rng.integer(static_cast<std::uint64_t>(d.first), 0, std::max<std::int64_t>(experts - k, 0));
  for (std::int64_t j = 0; j < k; ++j)
    out[static_cast<std::size_t>(j)] = static_cast<double>(first + j);
}

void normal(const RowDraw& d, std::span<double> out) {
  if (d.spec.name == "ids") return ids_row(d, out, d.problem.sizes["E"] - 1);
  const auto first = static_cast<std::uint64_t>(d.first);
  if (d.spec.name == "weights") {
    d.rng.fill_uniform01(first, out);
    for (double& w : out) w += 0.125;
    return;
  }
  d.rng.fill_normal(first, out);
  if (d.spec.name.starts_with("params/"))
    for (double& w : out) w *= 1.5 / std::sqrt(static_cast<double>(out.size()));
}

// All tokens to the first K experts: one group of all, and empty ones behind it.
void crowded(const RowDraw& d, std::span<double> out) {
  if (d.spec.name == "ids") return ids_row(d, out, d.problem.sizes["K"]);
  normal(d, out);
}

// Units that bend.
void bending(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name.ends_with(".w1.weight"))
    for (double& w : out) w *= 3;
  if (d.spec.name.ends_with(".w3.weight"))
    for (double& w : out) w *= 16;
}

// A closed gate of SwiGLU (w1 = 0: silu 0, slope one half) leaves gradients that are whole numbers
// over powers of two; with nothing else to see, the forward is zero.
void halves(const RowDraw& d, std::span<double> out) {
  if (d.spec.name == "ids") return ids_row(d, out, d.problem.sizes["E"] - 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(d.first) + i;
    if (d.spec.name == "weights")
      out[i] = std::ldexp(1.0, -static_cast<int>(d.rng.integer(at, 0, 2)));
    else if (d.spec.name.ends_with(".w1.weight"))
      out[i] = 0;
    else
      out[i] = static_cast<double>(d.rng.integer(at, -1, 1));
  }
}

// Gates of 64, where SwiGLU is the gate itself and its slope one: experts of whole numbers, weights
// of powers of two, exact in any order.
void integers(const RowDraw& d, std::span<double> out) {
  halves(d, out);
  if (d.spec.name == "x") out[0] = 64;
  if (d.spec.name.ends_with(".w1.weight")) out[0] = 1;
}

Sizes of(std::int64_t T, std::int64_t E, std::int64_t K, std::int64_t L, std::int64_t F) {
  return {{"T", T, {}}, {"E", E, {}}, {"K", K, {}}, {"F", F, {}}, {"L", L, {}}};
}

std::string_view exempt(const Case&, std::string_view tensor, std::string_view) {
  return tensor.starts_with("grads/params/") ? "an expert without a token has no gradient" : "";
}
constexpr std::string_view kIdle = "gradients of experts without a token";

const Fill kNormal{"normal", "the usual case", normal};
const Fill kCrowded{"crowded", "one long group and empty ones", crowded};
const Fill kBending{"bending", "limits of the unit", bending};

const Register usual{CaseSet{.op = "moe_experts",
                             .what = "Groups of every length",
                             .lane = Lane::Smoke,
                             .sizes = {of(40, 12, 3, 20, 16), of(70, 4, 2, 16, 16)},
                             .dtypes = {Dtype::F32, Dtype::BF16},
                             .fills = {kNormal, kCrowded, kBending},
                             .exempt = exempt,
                             .zero_share = 0.7,
                             .zero_share_why = kIdle}};

const Register silu{CaseSet{.op = "moe_experts",
                            .what = "SwiGLU; one choice; in double",
                            .lane = Lane::Smoke,
                            .sizes = {of(24, 5, 1, 24, 12)},
                            .dtypes = {Dtype::F32, Dtype::F64},
                            .fills = {kNormal},
                            .options = {{{"act", "silu"}}, {}},
                            .exempt = exempt,
                            .zero_share = 0.7,
                            .zero_share_why = kIdle}};

const Register exact{
    CaseSet{.op = "moe_experts",
            .what = "Open and closed gates",
            .lane = Lane::Smoke,
            .check = Check::Exact,
            .sizes = {of(40, 6, 2, 12, 8)},
            .dtypes = {Dtype::F32},
            .fills = {{"halves", "gradients where a gate is closed", halves, true},
                      {"integers", "which rows are combined, and where they go", integers, true}},
            .options = {{{"act", "silu"}}},
            .exempt = exempt,
            .zero_share = 1,
            .zero_share_why = "closed gates pass nothing forward"}};

const Register bits{CaseSet{.op = "moe_experts",
                            .what = "Repeats and numbers of threads",
                            .lane = Lane::Smoke,
                            .check = Check::Bitwise,
                            .sizes = {of(150, 6, 2, 20, 40)},
                            .dtypes = {Dtype::F32, Dtype::BF16},
                            .fills = {kNormal, kCrowded},
                            .kernels = "*.grouped"}};

const Register large{CaseSet{.op = "moe_experts",
                             .what = "More tokens than a tile, wide experts",
                             .lane = Lane::Full,
                             .sizes = {of(300, 8, 2, 64, 48)},
                             .dtypes = {Dtype::F32, Dtype::BF16},
                             .fills = {kNormal, kCrowded},
                             .exempt = exempt,
                             .zero_share = 0.7,
                             .zero_share_why = kIdle}};

}  // namespace
}  // namespace parity
