// Exact probes of kda_layer. A token is one of D kinds, one channel each, so that every projection
// is a table: queries and keys of one channel, values of one size on three quarters of the
// channels, betas of 0 or 1, decays of 0 or 1, gates shut, open or half open. What is read is one
// row of the state, c on twelve of sixteen channels, or an empty one. With eps = c^2 / 4 the norm
// divides by sqrt(3/4 c^2 + 1/4 c^2) = c, or by c / 2.
#include "cases/exact_rows.hpp"

namespace parity {
namespace {

std::size_t mixed(std::size_t a, std::size_t b, std::size_t c) {
  return (a * 7 + b * 5 + c * 11 + (a ^ b) * 3) >> 1;
}

// out = the row of a table of `width` channels a head: 2^20 where the kind's channel is this one.
void table(const RowDraw& d, std::span<double> out, std::size_t width, std::size_t salt) {
  const auto row = static_cast<std::size_t>(d.row);
  for (std::size_t kind = 0; kind < out.size(); ++kind)
    out[kind] = mixed(kind, row / width, salt) % width == row % width ? exact::kLoud : 0;
}

void values(std::span<double> out, std::size_t channel) {
  for (std::size_t kind = 0; kind < out.size(); ++kind)
    out[kind] = (channel + kind) % 4 == 0 ? 0 : exact::kLoud;
}
// c = 2^20 K^(-1/2) at K = 4
constexpr const char* kEps = "68719476736";

void tables(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const auto is = [&](const char* end) { return name.ends_with(end); };
  const auto row = static_cast<std::size_t>(d.row);
  const auto K = static_cast<std::size_t>(d.problem.sizes["K"]);
  exact::constant(out, 0);
  if (name == "x") {
    const auto kind = d.rng.integer(static_cast<std::uint64_t>(d.first), 0, std::ssize(out) - 1);
    out[static_cast<std::size_t>(kind)] = 1;
  } else if (name.starts_with("cotangents/")) {
    exact::lone_sign(d, out);
  } else if (is("q_proj.weight")) {
    table(d, out, K, 1);
  } else if (is("k_proj.weight")) {
    table(d, out, K, 2);
  } else if (is("v_proj.weight")) {
    values(out, row);
  } else if (is("conv1d.weight")) {  // values come from the token before
    out[out.size() - (is("v_conv1d.weight") ? 2 : 1)] = 1;
  } else if (is("b_proj.weight")) {
    for (std::size_t kind = 0; kind < out.size(); ++kind)
      out[kind] = mixed(kind, row, 3) % 4 == 0 ? -exact::kShut : exact::kShut;
  } else if (is("f_a_proj.weight")) {
    for (std::size_t kind = row % K; kind < out.size(); kind += K) out[kind] = 1;
  } else if (is("f_b_proj.weight")) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = mixed(i, row, 4) % 5 == 0 ? exact::kShut : -exact::kShut;
  } else if (is("g_proj.weight")) {
    for (std::size_t kind = 0; kind < out.size(); ++kind)
      out[kind] = exact::kShut * (static_cast<double>(mixed(kind, row, 5) % 3) - 1);
  } else if (is("o_norm.weight")) {
    exact::constant(out, 1);
  } else if (is("o_proj.weight")) {
    exact::pick_signed(d, out);
  }
}

const Register exact_layer{CaseSet{
    .op = "kda_layer",
    .what = "Tokens of a few kinds, states that are written, kept or forgotten",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B2,T12,D16,H2,HV2,K4,V16"),
              Sizes::parse("B1,T12+0+2+9+1,D16,H2,HV4,K4,V16")},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {{"tables", "which row of the state is written and read, by which token's filters",
               tables, true}},
    .options = {{{"eps", kEps}, {"gate", "softplus"}}, {{"eps", kEps}, {"lb", "-1024"}}},
}};

}  // namespace
}  // namespace parity
