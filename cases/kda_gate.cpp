// Cases and bound of kda_gate.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Heads decay at rates exp(A) from 1 to 12; biases are small.
bool parameters(const RowDraw& d, std::span<double> out) {
  if (d.spec.name != "A_log" && d.spec.name != "dt_bias") return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = static_cast<std::uint64_t>(d.first) + i;
    out[i] = d.spec.name == "A_log" ? d.rng.uniform(at, 0, 2.5) : d.rng.normal(at) / 2;
  }
  return true;
}

void noise(const RowDraw& d, std::span<double> out) {
  if (!parameters(d, out)) d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// z from -110 to 110: across the threshold 20, the overflow of exp at 88 and both ends of the
// sigmoid.
void sweep(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.name != "g_raw") return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] += static_cast<double>((d.first + static_cast<std::int64_t>(i)) * 37 % 221) - 110;
}

// z near the threshold 20 and the wrong one, 10.
void threshold(const RowDraw& d, std::span<double> out) {
  noise(d, out);
  if (d.spec.name == "g_raw")
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = (i % 2 == 0 ? 11 : 20) + out[i] / 2;
}

// z = 0 with A = 0: sigmoid 1/2, so that integers stay exact.
void zero_logits(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] =
        d.spec.role == Role::Cotangent
            ? static_cast<double>(d.rng.integer(static_cast<std::uint64_t>(d.first) + i, -4, 4))
            : 0;
}

Sizes tokens(std::int64_t B, std::int64_t T, std::int64_t HV, std::int64_t K) {
  return {{"B", B, {}}, {"T", T, {}}, {"HV", HV, {}}, {"K", K, {}}};
}

const Fill kNormal{"normal", "the usual case", noise};
const Fill kSweep{"sweep", "both ends of both gates", sweep};
const Fill kThreshold{"threshold", "around softplus' linear branch", threshold};
const Options kSoftplus{{"gate", "softplus"}, {"bias", "1"}};
const Options kLower{{"gate", "lower"}, {"bias", "1"}};
const Options kLowerNoA{{"gate", "lower_noA"}, {"bias", "1"}};

// log(1 + exp z) in f32 rounds to one of 1, which is all of a gate that the sweep closes.
constexpr std::string_view kWhyZeros =
    "a closed lower-bound gate underflows, and so do its gradients";

const Register usual{CaseSet{
    .op = "kda_gate",
    .what = "Gates of both kinds over their whole range",
    .lane = Lane::Smoke,
    .sizes = {tokens(2, 21, 4, 8), tokens(1, 5, 2, 13)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kSweep},
    .options = {kSoftplus, kLower, kLowerNoA},
    .zero_share = 0.75,
    .zero_share_why = kWhyZeros,
}};

const Register linear_branch{CaseSet{
    .op = "kda_gate",
    .what = "softplus becomes linear at 20",
    .lane = Lane::Smoke,
    .sizes = {tokens(2, 21, 4, 8)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kThreshold},
    .options = {kSoftplus},
}};

const Register more{CaseSet{
    .op = "kda_gate",
    .what = "Many tokens, one token, without bias, other bounds",
    .lane = Lane::Full,
    .sizes = {tokens(1, 400, 2, 8), tokens(1, 1, 4, 128), tokens(3, 16, 8, 32)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kSweep},
    .options = {kSoftplus,
                kLower,
                {{"gate", "softplus"}},
                {{"gate", "lower"}, {"lb", "-1"}},
                {{"gate", "lower_noA"}}},
    .seeds = {0, 1},
    .zero_share = 0.75,
    .zero_share_why = kWhyZeros,
}};

const Register exact{CaseSet{
    .op = "kda_gate",
    .what = "Logits of zero: half of the bound, and integer gradients",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {tokens(1, 40, 2, 8)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"zero_logits", "sigmoid of zero", zero_logits, true}},
    .options = {{{"gate", "lower"}, {"lb", "-4"}, {"bias", "1"}},
                {{"gate", "lower_noA"}, {"lb", "-4"}}},
}};

Bound bound(const Case&, const Contract& contract, const TensorSpec&) {
  return {.kind = BoundKind::Estimated,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
          .accumulate = contract.accumulate,
          .why =
              "the companion counts roundoffs: 2 + |A| of exp(A), 1 of z, 1 of 1 for log(1 + exp "
              "z), 5 of a sigmoid and of "
              "1 - s, 9 sqrt(n) of a sum of n terms (Higham and Mary 2019, at most once in 1e6); "
              "libm within 2 ulp is an "
              "estimate. One final rounding."};
}

const Register definition{BoundDef{.op = "kda_gate", .bound = bound}};

}  // namespace
}  // namespace parity
