// Cases of decoder and attn_res_stack.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Unit scale everywhere (k3.md §6.6): at the usual 0.02 half of the model is numerically invisible.
void unit_scale(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  if (name == "tokens" || name == "labels") {
    const std::int64_t V = d.problem.sizes["V"];
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          static_cast<double>(d.rng.integer(static_cast<std::uint64_t>(d.first) + i, 0, V - 1));
    if (name == "labels" && d.row == 0) out[out.size() / 2] = -100;
    return;
  }
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  if (!name.starts_with("params/")) return;
  const double width = std::sqrt(static_cast<double>(out.size()));
  const bool norm = name.find("norm") != std::string::npos && name.ends_with(".weight");
  for (double& x : out) {
    if (norm)
      x = 1 + x / 4;
    else if (name.ends_with("A_log") || name.ends_with("dt_bias"))
      x *= 0.7;
    else if (name.find("_conv1d.") != std::string::npos)
      x *= 0.6;
    else if (name.ends_with("e_score_correction_bias"))
      x *= 0.1;
    else if (name.find("embed_tokens") == std::string::npos)
      x *= 1.3 / width;
  }
}

const Fill kUnit{"unit_scale", "every path is numerically visible", unit_scale};

const Fill kDebug{"debug", "the debug model's thirteen layers at unit scale", unit_scale};

// The debug model (k3.md §1.2), but for its vocabulary: with all of 163840 tokens the embedding and
// the head are 84 % of its parameters, and their gradients in fp64 with the spread of the base's
// variants do not fit in the memory of a case. The released vocabulary has a case of its own.
Options debug(std::initializer_list<std::pair<const std::string, std::string>> more) {
  Options o{{"full", "3+7+11"}, {"block", "12"}, {"dense", "1"},  {"ffn", "1024"},
            {"heads", "4"},     {"kda", "32"},   {"conv", "4"},   {"ql", "128"},
            {"kl", "64"},       {"nope", "32"},  {"rope", "16"},  {"vd", "32"},
            {"experts", "8"},   {"topk", "2"},   {"ehid", "128"}, {"latent", "128"},
            {"shared", "256"}};
  for (const auto& [name, value] : more) o.set(name, value);
  return o;
}

Sizes sizes(std::int64_t B, std::int64_t T, std::int64_t L) {
  return {{"B", B, {}}, {"T", T, {}}, {"D", 16, {}}, {"V", 24, {}}, {"L", L, {}}};
}

Options k3(std::initializer_list<std::pair<const std::string, std::string>> more) {
  Options o{{"full", "1"},   {"block", "1"}, {"dense", "1"},   {"ffn", "20"}, {"heads", "2"},
            {"kda", "4"},    {"conv", "3"},  {"ql", "8"},      {"kl", "6"},   {"nope", "4"},
            {"rope", "4"},   {"vd", "4"},    {"experts", "4"}, {"topk", "2"}, {"ehid", "6"},
            {"latent", "8"}, {"shared", "6"}};
  for (const auto& [name, value] : more) o.set(name, value);
  return o;
}

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  if (tensor == "loss" && trivial == "mean") return "one element is its own mean";
  if (tensor.ends_with("layers.0.self_attention_res_norm.weight") ||
      tensor.ends_with("layers.0.self_attention_res_proj.weight"))
    return "the first read has an empty bank, and reads nothing";
  if (trivial == "copy" && c.options.flag("replay") && tensor.ends_with(".expert_ids"))
    return "the choice is given";
  if (trivial == "copy" && c.options.flag("isolated") &&
      (tensor.ends_with(".bank") || tensor.ends_with(".prefix") || tensor.ends_with(".hidden")))
    return "what a layer leaves is given as what the next one finds";
  if (tensor.ends_with("e_score_correction_bias"))
    return "the correction bias moves the choice only: no gradient";
  if (c.op == "decoder" && tensor.find(".experts.") != std::string_view::npos)
    return "an expert may have no token";
  return "";
}

const Register parity_model{CaseSet{
    .op = "decoder",
    .what = "The two-layer parity model at unit scale: KDA and dense, then MLA and experts",
    .lane = Lane::Smoke,
    .sizes = {sizes(2, 8, 2)},
    .dtypes = {Dtype::F32, Dtype::F64},
    .fills = {kUnit},
    .options = {k3({{"loss", "1"}}), k3({})},
    .exempt = exempt,
}};

