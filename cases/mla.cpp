// Cases of mla: gated multi-head latent attention as Kimi K3 and DeepSeek-V3 have it.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Weights of maps so large that activations keep their size and logits spread; those of norms
// around one.
void usual(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  if (!d.spec.name.starts_with("params/")) return;
  const bool norm = d.spec.name.find("layernorm") != std::string::npos;
  const double gain = d.spec.name.find("q_") != std::string::npos ? 1.5 : 1;
  const bool bias = d.spec.name.ends_with(".bias");
  const double width = bias ? 4 : std::sqrt(static_cast<double>(out.size()));
  for (double& w : out) w = norm ? 1 + w / 4 : gain * w / width;
}

// Latents far below sqrt(eps): the eps of the norms decides.
void tiny(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "x")
    for (double& x : out) x = std::ldexp(x, -9);
}

// Logits of ten and more: a few keys take everything, and a softmax without its maximum loses
// digits.
void sharp(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "params/q_a_layernorm.weight" || d.spec.name == "params/q_proj.weight")
    for (double& w : out) w *= 4;
}

// Tokens of very different sizes: the gate is not scale-free, the latents are.
void mixed_sizes(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "x")
    for (double& x : out) x = std::ldexp(x, 1 - static_cast<int>(d.row % 4));
}

// Tokens that grow: so do the shared channels of keys, which are not normed, and with them the
// running maximum of a softmax, in the last tile too.
void growing(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "x")
    for (double& x : out) x *= 1 + static_cast<double>(d.row) / 8;
}

const Fill kUsual{"normal", "the usual case", usual};
const Fill kTiny{"tiny", "latents below sqrt(eps): which eps, and where it stands", tiny};
const Fill kSharp{"sharp", "logits of ten and more: scale, maximum, log sum exp", sharp};
const Fill kMixed{"mixed_sizes", "tokens of many sizes: which input the gate reads", mixed_sizes};

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view) {
  const bool one_token = c.sizes["T"] == 1 && c.sizes.get("P", 0) == 0;
  const bool query =
      tensor.find("q_") != std::string_view::npos || tensor.find("tap/q") != std::string_view::npos;
  if (one_token && query && tensor.starts_with("grads/"))
    return "one key has weight one whatever its logit";
  return "";
}

const Register k3{CaseSet{
    .op = "mla",
    .what = "Kimi K3: gated, low-rank queries, no rotation; released and torchtitan eps, absorbed",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T20,D24,H3,Q10,C8,N6,R4,V5"),
              Sizes::parse("T3+1+18,D20,H2,Q12,C10,N4,R2,V6")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual, kTiny, kSharp, kMixed},
    .options = {{{"gate", "1"}}, {{"absorb", "1"}, {"gate", "1"}}},
    .exempt = exempt,
}};

const Register torchtitan{CaseSet{
    .op = "mla",
    .what = "The other eps; intermediates and their gradients",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T9,D24,H2,Q10,C8,N6,R4,V4")},
    .dtypes = {Dtype::F32},
    .fills = {kUsual, kTiny},
    .options = {{{"eps", "1e-05"}, {"gate", "1"}, {"taps", "1"}}, {{"absorb", "1"}, {"taps", "1"}}},
    .exempt = exempt,
}};

const Register rotated{CaseSet{
    .op = "mla",
    .what = "DeepSeek-V3: rotated shared channels in both layouts, packed positions, YaRN; Kimi "
            "Linear: no low-rank queries",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T12,D20,H3,Q9,C8,N4,R6,V5"),
              Sizes::parse("T5+9,D18,H2,C7,N4,R4,V5")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {{},
                {{"rope", "interleaved"}, {"theta", "100"}},
                {{"bias", "1"}, {"rope", "half"}, {"theta", "100"}},
                {{"rope", "angles"}},
                {{"mscale", "0.707"},
                 {"mscale_all", "1.5"},
                 {"original", "4"},
                 {"rope", "interleaved"},
                 {"theta", "100"},
                 {"yarn", "40"}}},
    .exempt = exempt,
}};

const Register masked{CaseSet{
    .op = "mla",
    .what = "Left padding with rows that see no key, no mask at all, a cache before the tokens",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("B2,T9,D20,H2,Q8,C6,N4,R4,V5"),
              Sizes::parse("B2,T3,D20,H2,Q8,C6,N4,R4,V5,P7"),
              Sizes::parse("B1,T1,D20,H2,Q8,C6,N4,R4,V5,P17")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {{{"gate", "1"}, {"mask", "given"}},
                {{"gate", "1"}, {"mask", "full"}},
                {{"absorb", "1"}, {"gate", "1"}, {"rope", "interleaved"}, {"theta", "100"}}},
    .exempt = exempt,
}};

const Register tiles{CaseSet{
    .op = "mla",
    .what = "More keys than a tile of 64, a document's end within one",
    .lane = Lane::Smoke,
    .sizes = {Sizes::parse("T7+75,D20,H2,Q8,C8,N6,R4,V5")},
    .dtypes = {Dtype::F32},
    .fills = {kSharp, {"growing", "the running maximum grows from tile to tile", growing}},
    .options = {{{"gate", "1"}}},
    .exempt = exempt,
}};

const Register bits{CaseSet{
    .op = "mla",
    .what = "Repeats and numbers of threads",
    .lane = Lane::Smoke,
    .check = Check::Bitwise,
    .sizes = {Sizes::parse("B2,T90,D40,H3,Q12,C8,N6,R4,V5")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {{{"gate", "1"}}, {{"absorb", "1"}}},
    .kernels = "*.online",
}};

const Register one_token{CaseSet{
    .op = "mla",
    .what = "One token: y is a chain of linear maps, and queries get no gradient",
    .sizes = {Sizes::parse("B2,T1,D20,H2,Q8,C6,N4,R4,V5")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {{{"gate", "1"}}},
    .exempt = exempt,
    .zero_share = 0.5,
    .zero_share_why = "queries have no effect on one token",
}};

const Register leak{CaseSet{
    .op = "mla",
    .what = "Additive masks: a fully masked row is uniform, and its gradient leaks to q and k",
    .sizes = {Sizes::parse("B2,T9,D20,H2,Q8,C6,N4,R4,V5")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {{{"gate", "1"}, {"mask", "given"}, {"masked", "leak"}}},
    .exempt = exempt,
}};

const Register wide{CaseSet{
    .op = "mla",
    .what = "fp64, for candidates that compute in it",
    .sizes = {Sizes::parse("B2,T20,D24,H3,Q10,C8,N6,R4,V5"),
              Sizes::parse("T3+1+18,D20,H2,C10,N4,R2,V6")},
    .dtypes = {Dtype::F64},
    .fills = {kUsual},
    .options = {{{"gate", "1"}}, {{"rope", "interleaved"}}},
    .exempt = exempt,
}};

}  // namespace
}  // namespace parity
