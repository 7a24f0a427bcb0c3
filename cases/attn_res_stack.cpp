// Bits of attn_res_stack; its other cases stand beside those of decoder.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Maps of gain one, norms around one, the embedding as it is drawn.
void normal(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  if (name == "tokens") {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>(
          d.rng.integer(static_cast<std::uint64_t>(d.first) + i, 0, d.problem.sizes["V"] - 1));
    return;
  }
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  const bool norm = name.find("norm") != std::string::npos;
  const bool map = name.starts_with("params/") && name.find("embed") == std::string::npos;
  for (double& x : out)
    x = norm ? 1 + x / 4 : map ? x / std::sqrt(static_cast<double>(out.size())) : x;
}

const Register bits{CaseSet{
    .op = "attn_res_stack",
    .what = "Repeats and numbers of threads",
    .lane = Lane::Smoke,
    .check = Check::Bitwise,
    .sizes = {Sizes::parse("B2,T70,D24,V40,L3")},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {{"normal", "sums whose order shows", normal}},
    .options = {{{"block", "2"},
                 {"ffn", "20"},
                 {"heads", "3"},
                 {"ql", "6"},
                 {"kl", "5"},
                 {"nope", "4"},
                 {"rope", "2"},
                 {"vd", "4"}}},
    .kernels = "*.online",
}};

}  // namespace
}  // namespace parity