// In bf16 choices of experts flip from the first mixture on (of 64 a layer 2, then up to 11; with
// every layer on the truth's input none: measured), and what follows is another model. Replayed,
// the error of the stream grows from 0.8 to 5 % over the thirteen layers, and many of their
// gradients are within the noise of the base: such a case would prove nothing.
const Register debug_model{CaseSet{
    .op = "decoder",
    .what = "The debug model: thirteen layers, two blocks, every kind of layer",
    .lane = Lane::Full,
    .sizes = {{{"B", 2, {}}, {"T", 16, {}}, {"D", 256, {}}, {"V", 512, {}}, {"L", 13, {}}}},
    .dtypes = {Dtype::F32},
    .fills = {kDebug},
    .options = {debug({{"loss", "1"}})},
    .exempt = exempt,
}};

const Register narrow{CaseSet{
    .op = "decoder",
    .what = "KDA and dense, then MLA and experts in bf16, the choice of experts replayed",
    .lane = Lane::Smoke,
    .sizes = {{{"B", 4, {}}, {"T", 16, {}}, {"D", 64, {}}, {"V", 64, {}}, {"L", 2, {}}}},
    .dtypes = {Dtype::BF16},
    .fills = {kUnit},
    .options = {{{"full", "1"},
                 {"block", "1"},
                 {"dense", "1"},
                 {"ffn", "128"},
                 {"heads", "2"},
                 {"kda", "32"},
                 {"conv", "4"},
                 {"ql", "32"},
                 {"kl", "32"},
                 {"nope", "16"},
                 {"rope", "8"},
                 {"vd", "16"},
                 {"experts", "4"},
                 {"topk", "2"},
                 {"ehid", "32"},
                 {"latent", "32"},
                 {"shared", "64"},
                 {"loss", "1"},
                 {"replay", "1"}}},
    .exempt = exempt,
}};

// Every result on the way, of the whole model and of every layer by itself: where an error comes
// in, and whose it is.
constexpr std::string_view kLayers =
    "every layer's results, as a whole run has them and by themselves";

const Register layers{CaseSet{
    .op = "decoder",
    .what = "Three layers with their taps, whole and each by itself",
    .lane = Lane::Smoke,
    .sizes = {sizes(2, 6, 3)},
    .dtypes = {Dtype::F32},
    .fills = {{"layers", kLayers, unit_scale}},
    .options = {k3({{"block", "2"}, {"taps", "1"}}),
                k3({{"block", "2"}, {"taps", "1"}, {"isolated", "1"}})},
    .exempt = exempt,
}};

const Register debug_layers{CaseSet{
    .op = "decoder",
    .what = "The debug model's thirteen layers, narrow, whole and each by itself",
    .lane = Lane::Full,
    .sizes = {sizes(2, 8, 13)},
    .dtypes = {Dtype::F32},
    .fills = {{"debug_layers", kLayers, unit_scale}},
    .options = {k3({{"full", "3+7+11"}, {"block", "12"}, {"taps", "1"}}),
                k3({{"full", "3+7+11"}, {"block", "12"}, {"taps", "1"}, {"isolated", "1"}})},
    .exempt = exempt,
}};

const Register vocabulary{CaseSet{
    .op = "decoder",
    .what = "All of the released vocabulary's 163840 tokens: embedding, head and loss",
    .lane = Lane::Long,
    .sizes = {{{"B", 1, {}}, {"T", 16, {}}, {"D", 64, {}}, {"V", 163840, {}}, {"L", 2, {}}}},
    .dtypes = {Dtype::F32},
    .fills = {{"vocabulary", "sums over as many classes as the released model has", unit_scale}},
    .options = {k3({{"loss", "1"}})},
    .exempt = exempt,
    .zero_share = 0.6,
    .zero_share_why = "rows of the embedding whose token does not occur have no gradient",
}};

Options reads(const std::string& block) {
  return {{"block", block}, {"ffn", "12"}, {"heads", "2"}, {"ql", "6"},
          {"kl", "5"},      {"nope", "4"}, {"rope", "2"},  {"vd", "4"}};
}

const Register stack{CaseSet{
    .op = "attn_res_stack",
    .what =
        "Blocks of one, two and three layers: which bank a read finds, and what its gradient is",
    .lane = Lane::Smoke,
    .sizes = {sizes(2, 6, 5)},
    .dtypes = {Dtype::F32, Dtype::F64},
    .fills = {kUnit},
    .options = {reads("1"), reads("2"), reads("3")},
    .exempt = exempt,
}};

// In bf16 the noise of five narrow layers is as large as the gradients of the first one's queries.
const Register shallow{CaseSet{
    .op = "attn_res_stack",
    .what = "Two layers in bf16, in one block and in two",
    .lane = Lane::Smoke,
    .sizes = {{{"B", 4, {}}, {"T", 6, {}}, {"D", 32, {}}, {"V", 24, {}}, {"L", 2, {}}}},
    .dtypes = {Dtype::BF16},
    .fills = {kUnit},
    .options = {reads("1"), reads("2")},
    .exempt = exempt,
}};

}  // namespace
}  // namespace parity
