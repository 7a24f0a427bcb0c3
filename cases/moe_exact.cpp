// Exact probes of router, moe, latent_moe and moe_experts. A token is of one of eight kinds, by one
// channel; of each kind two experts have a logit of zero, and the others are shut: weights of 1/2,
// with a slope of 1/4. Gates are so large that SwiGLU is the gate itself; experts write signs of
// one size, even ones to the first half and odd ones to the second, so that the latent norm is
// exact.
#include "cases/exact_rows.hpp"

namespace parity {
namespace {

constexpr std::size_t kKinds = 8;  // the last channels of x
constexpr std::size_t kUps = 7;    // channels 1 ... 7 of x, signs; channel 0 opens the gates

void token(const RowDraw& d, std::span<double> out) {
  exact::signs(d, out);
  out[0] = exact::kLoud;
  for (std::size_t i = 1 + kUps; i < out.size(); ++i) out[i] = 0;
  const auto kind =
      d.rng.integer(static_cast<std::uint64_t>(d.first + 1'000'000'000), 0, kKinds - 1);
  out[out.size() - kKinds + static_cast<std::size_t>(kind)] = 1;
}

// Experts 2 i and 2 j + 1 for each kind; the last one has no token.
void gate(const RowDraw& d, std::span<double> out) {
  const auto pairs = static_cast<std::size_t>(d.problem.sizes["E"] / 2 - 1);
  const auto e = static_cast<std::size_t>(d.row);
  exact::constant(out, 0);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const std::size_t open = e % 2 == 0 ? kind % pairs : (kind / pairs + kind) % pairs;
    if (e / 2 != open) out[out.size() - kKinds + kind] = -exact::kShut;
  }
}

// Signs of the shared experts beside a sum that was normalised, or was not.
double shared_size(const Case& c) {
  return c.op == "latent_moe" && c.options.integer("norm", 1) != 0 ? 0x1p-20 : 1;
}

void kinds(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const bool shared = name.find("shared") != std::string::npos;
  if (name == "x") return token(d, out);
  if (name == "cotangents/y") return exact::lone_sign(d, out);
  if (name == "cotangents/weights_by_expert") return exact::integers(d, out, 2);
  if (name == "params/gate.weight") return gate(d, out);
  if (name == "params/gate.e_score_correction_bias") {
    for (std::size_t e = 0; e < out.size(); ++e) out[e] = static_cast<double>(e % 5) / 64;
  } else if (name == "params/routed_expert_norm.weight") {
    exact::constant(out, 1);
  } else if (name == "params/routed_expert_down_proj.weight") {
    if (d.row == 0) return exact::pick(d, out, 1);
    exact::pick_signed(d, out, 1, 1, kUps);
  } else if (name == "params/routed_expert_up_proj.weight") {
    exact::pick_signed(d, out);
  } else if (name.ends_with(".w1.weight") || name.ends_with("gate_proj.weight")) {
    exact::constant(out, 0);
    out[0] = 1;
  } else if (name.ends_with(".w3.weight") || name.ends_with("up_proj.weight")) {
    exact::pick_signed(d, out, 1, 1, kUps);
  } else {  // w2, down_proj
    exact::pick_signed(d, out, shared ? shared_size(d.problem) : 1);
    const std::size_t at = name.find("experts.") + 8;
    const bool even = !shared && (name[name.find('.', at) - 1] - '0') % 2 == 0;
    const bool first = d.row < d.spec.dims[0].extent / 2;
    if (!shared && even != first) exact::constant(out, 0);
  }
}

// The routing is given; the gate of each expert opens by channel 0.
void given(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  if (name == "ids") {
    const std::int64_t experts = d.problem.sizes["E"] - 1, k = std::ssize(out);
    const std::int64_t first = d.rng.integer(static_cast<std::uint64_t>(d.first), 0, experts - k);
    for (std::int64_t j = 0; j < k; ++j)
      out[static_cast<std::size_t>(j)] = static_cast<double>(first + j);
  } else if (name == "weights") {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = d.rng.integer(static_cast<std::uint64_t>(d.first) + i, 0, 1) == 0 ? 0.5 : 1;
  } else if (name.starts_with("cotangents/")) {
    exact::lone_sign(d, out);
  } else if (name.ends_with(".w1.weight")) {
    exact::constant(out, 0);
    out[0] = 1;
  } else if (name.ends_with(".w3.weight")) {
    exact::pick_signed(d, out, 1, 1);
  } else if (name.ends_with(".w2.weight")) {
    exact::pick_signed(d, out);
  } else {  // x
    exact::signs(d, out);
    out[0] = exact::kLoud;
  }
}

const std::vector<Dtype> kDtypes = {Dtype::F32, Dtype::BF16, Dtype::F64};
const Fill kKindsFill{"kinds", "which experts a token goes to, with what weight and gradient",
                      kinds, true};

const Register router{CaseSet{
    .op = "router",
    .what = "Logits of zero, and shut ones",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("T40,D16,E8,K2"), Sizes::parse("T33,D24,E12,K2")},
    .dtypes = kDtypes,
    .fills = {kKindsFill},
    .options = {{}, {{"renorm", "0"}, {"scale", "2"}}},
}};

const Register full_width{CaseSet{
    .op = "moe",
    .what = "Two open experts, and shared ones",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("T40,D16,E8,K2,F8,S8"), Sizes::parse("T33,D16,E10,K2,F12")},
    .dtypes = kDtypes,
    .fills = {kKindsFill},
}};

const Register latent{CaseSet{
    .op = "latent_moe",
    .what = "Two open experts, a latent norm of signs",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("T40,D16,E8,K2,F8,L8,S8"), Sizes::parse("T33,D16,E10,K2,F12,L8")},
    .dtypes = kDtypes,
    .fills = {kKindsFill},
    .options = {{{"act", "silu"}}, {{"act", "silu"}, {"norm", "0"}}},
}};

const Register experts{CaseSet{
    .op = "moe_experts",
    .what = "Open gates, weights of 1/2 and 1",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("T40,E6,K2,F8,L8"), Sizes::parse("T70,E8,K2,F16,L16")},
    .dtypes = kDtypes,
    .fills = {{"open", "which rows are combined, with what weight, and where they go", given,
               true}},
    .options = {{{"act", "silu"}}},
}};

}  // namespace
}  // namespace parity
