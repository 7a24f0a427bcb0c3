// Cases of kda_layer.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Matrices of gain one, filters and norms around their usual sizes, gates in the middle of their
// range.
void usual(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  const std::string& name = d.spec.name;
  const auto scaled = [&](double factor, double shift) {
    for (double& x : out) x = shift + factor * x;
  };
  if (name == "params/o_norm.weight")
    scaled(0.25, 1);
  else if (name == "params/A_log")
    scaled(0.5, 0);
  else if (name == "params/dt_bias")
    scaled(0.5, -1);
  else if (name.find("conv1d.weight") != std::string::npos)
    scaled(0.6, 0);
  else if (name.ends_with(".bias"))
    scaled(0.3, 0);
  else if (name.starts_with("params/"))
    scaled(1.2 / std::sqrt(static_cast<double>(out.size())), 0);
}

// Hidden states from 1 down to 2^-12: the eps of both norms shows.
void quiet_tokens(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "x")
    for (double& x : out) x = std::ldexp(x, -3 * static_cast<int>(d.row % 5));
}

// Gates wide open and nearly shut: the state forgets at once or hardly at all.
void wide_gates(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  if (d.spec.name == "params/dt_bias")
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += i % 3 == 0 ? -5 : i % 3 == 1 ? 2 : 0;
  if (d.spec.name == "params/A_log")
    for (double& x : out) x += 0.7;
}

const Fill kUsual{"normal", "the usual case", usual};
const Fill kQuiet{"quiet_tokens", "eps of the norms, on the sum or on the mean", quiet_tokens};
const Fill kGates{"wide_gates", "gates of all sizes: A_log and dt_bias matter", wide_gates};

Sizes sizes(Size T, std::int64_t B, std::int64_t H, std::int64_t HV, std::int64_t K,
            std::int64_t V) {
  return {{"B", B, {}},   std::move(T), {"D", 16, {}}, {"H", H, {}},
          {"HV", HV, {}}, {"K", K, {}}, {"V", V, {}}};
}

const std::vector<Dtype> kDtypes = {Dtype::F32, Dtype::BF16};

const Register k3{CaseSet{
    .op = "kda_layer",
    .what = "As in Kimi K3: lower-bound gate, low-rank forget gate, full output gate",
    .lane = Lane::Smoke,
    .sizes = {sizes({"T", 9, {}}, 2, 2, 2, 8, 8)},
    .dtypes = kDtypes,
    .fills = {kUsual, kQuiet, kGates},
}};

const Register packed{CaseSet{
    .op = "kda_layer",
    .what =
        "Packed documents, one shorter than the filter, one empty; grouped heads, V = 2 K, biases",
    .lane = Lane::Smoke,
    .sizes = {sizes({"T", 24, {12, 0, 2, 9, 1}}, 1, 2, 4, 8, 16)},
    .dtypes = kDtypes,
    .fills = {kUsual},
    .options =
        {{{"gate", "softplus"}, {"beta", "2"}, {"output", "low"}, {"gbias", "1"}, {"cbias", "1"}}},
}};

const Register other{CaseSet{
    .op = "kda_layer",
    .what = "Left padding, full-rank gates, decode steps",
    .lane = Lane::Smoke,
    .sizes = {sizes({"T", 7, {}}, 2, 2, 2, 8, 8)},
    .dtypes = kDtypes,
    .fills = {kUsual},
    .options = {{{"mask", "1"}, {"gate", "softplus"}},
                {{"forget", "full"}, {"lb", "-3"}, {"eps", "1e-06"}}},
}};

const Register decode{CaseSet{
    .op = "kda_layer",
    .what = "A prefill, then token by token with carried states",
    .lane = Lane::Smoke,
    .sizes = {sizes({"T", 8, {}}, 1, 2, 2, 8, 8)},
    .dtypes = kDtypes,
    .fills = {kUsual},
    .options = {{{"prefill", "3"}}},
}};

const Register longer{CaseSet{
    .op = "kda_layer",
    .what = "More tokens than a chunk",
    .lane = Lane::Full,
    .sizes = {sizes({"T", 65, {}}, 1, 2, 4, 16, 16)},
    .dtypes = kDtypes,
    .fills = {kUsual, kGates},
}};

const Register bits{CaseSet{
    .op = "kda_layer",
    .what = "Repeats and numbers of threads",
    .lane = Lane::Smoke,
    .check = Check::Bitwise,
    .sizes = {sizes({"T", 70, {40, 30}}, 1, 2, 4, 8, 16)},
    .dtypes = kDtypes,
    .fills = {kUsual},
    .options = {{}, {{"gate", "softplus"}, {"output", "low"}, {"cbias", "1"}, {"gbias", "1"}}},
    .kernels = "*.chunked",
}};

const Register wide{CaseSet{
    .op = "kda_layer",
    .what = "fp64, for implementations that take it",
    .lane = Lane::Full,
    .sizes = {sizes({"T", 9, {}}, 2, 2, 2, 8, 8)},
    .dtypes = {Dtype::F64},
    .fills = {kUsual},
    .options = {{}, {{"gate", "softplus"}, {"mask", "1"}}},
}};

}  // namespace
}  // namespace parity
