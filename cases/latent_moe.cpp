// Cases of latent_moe and moe: routed and shared experts.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

double input_scale(std::string_view name, std::size_t width) {
  const double root = std::sqrt(static_cast<double>(width));
  if (name.ends_with("gate.weight") && name.find("shared") == std::string_view::npos)
    return 1.5 / root;
  if (name.ends_with("e_score_correction_bias")) return 0.1;
  return name.starts_with("params/") ? 1.5 / root : 1;
}

void normal(const RowDraw& d, std::span<double> out) {
  if (d.spec.name == "ids") {  // ascending, all experts in turn but the last
    const std::int64_t E = d.problem.sizes["E"] - 1, k = std::ssize(out);
    const std::int64_t first = d.row % (E - k + 1);
    for (std::int64_t j = 0; j < k; ++j)
      out[static_cast<std::size_t>(j)] = static_cast<double>(first + j);
    return;
  }
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  const bool norm = d.spec.name == "params/routed_expert_norm.weight";
  for (double& x : out) x = norm ? 1 + x / 4 : x * input_scale(d.spec.name, out.size());
}

// Every third expert starves, the second in the lead.
void starving(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name == "params/gate.e_score_correction_bias")
    for (std::size_t e = 0; e < out.size(); ++e) out[e] += e % 3 == 1 ? -2 : e == 2 ? 1 : 0;
}

// All tokens to the first K experts.
void crowded(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name == "params/gate.e_score_correction_bias")
    for (std::size_t e = 0; e < out.size(); ++e)
      out[e] += static_cast<std::int64_t>(e) < d.problem.sizes["K"] ? 4 : 0;
}

// u so small that the latent norm's eps shows.
void tiny(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name == "params/routed_expert_down_proj.weight")
    for (double& w : out) w *= 0x1p-5;
}

// Gates and ups so large that the unit bends.
void bending(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.name.ends_with(".w1.weight"))
    for (double& w : out) w *= 3;
  if (d.spec.name.ends_with(".w3.weight"))
    for (double& w : out) w *= 16;
}

Sizes latent(std::int64_t T, std::int64_t E, std::int64_t K, std::int64_t L, std::int64_t F) {
  return {{"T", T, {}}, {"D", 24, {}}, {"E", E, {}}, {"K", K, {}},
          {"F", F, {}}, {"L", L, {}},  {"S", 20, {}}};
}
Sizes plain(std::int64_t T, std::int64_t E, std::int64_t K, std::int64_t F, std::int64_t S) {
  Sizes sizes{{"T", T, {}}, {"D", 24, {}}, {"E", E, {}}, {"K", K, {}}, {"F", F, {}}};
  if (S > 0) sizes.set({"S", S, {}});
  return sizes;
}

const Fill kNormal{"normal", "the usual case", normal};
const Fill kStarving{"starving", "experts without a token; the bias chooses only", starving};
const Fill kCrowded{"crowded", "all tokens to the same experts", crowded};
const Fill kTiny{"tiny", "eps of the latent norm", tiny};
const Fill kBending{"bending", "limits of the unit", bending};

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  if (c.options.flag("replay") && (tensor == "ids" || tensor == "tokens_per_expert"))
    return "the choice is given";
  if (c.fill == "crowded" && (tensor == "ids" || tensor == "tokens_per_expert"))
    return "all tokens choose the same experts";
  if (tensor.starts_with("grads/params/experts.") && trivial == "zeros")
    return "an expert without a token has no gradient";
  if (tensor.starts_with("grads/params/experts."))
    return c.fill == "normal" && !c.options.flag("replay") ? ""
                                                           : "an expert without a token has no "
                                                             "gradient";
  return "";
}

constexpr std::string_view kIdle = "gradients of experts without a token";

const Register usual{CaseSet{.op = "latent_moe",
                             .what = "Experts at the latent width, SiTU, latent norm",
                             .lane = Lane::Smoke,
                             .sizes = {latent(26, 12, 3, 16, 16), latent(19, 6, 2, 20, 12)},
                             .dtypes = {Dtype::F32, Dtype::BF16},
                             .fills = {kNormal, kStarving, kTiny, kBending},
                             .options = {{{"scale", "2.5"}}},
                             .exempt = exempt,
                             .zero_share = 0.7,
                             .zero_share_why = kIdle}};

const Register options{
    CaseSet{.op = "latent_moe",
            .what = "No norm, no renormalisation, SwiGLU, replay, groups, taps, one choice",
            .lane = Lane::Smoke,
            .sizes = {latent(26, 12, 3, 20, 12)},
            .dtypes = {Dtype::F32},
            .fills = {kNormal},
            .options = {{{"norm", "0"}, {"renorm", "0"}, {"scale", "2.5"}},
                        {{"act", "silu"}, {"bias", "0"}},
                        {{"replay", "1"}, {"scale", "2.5"}},
                        {{"groups", "4"}, {"top_groups", "2"}, {"taps", "1"}}},
            .exempt = exempt,
            .zero_share = 0.7,
            .zero_share_why = kIdle}};

const Register extremes{CaseSet{.op = "latent_moe",
                                .what = "All tokens to the same experts",
                                .lane = Lane::Smoke,
                                .sizes = {latent(26, 6, 2, 16, 12)},
                                .dtypes = {Dtype::F32},
                                .fills = {kCrowded},
                                .exempt = exempt,
                                .zero_share = 0.7,
                                .zero_share_why = kIdle}};

const Register bits{CaseSet{.op = "latent_moe",
                            .what = "Repeats and numbers of threads",
                            .lane = Lane::Smoke,
                            .check = Check::Bitwise,
                            .sizes = {latent(70, 6, 2, 16, 12)},
                            .dtypes = {Dtype::F32},
                            .fills = {kNormal},
                            .kernels = "*.grouped"}};

const Register full_width{
    CaseSet{.op = "moe",
            .what = "Experts at the model's width, with and without shared ones",
            .lane = Lane::Smoke,
            .sizes = {plain(26, 12, 3, 24, 20), plain(19, 6, 2, 16, 0)},
            .dtypes = {Dtype::F32, Dtype::BF16},
            .fills = {kNormal, kStarving},
            .options = {{{"scale", "2.5"}}},
            .exempt = exempt,
            .zero_share = 0.7,
            .zero_share_why = kIdle}};

const Register wide{CaseSet{.op = "latent_moe",
                            .what = "In double",
                            .lane = Lane::Smoke,
                            .sizes = {latent(26, 12, 3, 16, 16)},
                            .dtypes = {Dtype::F64},
                            .fills = {kNormal},
                            .options = {{{"scale", "2.5"}}},
                            .exempt = exempt,
                            .zero_share = 0.7,
                            .zero_share_why = kIdle}};

const Register wide_plain{CaseSet{.op = "moe",
                                  .what = "In double",
                                  .lane = Lane::Smoke,
                                  .sizes = {plain(26, 12, 3, 16, 20)},
                                  .dtypes = {Dtype::F64},
                                  .fills = {kNormal},
                                  .options = {{{"scale", "2.5"}}},
                                  .exempt = exempt,
                                  .zero_share = 0.7,
                                  .zero_share_why = kIdle}};

}  // namespace
}  // namespace parity
