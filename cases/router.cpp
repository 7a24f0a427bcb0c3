// Cases of router: which experts a token goes to, and with what weight.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Ids of a replayed choice: k distinct experts, ascending; row r starts at another one.
void ids_row(const RowDraw& d, std::span<double> out) {
  const std::int64_t E = d.problem.sizes["E"], k = std::ssize(out);
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t slack = E - k;
    const std::int64_t shift = d.rng.integer(static_cast<std::uint64_t>(d.first), 0, slack);
    out[static_cast<std::size_t>(j)] = static_cast<double>(j + (j * 2 >= k ? slack : shift));
  }
}

// x ~ N(0,1); gates such that logits have a spread of about 1.5; biases of about a tenth.
void normal(const RowDraw& d, std::span<double> out) {
  if (d.spec.name == "ids") return ids_row(d, out);
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  double scale = 1;
  if (d.spec.name == "params/gate.weight") scale = 1.5 / std::sqrt(static_cast<double>(out.size()));
  if (d.spec.name == "params/gate.e_score_correction_bias") scale = 0.1;
  for (double& x : out) x *= scale;
}

// Biases so low that every biased score is negative: groups that go must be -inf, not 0, and maxima
// must not start at 0.
void negative_bias(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name == "params/gate.e_score_correction_bias")
    for (double& b : out) b = 2 * b - 2;
}

// Biases far larger than the scores: some experts starve, and weights gathered with the bias are
// far off.
void starving(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name == "params/gate.e_score_correction_bias")
    for (std::size_t e = 0; e < out.size(); ++e) out[e] += e % 3 == 1 ? -2 : 1;
}

// All logits near -50 by one component of x: scores of 1e-22, where the epsilon of the
// renormalisation matters; a softmax does not move.
void low(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name == "x") out[0] = 64;
  if (d.spec.name == "params/gate.weight") out[0] = -0.78125;
}

// Experts in pairs whose gates differ in their last bits; every other pair is told apart by its
// bias. Where a choice parts one of the rest, either of the two is right.
void near_ties(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  const auto width = static_cast<std::int64_t>(out.size());
  if (d.spec.name == "params/gate.weight") {
    d.rng.fill_normal(static_cast<std::uint64_t>(d.row / 2 * 2 * width), out);
    for (double& w : out) w *= 1.5 / std::sqrt(static_cast<double>(width));
    out[0] *= d.row % 2 == 0 ? 1 : 1 + 0x1p-22;
  }
  if (d.spec.name == "params/gate.e_score_correction_bias")
    for (std::size_t e = 1; e < out.size(); e += 2) out[e] = out[e - 1] + (e % 4 == 1 ? 0.25 : 0);
}

Sizes tokens(std::int64_t T, std::int64_t D, std::int64_t E, std::int64_t K) {
  return {{"T", T, {}}, {"D", D, {}}, {"E", E, {}}, {"K", K, {}}};
}

const Fill kNormal{"normal", "the usual case", normal};
const Fill kNegative{"negative_bias", "-inf and 0 are not the same", negative_bias};
const Fill kStarving{"starving", "the bias chooses and does not weigh", starving};
const Fill kLow{"low", "renormalisation at its epsilon", low};

// Renormalised, a single choice weighs one whatever its score.
std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  if (c.options.flag("replay") && tensor == "ids") return "the choice is given";
  if (tensor == "aux_loss" && trivial == "mean") return "a scalar is its own mean";
  const bool one = c.sizes["K"] == 1 && c.options.integer("renorm", 1) != 0;
  if (one && tensor != "ids" && tensor != "tokens_per_expert" && tensor != "margin")
    return "one renormalised choice: weight 1 and no gradient";
  if (c.sizes["K"] == c.sizes["E"]) return "every expert is chosen";
  return "";
}

constexpr std::string_view kSparse = "weights by expert are zero for all that were not chosen";

const Register sigmoid{CaseSet{.op = "router",
                               .what = "Sigmoid scores, a bias, renormalised and scaled",
                               .lane = Lane::Smoke,
                               .sizes = {tokens(24, 32, 16, 4), tokens(17, 40, 24, 6)},
                               .dtypes = {Dtype::F32, Dtype::BF16},
                               .fills = {kNormal, kStarving, kNegative},
                               .options = {{{"scale", "2.5"}}},
                               .exempt = exempt,
                               .zero_share = 0.6,
                               .zero_share_why = kSparse}};

