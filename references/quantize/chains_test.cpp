// The chains against known answers: a tensor, vectors at which chains part, the layout, corner
// values, and every defect.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>

#include "references/quantize/chains_fixture.hpp"
#include "references/quantize/layout.hpp"

namespace parity::quantize {
namespace {

using test::bytes_of;
using test::from_bits;
using test::known_tensor;
using test::problem;
using test::run;
using test::tensors;

TEST(Chains, KnownTensor) {
  const std::vector<int> two_level = {0x4d, 0x6b, 0x78, 0xd3, 0xa5, 0x16, 0x3e, 0x5c,
                                      0xfa, 0xe2, 0xc5, 0x96, 0x3f, 0x5d, 0x7b, 0xe0,
                                      0x5e, 0x7c, 0xf8, 0xe4, 0xb6, 0x17, 0x4e, 0x6d};
  std::vector<int> one_level = two_level;
  const std::vector<int> third = {0x2b, 0x39, 0xc8, 0xa1, 0x92, 0x04, 0x2b, 0x3a};
  std::copy(third.begin(), third.end(), one_level.begin() + 16);
  const auto check = [&](std::string_view chain, const std::vector<int>& scales,
                         const std::vector<int>& codes) {
    const Expected expected = run(chain, 1, known_tensor());
    std::vector<int> got = bytes_of(expected, "scales");
    got.resize(3);
    EXPECT_EQ(got, scales) << chain;
    got = bytes_of(expected, "codes");
    got.resize(24);
    EXPECT_EQ(got, codes) << chain;
  };
  check("nvfp4_te", {0x7e, 0x7b, 0x42}, two_level);
  check("nvfp4_ao_te", {0x7e, 0x7b, 0x42}, two_level);
  check("nvfp4_torchao_b2", {0x7e, 0x7b, 0x42}, two_level);
  check("nvfp4_trtllm", {0x7e, 0x7b, 0x42}, two_level);
  check("nvfp4_torchao_b1", {0x36, 0x33, 0x08}, one_level);

  const ExpectedTensor* encode = run("nvfp4_ao_te", 1, known_tensor()).find("encode_scale");
  ASSERT_NE(encode, nullptr);
  const Expected kept = run("nvfp4_ao_te", 1, known_tensor());
  const std::vector<double>& enc = kept.find("encode_scale")->value;
  EXPECT_EQ(static_cast<float>(enc[0]), from_bits(0x3f924925));
  EXPECT_EQ(static_cast<float>(enc[1]), from_bits(0x3fba2e8c));
  EXPECT_EQ(static_cast<float>(enc[2]), from_bits(0x434ccccd));
}

// (tensor amax, block amax) -> scale byte where the order of operations decides a tie of e4m3.
TEST(Chains, ScaleSplits) {
  const std::vector<std::pair<std::string_view, Options>> chains = {
      {"nvfp4_te", {}},
      {"nvfp4_fouroversix", {{"rule", "static_6"}}},
      {"nvfp4_ao_018", {}},
      {"nvfp4_torchao_b2", {}},
      {"nvfp4_torchao_b2_cuda", {}},
      {"nvfp4_trtllm", {}},
      {"nvfp4_vllm_emulation", {}},
      {"nvfp4_modelopt", {}},
      {"nvfp4_compressed_tensors", {}},
      {"nvfp4_cutlass", {}},
      {"nvfp4_te_fast", {}}};
  struct Split {
    std::uint32_t amax, block;
    std::vector<int> bytes;  // of the second block, by chain
  };
  const std::vector<Split> splits = {
      {0x3f820000, 0x3f430000, {0x7b, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7b, 0x7b}},
      {0x3f8c0000, 0x3f110000, {0x77, 0x76, 0x76, 0x76, 0x76, 0x77, 0x77, 0x76, 0x76, 0x77, 0x77}},
      {0x3f8c0000, 0x3f2a0000, {0x79, 0x79, 0x79, 0x78, 0x78, 0x79, 0x79, 0x78, 0x79, 0x79, 0x79}},
      {0x3f8e0000, 0x3f550000, {0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7b, 0x7a, 0x7a, 0x7a}},
      {0x3f9a0000, 0x3f3b0000, {0x78, 0x78, 0x78, 0x78, 0x78, 0x79, 0x79, 0x78, 0x78, 0x78, 0x78}},
      {0x3f9a0000, 0x3f510000, {0x7a, 0x7a, 0x7a, 0x79, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a}},
      {0x3fd00000, 0x3f9c0000, {0x7b, 0x7a, 0x7a, 0x7a, 0x7a, 0x7a, 0x7b, 0x7a, 0x7b, 0x7b, 0x7b}},
      {0x3fe00000, 0x3fc80000, {0x7c, 0x7c, 0x7c, 0x7c, 0x7d, 0x7d, 0x7d, 0x7c, 0x7d, 0x7c, 0x7c}}};
  for (const Split& split : splits) {
    std::vector<float> x(32, 0);
    x[0] = from_bits(split.amax);
    x[16] = from_bits(split.block);
    for (std::size_t i = 0; i < chains.size(); ++i)
      EXPECT_EQ(bytes_of(run(chains[i].first, 1, x, chains[i].second), "scales")[1], split.bytes[i])
          << chains[i].first << " " << std::hex << split.amax;
    EXPECT_EQ(bytes_of(run("nvfp4_te", 1, x, {}, "P-reciprocal-six"), "scales")[1], split.bytes[2]);
  }
}

// (tensor amax, block amax, x) at which the factors of two chains put x on two sides of a
// threshold.
TEST(Chains, CodeSplits) {
  struct Split {
    std::uint32_t amax, block, x;
    int scale, a;
    std::string_view other;
    int code;
  };
  for (const Split& split :
       {Split{0x40e00000, 0x40ca0000, 0x3f500000, 0x7d, 1, "nvfp4_torchao_b2", 2},
        Split{0x40e00000, 0x40ca0000, 0x3f500000, 0x7d, 1, "nvfp4_cutlass", 2},
        Split{0x40e40000, 0x3fcd0000, 0x3f770000, 0x6d, 5, "nvfp4_torchao_b2", 6},
        Split{0x40130000, 0x3f040000, 0x3cb60000, 0x6d, 1, "nvfp4_torchao_b2", 0},
        Split{0x40100000, 0x3f820000, 0x3f1c0000, 0x75, 5, "nvfp4_cutlass", 6},
        Split{0x40fc0000, 0x40630000, 0x40430000, 0x75, 6, "nvfp4_cutlass", 7},
        Split{0x40560000, 0x3dc10000, 0x3d680000, 0x55, 6, "nvfp4_te_fast", 5},
        Split{0x40910000, 0x3e820000, 0x3e600000, 0x5d, 6, "nvfp4_te_fast", 7}}) {
    std::vector<float> x(32, 0);
    x[0] = from_bits(split.amax);
    x[16] = from_bits(split.block);
    x[18] = from_bits(split.x);
    const Expected a = run("nvfp4_te", 1, x);
    const Expected other = run(split.other, 1, x);
    EXPECT_EQ(bytes_of(a, "scales")[1], split.scale);
    EXPECT_EQ(bytes_of(other, "scales")[1], split.scale);
    EXPECT_EQ(bytes_of(a, "codes")[9] & 15, split.a);
    EXPECT_EQ(bytes_of(other, "codes")[9] & 15, split.code) << split.other;
  }
}

TEST(Chains, CornersOfTheTensor) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(32, 1);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  const auto scales = [&](std::string_view chain) { return bytes_of(run(chain, 1, x), "scales"); };
  EXPECT_EQ(scales("nvfp4_torchao_b1"), (std::vector{0x7f, 0x23}));  // its block alone
  EXPECT_EQ(scales("nvfp4_torchao_b2"), (std::vector{0x7f, 0x7f}));
  EXPECT_EQ(scales("nvfp4_te"), (std::vector{0x7f, 0x7f}));
  const Expected nan = run("nvfp4_torchao_b1", 1, x);
  EXPECT_EQ(nan.find("codes")->ignore[3], 1);  // no chain defines these codes
  EXPECT_EQ(nan.find("codes")->ignore[16], 0);
  x[0] = inf;
  EXPECT_EQ(scales("nvfp4_torchao_b1"), (std::vector{0x7e, 0x23}));
  EXPECT_EQ(scales("nvfp4_torchao_b2"), (std::vector{0x7f, 0x08}));
  EXPECT_EQ(scales("nvfp4_te"), (std::vector{0x7e, 0x23}));  // S_enc 1, 1/6 of a block of ones
  std::fill(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(scales("nvfp4_torchao_b1"), (std::vector{0x08, 0x08}));
  EXPECT_EQ(scales("nvfp4_torchao_b2"), (std::vector{0x7f, 0x7f}));
  EXPECT_EQ(scales("nvfp4_te"), (std::vector{0x00, 0x00}));
  x[1] = -0.0F;
  EXPECT_EQ(bytes_of(run("nvfp4_te", 1, x), "codes")[0], 0x00);
  EXPECT_EQ(bytes_of(run("nvfp4_ao_te", 1, x), "codes")[0], 0x80);
}

TEST(Chains, RefuseWhatTheirSourcesRefuse) {
  EXPECT_NE(run("nvfp4_torchao_b1", 1, std::vector<float>(24, 1)).refused, "");
  EXPECT_NE(run("nvfp4_te", 1, std::vector<float>(32, 1), {{"pow2", "1"}}).refused, "");
  EXPECT_EQ(bytes_of(run("nvfp4_te", 1, std::vector<float>(24, 1)), "scales").size(),
            2U);  // padded
}

TEST(Layout, KnownOffsets) {
  const std::map<std::pair<int, int>, int> known = {
      {{0, 0}, 0},     {{1, 0}, 16},  {{31, 3}, 499},   {{32, 0}, 4},
      {{127, 3}, 511}, {{0, 4}, 512}, {{128, 0}, 1024}, {{200, 4}, 1672}};
  for (const auto& [at, offset] : known)
    EXPECT_EQ(swizzled_offset(at.first, at.second, 5), offset) << at.first << "," << at.second;
  EXPECT_EQ(swizzled_bytes(129, 5), 2 * 2 * 512);
}

TEST(Layout, RoundTripAndZeroPadding) {
  constexpr std::int64_t kRows = 130;
  constexpr std::int64_t kColumns = 10;
  std::vector<std::uint8_t> scales(kRows * kColumns);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = static_cast<std::uint8_t>(1 + i % 255);
  const std::vector<std::uint8_t> blocked = swizzled(scales, kRows, kColumns);
  EXPECT_EQ(unswizzled(blocked, kRows, kColumns), scales);
  EXPECT_EQ(std::count(blocked.begin(), blocked.end(), 0),
            static_cast<std::ptrdiff_t>(blocked.size() - scales.size()));
}

// Each row of the fault table that can be shown changes some result of some chain on these inputs.
TEST(Faults, EachChangesAResult) {
  std::vector<float> x = known_tensor();
  x.resize(16 * 96);
  for (std::size_t i = 96; i < x.size(); ++i) {
    const auto draw = static_cast<float>((i * 7919) % 1009) / 512 - 1;
    x[i] = draw * std::ldexp(1.0F, static_cast<int>(i / 16 % 20) - 9);
  }
  x[200] = -0.0F;
  x[190] = -7;
  std::vector<float> hole = x;
  hole[100] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> split(32, 0);  // a code where chains part
  split[0] = from_bits(0x40e00000);
  split[16] = from_bits(0x40ca0000);
  split[18] = from_bits(0x3f500000);
  std::vector<float> scale_split(32, 0);
  scale_split[0] = from_bits(0x3f820000);
  scale_split[16] = from_bits(0x3f430000);
  std::vector<float> ties;  // scale 1, every midpoint
  for (int i = 0; i < 16; ++i)
    ties.push_back(std::vector{0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F,
                               6.0F}[static_cast<std::size_t>(i % 8)]);
  const std::vector<std::vector<float>> all = {x,           hole, split,
                                               scale_split, ties, std::vector<float>(32, 0)};
  const std::vector<std::pair<std::string_view, Options>> chains = {
      {"nvfp4_te", {{"swizzle", "1"}, {"ste", "1"}}},
      {"nvfp4_te", {{"tile", "16"}, {"transpose", "1"}}},
      {"nvfp4_te", {{"rht", "1"}}},
      {"nvfp4_te", {{"sr", "1"}, {"transpose", "1"}}},
      {"nvfp4_te", {{"row_scaled", "1"}}},
      {"nvfp4_ao_te", {{"swizzle", "1"}}},
      {"nvfp4_torchao_b1", {{"ste", "1"}, {"swizzle", "1"}}},
      {"nvfp4_torchao_b2", {{"ste", "1"}, {"swizzle", "1"}}},
      {"nvfp4_trtllm", {}},
      {"nvfp4_te_4over6", {}},
      {"nvfp4_vllm_emulation", {}},
      {"nvfp4_compressed_tensors", {}}};
  for (const FaultDef& fault : all_faults()) {
    if (!fault.unsupported.empty() || fault.id == "A-QT06" || fault.id == "P-groups-tiled")
      continue;
    int changed = 0;
    for (const auto& [chain, options] : chains) {
      for (const std::vector<float>& values : all) {
        for (const char* factor : {"1", "0.25"}) {
          const std::int64_t rows = values.size() > 100 ? 16 : 1;
          if (rows == 1 && options.flag("rht")) continue;
          Case c = problem(chain, rows, static_cast<std::int64_t>(values.size()) / rows, options);
          c.dtype =
              fault.id == "P-dequant-truncated" || options.flag("rht") ? Dtype::BF16 : Dtype::F32;
          c.options.set("amax_factor", factor);
          const Tensors inputs = tensors(c, values);
          const ChainDef* def = registry().chain(chain);
          const Expected clean = def->quantize(c, inputs, "");
          const Expected faulty = def->quantize(c, inputs, fault.id);
          for (std::size_t t = 0; t < clean.tensors.size(); ++t)
            changed += clean.tensors[t].bits != faulty.tensors[t].bits;
        }
      }
    }
    EXPECT_GT(changed, 0) << fault.id;
  }
  std::vector<float> tail(24, 1);  // A-QT06 needs a short block
  tail[12] = 5;
  EXPECT_NE(bytes_of(run("nvfp4_te", 1, tail), "scales"),
            bytes_of(run("nvfp4_te", 1, tail, {}, "A-QT06"), "scales"));
}

}  // namespace
}  // namespace parity::quantize
