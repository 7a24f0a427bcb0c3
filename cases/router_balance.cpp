// Cases of router_balance: biases that follow the loads.
#include <cmath>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

// Loads between 0 and 40, some experts much busier than others.
void loads(const RowDraw& d, std::span<double> out) {
  for (std::size_t e = 0; e < out.size(); ++e)
    out[e] = static_cast<double>(
        d.rng.integer(static_cast<std::uint64_t>(d.first) + e, 0, e % 3 == 0 ? 40 : 12));
}

// Sigmoids of experts of different popularity, as f32 has them.
void scores(const RowDraw& d, std::span<double> out) {
  d.rng.fill_uniform01(static_cast<std::uint64_t>(d.first), out);
  for (std::size_t e = 0; e < out.size(); ++e) {
    const double favour = 0.3 * static_cast<double>(e) / static_cast<double>(out.size());
    out[e] = (1 - favour) * out[e] + favour;
  }
}

const Register by_sign{
    CaseSet{.op = "router_balance",
            .what = "Sign rule",
            .lane = Lane::Smoke,
            .sizes = {{{"R", 6, {}}, {"L", 2, {}}, {"E", 8, {}}}},
            .dtypes = {Dtype::F32, Dtype::F64},
            .fills = {{"loads", "busy experts fall, idle ones rise, the change is centred", loads}},
            .options = {{{"rule", "sign"}}}}};

// Tokens times choices divided by experts whole, and not.
const Register by_quantile{
    CaseSet{.op = "router_balance",
            .what = "Quantile rule, exact and by histogram",
            .lane = Lane::Smoke,
            .sizes = {{{"R", 4, {}}, {"T", 64, {}}, {"E", 8, {}}, {"K", 2, {}}},
                      {{"R", 3, {}}, {"T", 43, {}}, {"E", 6, {}}, {"K", 2, {}}}},
            .dtypes = {Dtype::F32, Dtype::F64},
            .fills = {{"scores", "which margin is the quantile, and where bins begin", scores}},
            .zero_share = 0.95,
            .zero_share_why = "most bins of the histogram are empty"}};

// Steps of 1/8 and their mean over eight experts.
const Register exact_steps{CaseSet{
    .op = "router_balance",
    .what = "Sign rule in steps of an eighth",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {{{"R", 6, {}}, {"L", 3, {}}, {"E", 8, {}}}},
    .dtypes = {Dtype::F32, Dtype::F64},
    .fills = {{"exact_loads", "signs, means and what is carried from round to round", loads, true}},
    .options = {{{"rate", "0.125"}, {"rule", "sign"}}}}};

const Register no_double{
    Explanation{.op = "router_balance",
                .dtype = "f64",
                .hole = "no kernel takes this dtype",
                .why = "its fp64 cases judge stored files and commands, kernels compute in f32"}};

}  // namespace
}  // namespace parity
