// Cases of kda. Each set names what it tells apart; sizes are the smallest that do. K, V and T
// differ from each other and from powers of two wherever nothing speaks against it, so that a
// stride of the wrong axis shows.
#include <utility>

#include "cases/kda_fills.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

using namespace kda_cases;

const Options kPlain = {};
const Options kStates = {{"h0", "1"}, {"dht", "1"}};
Options states(std::initializer_list<std::pair<const std::string, std::string>> more) {
  Options options = kStates;
  for (const auto& [key, value] : more) options.set(key, value);
  return options;
}

Sizes sizes(std::string_view text) { return Sizes::parse(text); }

const Register regimes{CaseSet{
    .op = "kda",
    .what = "every regime of keys, gates and beta, with states and their gradients",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T81,H2,K20,V12")},  // two chunks of 64, a last block of one row, K and V no
                                            // multiple of 8
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary(), open_gate(), weak(), repeated(), mixed(), saturated(), masked(), steep(),
              reflect(), edges(), decades()},
    .options = {kStates},
}};

const Register quiet{CaseSet{
    .op = "kda",
    .what = "quiet tokens behind loud ones in one chunk, and no final state that drowns them",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T61,H2,K20,V12")},
    .dtypes = {Dtype::F32},
    .fills = {decades()},
    .options = {{{"h0", "1"}}},
}};

const Register tails{CaseSet{
    .op = "kda",
    .what = "lengths around sub-chunks of 16 and chunks of 32 and 64",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T1,H2,K8,V24"), sizes("B1,T15,H2,K8,V24"), sizes("B1,T16,H2,K8,V24"),
              sizes("B1,T17,H2,K8,V24"), sizes("B1,T31,H2,K8,V24"), sizes("B1,T33,H2,K8,V24"),
              sizes("B1,T63,H2,K8,V24"), sizes("B1,T64,H2,K8,V24"), sizes("B1,T65,H2,K8,V24")},
    .dtypes = {Dtype::F32},
    .fills = {mixed()},
    .options = {kStates},
}};

const Register forms{CaseSet{
    .op = "kda",
    .what = "gates, beta and norm in the kernel, grouped value heads, layouts, scales",
    .lane = Lane::Smoke,
    .sizes = {sizes("B2,T37,H2,HV4,K12,V20")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary(), mixed()},
    .options = {states({{"gate", "softplus"}, {"bias", "1"}, {"l2norm", "1"}, {"beta", "sigmoid"}}),
                states({{"gate", "lower"}, {"bias", "1"}, {"l2norm", "1"}, {"beta", "neg"}}),
                states({{"gate", "lower_noA"}, {"bias", "1"}, {"lb", "-3"}}),
                states({{"headwise", "1"}, {"scale", "0.7"}}),
                states({{"l2norm", "1"}, {"vfirst", "1"}})},
}};

const Register gate_ends{CaseSet{
    .op = "kda",
    .what = "raw gates at both ends of their activation",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T70,H1,HV2,K16,V16")},
    .dtypes = {Dtype::F32},
    .fills = {weak(), saturated(), masked()},
    .options = {states({{"gate", "lower"}, {"bias", "1"}, {"l2norm", "1"}, {"beta", "sigmoid"}})},
}};

const Register tiny_keys{CaseSet{
    .op = "kda",
    .what = "the norm's eps: keys of norm 0 and 1e-3 that the kernel normalises",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T37,H2,K12,V20")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {edges()},
    .options = {states({{"l2norm", "1"}})},
}};

const Register packed{CaseSet{
    .op = "kda",
    .what = "packed sequences, empty and of length one among them, at offsets that no chunk is "
            "aligned to; K = V",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T3+0+1+70+33+0+9,H2,HV4,K16,V16")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary(), mixed()},
    .options = {kPlain, kStates,
                states({{"gate", "lower"}, {"bias", "1"}, {"l2norm", "1"}, {"unused", "1"}})},
    .zero_share = 0.45,
    .zero_share_why =
        "states of empty sequences without an initial one, and their gradients, are zero",
}};

const Register partial{CaseSet{
    .op = "kda",
    .what = "states on one side only, batches, more heads than lanes",
    .lane = Lane::Smoke,
    .sizes = {sizes("B3,T20,H3,K5,V33"), sizes("B1,T129,H1,K33,V7"), sizes("B1,T132,H4,K8,V33")},
    .dtypes = {Dtype::F32},
    .fills = {ordinary()},
    .options = {kPlain, {{"h0", "1"}}, {{"dht", "1"}}},
}};

const Register large{CaseSet{
    .op = "kda",
    .what = "more elements of v than 2^15, so that offsets in a narrow integer wrap",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T264,H1,K8,V128")},
    .dtypes = {Dtype::F32},
    .fills = {ordinary()},
}};

std::string_view one_element(const Case& c, std::string_view tensor, std::string_view trivial) {
  return tensor == "grads/A_log" && trivial == "mean" && c.sizes.get("HV", c.sizes.get("H", 1)) == 1
             ? "one head: A_log has one element, which is its mean"
             : "";
}

