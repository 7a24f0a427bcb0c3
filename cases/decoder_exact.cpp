// Exact probes of decoder and attn_res_stack: no branch adds anything (o_proj, down_proj and w2 are
// zero), so that the stream is the embedding, signs of one size. Reads are means of two sources in
// one block, and decided for the embedding where blocks are of one layer. Gradients still meet
// o_proj and down_proj, whose inputs are exact: attention over one or two tokens, gates half open,
// units beyond their limits.
#include "cases/exact_rows.hpp"

namespace parity {
namespace {

double pattern(std::size_t i) { return i % 3 == 1 ? -1 : 1; }
constexpr double kAsks = 512;  // a source of zeros is 512 D / 2 behind the embedding

void branch(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const auto is = [&](const char* end) { return name.ends_with(end); };
  if (is("q_a_proj.weight") || is("kv_a_proj_with_mqa.weight"))
    return exact::pick_signed(d, out, exact::kLoud);
  if (is("kv_b_proj.weight")) return exact::pick_signed(d, out);
  if (is("mlp.gate_proj.weight") || is("mlp.up_proj.weight") ||
      is("shared_experts.gate_proj.weight") || is("shared_experts.up_proj.weight"))
    return exact::pick_signed(d, out, exact::kShut);
  exact::constant(out, 0);
  if (is("e_score_correction_bias"))
    for (std::size_t e = 0; e < out.size(); ++e)
      out[e] = static_cast<double>(e * 3 % out.size()) / 64;
}

void passing(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const auto is = [&](const char* end) { return name.ends_with(end); };
  if (name == "tokens") {
    const std::int64_t V = d.problem.sizes["V"];
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          static_cast<double>(d.rng.integer(static_cast<std::uint64_t>(d.first) + i, 0, V - 1));
  } else if (name.starts_with("cotangents/")) {
    exact::integers(d, out);
  } else if (is("embed_tokens.weight")) {
    exact::signs(d, out);
    for (std::size_t i = 0; i < out.size() / 2; ++i) out[i] = pattern(i);
    for (double& x : out) x *= exact::kLoud;
  } else if (name == "params/lm_head.weight") {
    exact::pick_signed(d, out);
  } else if (is("_res_proj.weight")) {
    const bool decided = d.problem.options.integer("block", 0) == 1;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = decided && i < out.size() / 2 ? kAsks * pattern(i) : 0;
  } else if (name.find("norm") != std::string::npos && is(".weight")) {
    exact::constant(out, 1);
  } else {
    branch(d, out);
  }
}

const Fill kPassing{"passing", "what passes all branches by, forward and back", passing, true};
const std::vector<Dtype> kDtypes = {Dtype::F32, Dtype::BF16, Dtype::F64};

Options reads(const char* block) {
  return {{"block", block}, {"ffn", "12"}, {"heads", "2"}, {"ql", "8"},
          {"kl", "8"},      {"nope", "4"}, {"rope", "4"},  {"vd", "4"}};
}

const Register stack{CaseSet{
    .op = "attn_res_stack",
    .what = "The embedding passes two layers, in one block and in two",
    .lane = Lane::Full,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B5,T2,D16,V24,L2")},
    .dtypes = kDtypes,
    .fills = {kPassing},
    .options = {reads("1"), reads("2")},
}};

Options k3(const char* block) {
  return {{"full", "1"},   {"block", block}, {"dense", "1"},   {"ffn", "20"}, {"heads", "2"},
          {"kda", "4"},    {"conv", "3"},    {"ql", "8"},      {"kl", "8"},   {"nope", "4"},
          {"rope", "4"},   {"vd", "4"},      {"experts", "4"}, {"topk", "2"}, {"ehid", "6"},
          {"latent", "8"}, {"shared", "6"}};
}

const Register model{CaseSet{
    .op = "decoder",
    .what = "The embedding passes KDA, MLA, a dense layer and experts",
    .lane = Lane::Full,
    .check = Check::Exact,
    .sizes = {Sizes::parse("B5,T2,D16,V24,L2")},
    .dtypes = kDtypes,
    .fills = {kPassing},
    .options = {k3("1"), k3("2")},
}};

}  // namespace
}  // namespace parity