const Register grouped{
    CaseSet{.op = "router",
            .what = "Two of four groups",
            .lane = Lane::Smoke,
            .sizes = {tokens(24, 32, 16, 3)},
            .dtypes = {Dtype::F32},
            .fills = {kNormal, kNegative},
            .options = {{{"groups", "4"}, {"top_groups", "2"}, {"scale", "2.5"}}},
            .exempt = exempt,
            .zero_share = 0.6,
            .zero_share_why = kSparse}};

// The three forms of k3.md §9 on the same inputs: softmax before the choice and renormalised equals
// softmax after it, in values and in gradients; without renormalisation neither does.
const Register order{
    CaseSet{.op = "router",
            .what = "Softmax before and after the choice",
            .lane = Lane::Smoke,
            .sizes = {tokens(24, 32, 16, 4)},
            .dtypes = {Dtype::F32},
            .fills = {kNormal, kLow},
            .options = {{{"score", "softmax"}, {"renorm_eps", "0"}, {"bias", "0"}},
                        {{"score", "topk_softmax"}, {"bias", "0"}},
                        {{"score", "softmax"}, {"renorm", "0"}, {"bias", "0"}},
                        {{"score", "topk_softmax"}, {"bias", "0"}, {"linear_bias", "1"}}},
            .exempt = exempt,
            .zero_share = 0.6,
            .zero_share_why = kSparse}};

const Register other{
    CaseSet{.op = "router",
            .what = "One choice, no renormalisation, auxiliary loss, replay, taps",
            .lane = Lane::Smoke,
            .sizes = {tokens(24, 32, 12, 2)},
            .dtypes = {Dtype::F32},
            .fills = {kNormal},
            .options = {{{"renorm", "0"}, {"scale", "2.5"}},
                        {{"score", "softmax"}, {"renorm_eps", "0"}, {"aux", "1"}},
                        {{"replay", "1"}, {"scale", "2.5"}},
                        {{"replay", "1"}, {"score", "softmax"}, {"renorm_eps", "0"}},
                        {{"taps", "1"}, {"bias", "0"}}},
            .exempt = exempt,
            .zero_share = 0.6,
            .zero_share_why = kSparse}};

const Register one{CaseSet{.op = "router",
                           .what = "One choice, with and without renormalisation",
                           .lane = Lane::Smoke,
                           .sizes = {tokens(24, 32, 6, 1)},
                           .dtypes = {Dtype::F32},
                           .fills = {kNormal},
                           .options = {{}, {{"renorm", "0"}}},
                           .exempt = exempt,
                           .zero_share = 0.95,
                           .zero_share_why = "a renormalised single choice has no gradient"}};

const Register low_scores{CaseSet{.op = "router",
                                  .what = "Scores at the epsilon",
                                  .lane = Lane::Smoke,
                                  .sizes = {tokens(24, 32, 6, 2)},
                                  .dtypes = {Dtype::F32},
                                  .fills = {kLow},
                                  .options = {{{"bias", "0"}}},
                                  .exempt = exempt,
                                  .zero_share = 0.6,
                                  .zero_share_why = kSparse}};

const Register bits{CaseSet{.op = "router",
                            .what = "Repeats and numbers of threads",
                            .lane = Lane::Smoke,
                            .check = Check::Bitwise,
                            .sizes = {tokens(70, 32, 24, 4)},
                            .dtypes = {Dtype::F32},
                            .fills = {kNormal},
                            .kernels = "*.rows"}};

const Register ties{
    CaseSet{.op = "router",
            .what = "Choices within the noise of the gate",
            .lane = Lane::Full,
            .sizes = {tokens(48, 32, 16, 3)},
            .dtypes = {Dtype::F32},
            .fills = {{"near_ties", "a choice that the gate's own noise decides", near_ties}},
            .exempt = exempt,
            .zero_share = 0.6,
            .zero_share_why = kSparse}};

const Register wide{CaseSet{
    .op = "router",
    .what = "In double",
    .lane = Lane::Smoke,
    .sizes = {tokens(24, 32, 16, 4)},
    .dtypes = {Dtype::F64},
    .fills = {kNormal},
    .options = {{{"scale", "2.5"}}, {{"score", "softmax"}, {"renorm_eps", "0"}, {"bias", "0"}}},
    .exempt = exempt,
    .zero_share = 0.6,
    .zero_share_why = kSparse}};

const Register released{CaseSet{.op = "router",
                                .what = "896 experts, 16 choices",
                                .lane = Lane::Full,
                                .sizes = {tokens(32, 256, 896, 16)},
                                .dtypes = {Dtype::F32, Dtype::BF16},
                                .fills = {kNormal, kStarving},
                                .exempt = exempt,
                                .zero_share = 0.95,
                                .zero_share_why = kSparse}};

}  // namespace
}  // namespace parity