const Register wide{CaseSet{
    .op = "kda",
    .what = "the head size in use, at which narrow storage is judged",
    .lane = Lane::Smoke,
    .sizes = {sizes("B1,T100,H1,K128,V128")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary()},
    .options = {states({{"gate", "lower"}, {"bias", "1"}, {"l2norm", "1"}, {"beta", "sigmoid"}})},
    .exempt = one_element,
}};

const Register exact{CaseSet{
    .op = "kda",
    .what = "bits: integers, decays of 1 and 0, scale a power of two",
    .lane = Lane::Smoke,
    .sizes = {sizes("B2,T65,H1,HV2,K16,V8"), sizes("B1,T1+0+16+64+31,H2,K9,V9"),
              sizes("B1,T130,H2,K64,V32")},
    .dtypes = {Dtype::F32},
    .fills = {integers(), forgetful()},
    .options = {{{"scale", "1"}},
                {{"scale", "0.5"}, {"h0", "1"}, {"dht", "1"}},
                {{"scale", "0.5"}, {"h0", "1"}, {"dht", "1"}, {"vfirst", "1"}}},
}};

// The kernels of this repository whose exp(-n ln 2) is 2^-n; an ulp beside it would be as legal
// (tolerance.md §8).
CaseSet halvings(std::string_view kernels, std::string_view what, std::vector<Sizes> list) {
  return {.op = "kda",
          .what = what,
          .lane = Lane::Smoke,
          .sizes = std::move(list),
          .dtypes = {Dtype::F32},
          .fills = {halved()},
          .options = {{{"scale", "1"}, {"halvings", "1"}},
                      states({{"scale", "0.5"}, {"halvings", "1"}})},
          .kernels = kernels};
}

const Register halvings_chunked{
    halvings("kda.chunked_*", "bits: the same with halvings, in chunks",
             {sizes("B2,T66,H1,HV2,K16,V8"), sizes("B1,T1+0+16+64+31,H2,K9,V12"),
              sizes("B1,T130,H2,K64,V32")})};
const Register halvings_recurrent{
    halvings("kda.recurrent_*", "bits: the same with halvings, token by token",
             {sizes("B2,T34,H1,HV2,K12,V8"), sizes("B1,T2+0+17,H2,K9,V12")})};

const Register permuted_memory{CaseSet{
    .op = "kda",
    .what = "bits: a memory of rows that are overwritten and read; heads, layouts, packed batches",
    .lane = Lane::Smoke,
    .sizes = {sizes("B2,T70,H2,HV4,K24,V10"), sizes("B1,T5+0+33+1+64,H1,HV3,K20,V28")},
    .dtypes = {Dtype::F32},
    .fills = {permuted()},
    .options = {states({{"scale", "1"}}), states({{"scale", "2"}, {"vfirst", "1"}})},
    .zero_share = 0.9,
    .zero_share_why = "a row that is overwritten or never read passes no gradient on",
}};

const Register exact_narrow{CaseSet{
    .op = "kda",
    .what = "bits: the same where intermediates are stored in bf16",
    .lane = Lane::Smoke,
    .sizes = {sizes("B2,T20,H1,HV2,K6,V4"), sizes("B1,T1+0+17+8,H2,K4,V4"),
              sizes("B1,T66,H1,K5,V3")},
    .dtypes = {Dtype::BF16, Dtype::F32},
    .fills = {signs()},
    .options = {{{"scale", "1"}}, {{"scale", "0.5"}, {"h0", "1"}, {"dht", "1"}}},
}};

const Register bitwise{CaseSet{
    .op = "kda",
    .what = "what contracts claim of bits: repeats, threads, batch, split, chunk, causality",
    .lane = Lane::Smoke,
    .check = Check::Bitwise,
    .sizes = {sizes("B2,T70,H2,HV4,K20,V12"), sizes("B1,T5+0+66+22,H1,HV2,K16,V16")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {mixed(), saturated()},
    .options = {kStates, {{"gate", "lower"}, {"bias", "1"}, {"l2norm", "1"}, {"beta", "sigmoid"}}},
}};

const Register forward_only{Explanation{
    .op = "kda",
    .direction = "backward",
    .kernel = "kda.recurrent_*",
    .hole = "the kernel has no backward",
    .why = "the recurrent form decodes token by token; training takes the chunked one"}};

const Register forward_only_on_gpus{
    Explanation{.op = "kda",
                .direction = "backward",
                .kernel = "kda.cuda_chunk*",
                .hole = "the kernel has no backward",
                .why = "a forward for inference; gradients are taken on the CPU or with LibTorch"}};

const Register forward_only_emulated{
    Explanation{.op = "kda",
                .direction = "backward",
                .kernel = "kda.emulated_*",
                .hole = "the kernel has no backward",
                .why = "a forward for inference; gradients are taken on the CPU or with LibTorch"}};

}  // namespace
}  // namespace parity
