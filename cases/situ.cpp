// Cases of situ: gated units of Kimi K3's experts.
#include <cmath>

#include "cases/exact_rows.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

void normal(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Gates through beta and ups through linear_beta: both limiters bend, none is shut.
void bending(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name != "gate_up") return;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= i < out.size() / 2 ? 3 : 20;
}

// Both far beyond their limits, where slopes vanish.
void saturated(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name != "gate_up") return;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= i < out.size() / 2 ? 12 : 60;
}

// Gates and ups of 0 or far beyond their limits: outputs of 0 and 100, slopes of 0, 1/2 and 1.
void shut(const RowDraw& d, std::span<double> out) {
  exact::integers(d, out, d.spec.name == "gate_up" ? 1 : 4);
  if (d.spec.name == "gate_up")
    for (double& x : out) x *= exact::kShut;
}

Sizes rows(std::int64_t T, std::int64_t F) { return {{"T", T, {}}, {"F", F, {}}}; }

const Fill kNormal{"normal", "the usual case", normal};
const Fill kBending{"bending", "which limit belongs to which half", bending};
const Fill kSaturated{"saturated", "slopes of closed units", saturated};

const Register smoke{CaseSet{.op = "situ",
                             .what = "Units of every size",
                             .lane = Lane::Smoke,
                             .sizes = {rows(24, 40), rows(7, 13)},
                             .dtypes = {Dtype::F32, Dtype::BF16},
                             .fills = {kNormal, kBending, kSaturated}}};

const Register options{
    CaseSet{.op = "situ",
            .what = "Other limits, and no limit of the up branch",
            .lane = Lane::Smoke,
            .sizes = {rows(16, 24)},
            .dtypes = {Dtype::F32},
            .fills = {kNormal, kBending},
            .options = {{{"beta", "1"}, {"linear_beta", "0"}}, {{"beta", "2.5"}}}}};

const Register wide{CaseSet{.op = "situ",
                            .what = "In double",
                            .lane = Lane::Full,
                            .sizes = {rows(24, 40)},
                            .dtypes = {Dtype::F64},
                            .fills = {kBending}}};

const Register exact_units{
    CaseSet{.op = "situ",
            .what = "Open, shut and undecided units",
            .lane = Lane::Smoke,
            .check = Check::Exact,
            .sizes = {rows(24, 40), rows(7, 13)},
            .dtypes = {Dtype::F32, Dtype::BF16},
            .fills = {{"shut", "limits and slopes, and which half is which", shut, true}},
            .options = {{}, {{"beta", "2"}, {"linear_beta", "0"}}}}};

const Register no_double{
    Explanation{.op = "situ",
                .dtype = "f64",
                .hole = "no kernel takes this dtype",
                .why = "its fp64 cases judge stored files and commands, kernels compute in f32"}};

}  // namespace
}  // namespace parity
