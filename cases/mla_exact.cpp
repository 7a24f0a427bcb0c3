// Exact probes of mla: x is signs, of which the first say which pair of keys a token is, and the
// next which pair it asks for. Latents are signs, weights 1 or 1/2, gates shut, open or half open.
#include "cases/exact_rows.hpp"

namespace parity {
namespace {

// Columns of x: code of the key, code of the query, and those that the latents take.
constexpr std::size_t kBits = 4, kQuery = kBits, kRest = 2 * kBits;
// One differing bit: 2 * 32 * 64 * scale = 1024 at N + R = 16.
constexpr double kKeySize = 32, kQuerySize = 64;

double code(std::int64_t pair, std::size_t bit) { return pair >> bit & 1 ? 1 : -1; }

std::int64_t position(const Case& c, std::int64_t token) {  // within its document
  for (const std::int64_t length : c.sizes.find("T")->parts) {
    if (token < length) return token;
    token -= length;
  }
  return token;
}

void token(const RowDraw& d, std::span<double> out) {
  const std::int64_t p = position(d.problem, d.row % d.problem.sizes["T"]);
  const std::int64_t whole = (p + 1) / 2;  // pairs that it sees both keys of
  const std::int64_t asked =
      whole == 0 ? 0
                 : d.rng.integer(static_cast<std::uint64_t>(d.first + 1'000'000'000), 0, whole - 1);
  exact::signs(d, out);
  for (std::size_t i = 0; i < kBits; ++i) {
    out[i] = code(p / 2, i);
    out[kQuery + i] = code(asked, i);
  }
}

void pairs(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const std::int64_t N = d.problem.sizes["N"], R = d.problem.sizes["R"], C = d.problem.sizes["C"];
  const auto row = static_cast<std::size_t>(d.row);
  if (name == "x") return token(d, out);
  if (name == "cotangents/y") return exact::lone_sign(d, out);
  if (name.find("layernorm") != std::string::npos) return exact::constant(out, 1);
  if (name.ends_with("q_a_proj.weight")) return exact::pick(d, out, exact::kLoud, kQuery);
  if (name.ends_with("kv_a_proj_with_mqa.weight")) {
    if (d.row < C) return exact::pick_signed(d, out, exact::kLoud, kRest);
    exact::constant(out, 0);
    out[row - static_cast<std::size_t>(C)] = kKeySize;
  } else if (name.ends_with("q_b_proj.weight") || name.ends_with("q_proj.weight")) {
    exact::constant(out,
                    0);  // the latent's first channels are the code; so are x's, behind a key's
    const std::int64_t channel = d.row % (N + R) - N;
    const std::size_t first = name.ends_with("q_proj.weight") ? kQuery : 0;
    if (channel >= 0) out[first + static_cast<std::size_t>(channel)] = kQuerySize;
  } else if (name.ends_with("g_proj.weight")) {
    exact::pick(d, out, row % 3 == 0 ? 0 : exact::kShut, kRest);
  } else {
    exact::pick_signed(d, out);  // kv_b_proj, o_proj
  }
}

const Register exact_pairs{CaseSet{
    .op = "mla",
    .what = "One or two keys of weight 1 or 1/2",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B2,T16,D24,H2,Q8,C8,N12,R4,V4"),
              Sizes::parse("T3+1+18,D24,H2,Q8,C8,N12,R4,V4"),
              Sizes::parse("B1,T9,D24,H3,C8,N12,R4,V4")},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {{"pairs", "which keys a token sees, by their shared channels; what gates let through",
               pairs, true}},
    .options = {{{"gate", "1"}}, {{"absorb", "1"}, {"gate", "1"}}, {}},
}};

}  // namespace
}  // namespace parity
