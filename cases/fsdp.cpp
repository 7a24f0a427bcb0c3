// Cases of fsdp: a decoder of two layers (KDA and dense, then MLA and experts) trained on 1 to 8
// ranks. One rank is plain eager training; more are one process that adds in the stated order.
#include <cmath>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"

namespace parity {
namespace {

void unit_scale(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  if (name == "tokens" || name == "labels") {
    const std::int64_t V = d.problem.sizes["V"];
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          static_cast<double>(d.rng.integer(static_cast<std::uint64_t>(d.first) + i, 0, V - 1));
    if (name == "tokens") out[out.size() / 2] = static_cast<double>(V - 1);  // an image's place
    if (name == "labels" && d.row % 2 == 0) out[out.size() / 2] = -100;
    return;
  }
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  if (name == "image") return;
  const double width = std::sqrt(static_cast<double>(out.size()));
  const bool norm = name.find("norm") != std::string::npos && name.ends_with(".weight");
  for (double& x : out) {
    if (norm)
      x = 1 + x / 4;
    else if (name.ends_with("A_log") || name.ends_with("dt_bias"))
      x *= 0.7;
    else if (name.find("_conv1d.") != std::string::npos)
      x *= 0.6;
    else if (name.find("embed_tokens") == std::string::npos)
      x *= 1.3 / width;
  }
}

const Fill kUnit{"unit_scale", "every gradient's bits depend on order, rounding and division",
                 unit_scale};

Sizes ranks(std::int64_t R) {
  return {{"R", R, {}}, {"B", 1, {}}, {"T", 6, {}}, {"D", 10, {}}, {"V", 13, {}}, {"L", 2, {}}};
}

// Odd sizes on purpose: rows of 13, 10, 7, 5 and 3 leave short and empty shards.
Options run(std::initializer_list<std::pair<const std::string, std::string>> more) {
  Options o{{"full", "1"},   {"block", "1"},  {"dense", "1"},      {"ffn", "7"},  {"heads", "1"},
            {"kda", "4"},    {"conv", "3"},   {"ql", "5"},         {"kl", "3"},   {"nope", "2"},
            {"rope", "2"},   {"vd", "3"},     {"experts", "3"},    {"topk", "2"}, {"ehid", "5"},
            {"latent", "5"}, {"shared", "3"}, {"clip_norm", "0.5"}};
  for (const auto& [name, value] : more) o.set(name, value);
  return o;
}

constexpr std::string_view kZeros =
    "rows of tokens that nobody reads, and experts without a token, have a gradient of zero";

const Register smoke{CaseSet{
    .op = "fsdp",
    .what = "Two steps by AdamW, units gathered and freed one by one",
    .lane = Lane::Smoke,
    .check = Check::Sharded,
    .sizes = {ranks(1), ranks(2), ranks(3), ranks(4)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUnit},
    .options = {run({{"steps", "2"}, {"reduce_dtype", "float32"}})},
    .zero_share = 0.5,
    .zero_share_why = kZeros,
}};

const Register accumulation{CaseSet{
    .op = "fsdp",
    .what = "Two microbatches, with and without a sync between them",
    .lane = Lane::Smoke,
    .check = Check::Sharded,
    .sizes = {ranks(1), ranks(2), ranks(3)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUnit},
    .options = {run({{"accum", "2"}, {"opt", "sgd"}, {"reduce_dtype", "float32"}}),
                run({{"accum", "2"}, {"sync", "each"}, {"opt", "sgd"}, {"wrap", "units"}})},
    .zero_share = 0.5,
    .zero_share_why = kZeros,
}};

const Register modality{CaseSet{
    .op = "fsdp",
    .what = "Ranks with and without an image, and both remedies",
    .lane = Lane::Smoke,
    .check = Check::Sharded,
    .sizes = {ranks(2), ranks(3)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUnit},
    .options =
        {run({{"vision", "5"}, {"image_ranks", "0"}, {"text_rank", "dummy"}, {"wrap", "units"}}),
         run({{"vision", "5"}, {"image_ranks", "1"}, {"text_rank", "zerodep"}}),
         run({{"vision", "5"}, {"image_ranks", "all"}, {"tied", "1"}, {"opt", "sgd"}})},
    .zero_share = 0.5,
    .zero_share_why = kZeros,
}};

const Register groups{CaseSet{
    .op = "fsdp",
    .what = "Replicas of shards, other orders, other ways to reshard, reduce, divide and clip",
    .lane = Lane::Smoke,
    .check = Check::Sharded,
    .sizes = {ranks(4)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUnit},
    .options = {run({{"hsdp", "2"}, {"steps", "2"}, {"reduce_dtype", "float32"}}),
                run({{"raf", "2"}, {"wrap", "units"}, {"order", "ring"}, {"clip_type", "1"}}),
                run({{"raf", "true"}, {"force_sum", "1"}, {"order", "tree"}}),
                run({{"raf", "false"}, {"reduce_dtype", "float16"}, {"order", "halving"}}),
                run({{"wrap", "root"}, {"reduce_dtype", "bfloat16"}, {"order", "doubling"}})},
    .zero_share = 0.5,
    .zero_share_why = kZeros,
}};

const Register wide{CaseSet{
    .op = "fsdp",
    .what = "Up to sixteen ranks, most shards empty",
    .lane = Lane::Full,
    .check = Check::Sharded,
    .sizes = {ranks(5), ranks(6), ranks(8), ranks(16)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUnit},
    .options = {run({{"steps", "2"}, {"reduce_dtype", "float32"}}),
                run({{"wrap", "units"}, {"order", "ring"}, {"accum", "2"}})},
    .zero_share = 0.5,
    .zero_share_why = kZeros,
}};

// Bits against bits in every case: no bound is left whose tightness an exact probe would show.
const Register no_probe{Explanation{
    .op = "fsdp",
    .why = "every case is compared bit for bit with the run in one process: each is a probe"}};
const Register no_probe_collective{Explanation{
    .op = "collective",
    .why = "every case is compared bit for bit with the stated order: each is a probe"}};

}  // namespace
}  // namespace parity
