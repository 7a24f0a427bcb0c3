// The full lane of kda: the smoke sets' questions at more sizes, seeds and combinations.
#include "cases/kda_fills.hpp"
#include "harness/kernel.hpp"

namespace parity {
namespace {

using namespace kda_cases;

Sizes sizes(std::string_view text) { return Sizes::parse(text); }
Options options(std::string_view text) { return Options::parse(text); }

const Register more_regimes{CaseSet{
    .op = "kda",
    .what = "the regimes in batches, with a second chunk of two rows, the norm in the kernel",
    .sizes = {sizes("B2,T66,H2,K24,V40")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary(), weak(), mixed(), saturated(), steep(), decades()},
    .options = {options("dht=1,h0=1"), options("dht=1,h0=1,l2norm=1,scale=1")},
    .seeds = {1},
}};

const Register wider{CaseSet{
    .op = "kda",
    .what = "correlated keys and decays of every size at K = V = 64",
    .sizes = {sizes("B1,T97,H1,HV2,K64,V64")},
    .dtypes = {Dtype::F32},
    .fills = {weak(), mixed()},
    .options = {options("dht=1,h0=1")},
    .seeds = {1},
}};

const Register more_tails{CaseSet{
    .op = "kda",
    .what = "every kind of last sub-chunk and last chunk",
    .sizes = {sizes("B1,T2,H2,K16,V8"), sizes("B1,T16,H2,K16,V8"), sizes("B1,T18,H2,K16,V8"),
              sizes("B1,T32,H2,K16,V8"), sizes("B1,T65,H2,K16,V8"), sizes("B1,T80,H2,K16,V8"),
              sizes("B1,T127,H2,K16,V8"), sizes("B1,T128,H2,K16,V8"), sizes("B1,T193,H2,K16,V8")},
    .dtypes = {Dtype::F32},
    .fills = {mixed(), steep()},
    .options = {options("dht=1,h0=1"), {}},
}};

const Register head_sizes{CaseSet{
    .op = "kda",
    .what = "head sizes: below a tile, no multiple of a vector, just beyond 128, K and V apart",
    .sizes = {sizes("B1,T40,H2,K1,V1"), sizes("B1,T40,H2,K3,V130"), sizes("B1,T40,H1,K60,V100"),
              sizes("B1,T40,H1,K100,V60"), sizes("B1,T40,H1,K130,V3"),
              sizes("B1,T33,H1,K256,V256")},
    .dtypes = {Dtype::F32},
    .fills = {mixed()},
    .options = {options("dht=1,h0=1"), options("bias=1,dht=1,gate=lower,h0=1,l2norm=1,vfirst=1")},
    .exempt =
        [](const Case& c, std::string_view tensor, std::string_view trivial) {
          if (tensor == "grads/A_log" && trivial == "mean" && c.sizes.get("H", 1) == 1)
            return std::string_view("one head: A_log has one element, which is its mean");
          if (c.sizes["K"] == 1 && c.options.flag("l2norm"))
            return std::string_view(
                "one channel: normalised, it is a sign, and its gradient is eps");
          return std::string_view();
        },
}};

// No correlated keys here: with beta near 2, W S and U of a kernel that forms the inverse cancel
// , and it errs by a condition that the base, which substitutes, does not show.
const Register more_forms{CaseSet{
    .op = "kda",
    .what = "gates, beta and norm in the kernel, each with each",
    .sizes = {sizes("B1,T50,H2,HV6,K16,V12")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary(), mixed()},
    .options = {options("dht=1,gate=softplus,h0=1"),
                options("beta=neg,bias=1,dht=1,gate=softplus,h0=1,l2norm=1"),
                options("beta=sigmoid,dht=1,gate=lower,h0=1,lb=-1"),
                options("bias=1,dht=1,gate=lower,h0=1,l2norm=1"),
                options("beta=neg,bias=1,dht=1,gate=lower_noA,h0=1,l2norm=1"),
                options("beta=neg,dht=1,h0=1,l2norm=1"), options("beta=sigmoid,dht=1,h0=1"),
                options("headwise=1,l2norm=1"), options("bias=1,gate=lower,headwise=1")},
    .seeds = {2},
}};

const Register more_packed{CaseSet{
    .op = "kda",
    .what = "packed batches: many short ones, one long one, all but one empty",
    .sizes = {sizes("B1,T1+1+2+1+3+1+5,H1,HV2,K16,V8"), sizes("B1,T0+0+90+0,H1,HV2,K16,V8"),
              sizes("B1,T64+64+1+63,H1,HV2,K16,V8"), sizes("B1,T15+16+17+31+33,H1,HV2,K16,V8")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {ordinary(), mixed()},
    .options = {options("dht=1,h0=1"), {}, options("bias=1,dht=1,gate=softplus,h0=1,l2norm=1")},
    .seeds = {3},
    .zero_share = 0.75,
    .zero_share_why = "states of empty sequences without an initial one are zero",
}};

const Register long_history{CaseSet{
    .op = "kda",
    .what = "a thousand tokens that are hardly forgotten",
    .sizes = {sizes("B1,T1021,H1,K32,V16"), sizes("B1,T3+0+1021,H1,K12,V8")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {weak(), open_gate()},
    .options = {options("dht=1,h0=1")},
    .seeds = {4},
}};

const Register more_exact{CaseSet{
    .op = "kda",
    .what = "bits, at other sizes and seeds",
    .sizes = {sizes("B1,T257,H2,HV4,K32,V24"), sizes("B1,T33+0+1+95,H1,HV3,K20,V20"),
              sizes("B3,T48,H2,K7,V5")},
    .dtypes = {Dtype::F32},
    .fills = {integers(), forgetful()},
    .options = {options("scale=1"), options("dht=1,h0=1,scale=0.25"),
                options("dht=1,h0=1,scale=2,vfirst=1")},
    .seeds = {5},
}};

const Register more_halvings{CaseSet{
    .op = "kda",
    .what = "bits with halvings, at every chunk and instruction set",
    .sizes = {sizes("B1,T100,H1,HV2,K20,V12"), sizes("B1,T2+0+63+17,H2,K12,V20")},
    .dtypes = {Dtype::F32},
    .fills = {halved()},
    .options = {options("dht=1,h0=1,halvings=1,scale=0.5,vfirst=1")},
    .seeds = {5},
    .kernels = "kda.chunked_*",
}};

const Register more_permuted{CaseSet{
    .op = "kda",
    .what = "the memory of rows, at every chunk and instruction set",
    .sizes = {sizes("B1,T133,H1,HV2,K40,V20"), sizes("B1,T64+0+17,H2,K33,V7")},
    .dtypes = {Dtype::F32},
    .fills = {permuted()},
    .options = {options("dht=1,h0=1,scale=1"), options("dht=1,h0=1,scale=0.5,vfirst=1")},
    .seeds = {5},
    .zero_share = 0.9,
    .zero_share_why = "a row that is overwritten or never read passes no gradient on",
}};

const Register more_bits{CaseSet{
    .op = "kda",
    .what = "claims on bits in every form",
    .check = Check::Bitwise,
    .sizes = {sizes("B3,T67,H1,HV2,K12,V20"), sizes("B1,T1+0+130+17,H2,K16,V16")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {weak(), mixed()},
    .options = {options("dht=1,h0=1,vfirst=1"),
                options("bias=1,dht=1,gate=softplus,h0=1,l2norm=1"),
                options("dht=1,headwise=1"),
                {}},
    .seeds = {7},
}};

const Register exact_bits{CaseSet{
    .op = "kda",
    .what = "the same bits at every chunk size, on exact data",
    .check = Check::Bitwise,
    .sizes = {sizes("B1,T130,H1,HV2,K16,V12")},
    .dtypes = {Dtype::F32},
    .fills = {integers(), forgetful()},
    .options = {options("dht=1,h0=1,scale=0.5")},
}};

}  // namespace
}  // namespace parity
