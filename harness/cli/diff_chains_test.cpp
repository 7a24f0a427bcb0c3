// Chains side by side: what is known of them, and the command.
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/chain_table.hpp"
#include "harness/cli/command_line_test.hpp"
#include "harness/failure.hpp"

namespace parity::cli {
namespace {

Tensor two_blocks(std::uint32_t amax, std::uint32_t block, std::uint32_t x) {
  std::vector<double> values(32, 0);
  const auto value = [](std::uint32_t bits) {
    return static_cast<double>(std::bit_cast<float>(bits));
  };
  values[0] = value(amax);
  values[16] = value(block);
  values[18] = value(x);
  return make_tensor(
      {.name = "x", .role = Role::Input, .dtype = Dtype::F32, .dims = {{"M", 1}, {"K", 32}}},
      values);
}

TEST(ChainTrace, NamesTheFirstStepThatDiffers) {
  const ChainName te = parse_chain("nvfp4_te");
  // One scale byte; one code under an equal scale; none.
  const Tensor scale = two_blocks(0x3f820000, 0x3f430000, 0);
  ChainDifference d = difference(trace_of(te, scale), trace_of(parse_chain("nvfp4_trtllm"), scale));
  EXPECT_EQ(d.first(), 1);
  EXPECT_EQ(d.steps[1].differing, 1);
  EXPECT_EQ(d.steps[1].first, 1);
  EXPECT_EQ(d.steps[1].largest, 1);
  const Tensor code = two_blocks(0x40e00000, 0x40ca0000, 0x3f500000);
  d = difference(trace_of(te, code), trace_of(parse_chain("nvfp4_torchao_b2"), code));
  EXPECT_EQ(d.first(), 2);  // the factor, and with it a code
  EXPECT_EQ(d.steps[1].differing, 0);
  EXPECT_EQ(d.steps[3].differing, 1);
  EXPECT_EQ(d.steps[3].first, 18);
  d = difference(trace_of(te, code), trace_of(parse_chain("nvfp4_ao_te"), code));
  EXPECT_EQ(d.first(), -1);
  // One chain divides by what the other multiplies by: no difference of theirs.
  d = difference(trace_of(te, code), trace_of(parse_chain("nvfp4_modelopt"), code));
  EXPECT_FALSE(d.steps[2].comparable);
}

TEST(ChainTrace, NamesWithOptions) {
  EXPECT_EQ(parse_chain("nvfp4_te_4over6[err=mse]").text(), "nvfp4_te_4over6[err=mse]");
  EXPECT_THROW(parse_chain("nvfp4_tee"), UsageError);
  EXPECT_THROW(parse_chain("nvfp4_te[err=mse"), UsageError);
  EXPECT_THROW(parse_chain("mx_qutlass"), UsageError);  // other blocks, other steps
  EXPECT_GE(traced_chains().size(), 14U);
}

TEST(ChainTrace, Sqnr) {
  const std::vector<double> x = {3, 4, NAN};
  EXPECT_TRUE(std::isinf(sqnr(x, x)));
  EXPECT_NEAR(sqnr(x, std::vector<double>{3, 3.5, 0}), 20, 1e-9);
  // Quantised Gaussians: 20.4 dB, and the noise of two operands adds.
  const Tensor g = normal_matrix(Dtype::BF16, 64, 512, 3);
  const Tensor w = normal_matrix(Dtype::BF16, 64, 512, 4);
  const ChainName te = parse_chain("nvfp4_te");
  const ChainTrace a = trace_of(te, g);
  EXPECT_NEAR(sqnr(g.widened(), a.steps.find("dequant_f32")->value), 20.43, 0.15);
  EXPECT_NEAR(gemm_sqnr(a, g, trace_of(te, w), w), 17.42, 0.4);
}

// Counts over all 244151 pairs are exact and known.
TEST(ChainTable, PairsOfBf16Amaxes) {
  const std::vector<PairCount> counts =
      pairs_of({parse_chain("nvfp4_te"), parse_chain("nvfp4_ao_018"),
                parse_chain("nvfp4_torchao_b2"), parse_chain("nvfp4_torchao_b2_cuda"),
                parse_chain("nvfp4_trtllm"), parse_chain("nvfp4_vllm_emulation"),
                parse_chain("nvfp4_cutlass"), parse_chain("nvfp4_modelopt")});
  const std::vector<std::pair<std::int64_t, std::int64_t>> known = {
      {0, 0}, {238, 12}, {357, 17}, {387, 16}, {240, 14}, {329, 17}, {0, 0}, {373, 19}};
  for (std::size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(counts[i].of, 244151) << counts[i].name.text();
    EXPECT_EQ(counts[i].pairs, known[i].first) << counts[i].name.text();
    EXPECT_EQ(counts[i].mantissas, known[i].second) << counts[i].name.text();
  }
}

TEST(ChainTable, DrawsAgreeWithWhatIsKnown) {
  const ChainTable table =
      table_of({.chains = {parse_chain("nvfp4_te"), parse_chain("nvfp4_ao_te"),
                           parse_chain("nvfp4_te_fast"), parse_chain("nvfp4_compressed_tensors")},
                .rows = 32,
                .columns = 256,
                .draws = 3});
  EXPECT_EQ(table.agreeing.front(), (std::vector<std::string>{"nvfp4_te", "nvfp4_ao_te"}));
  EXPECT_EQ(table.rates[2].scales_max, 0);  // fast math: the scales are A's,
  EXPECT_GT(table.rates[2].codes_max, 0);   // a code within 2^-9 of a threshold not
  EXPECT_EQ(table.rates[2].largest_code, 1);
  EXPECT_GT(table.rates[3].scales_max, 5e-3);  // bf16 intermediates: a chain of its own
}

// The README's table is what the code does.
TEST(ChainTable, ReadmeHasTheTableOfSpecialValues) {
  std::ifstream file(std::string(test::kSourceDir) + "/README.md");
  std::ostringstream readme;
  readme << file.rdbuf();
  EXPECT_NE(readme.str().find(special_values_table()), std::string::npos)
      << "put the output of `parity diff-chains --special` into README.md:\n"
      << special_values_table();
}

TEST_F(CommandLine, DiffChains) {
  io::write(dir / "x.safetensors",
            [] {
              Tensors t;
              t.add(normal_matrix(Dtype::BF16, 8, 64, 5));
              return t;
            }(),
            {});
  const Ran text = parity("diff-chains x.safetensors --chain nvfp4_ao_te --chain nvfp4_modelopt");
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("nvfp4_modelopt"), std::string::npos);
  const Ran json = parity("diff-chains x.safetensors --tensor x --json --against nvfp4_trtllm");
  ASSERT_EQ(json.exit, 0) << json.err;
  const nlohmann::json document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["against"], "nvfp4_trtllm");
  EXPECT_EQ(document["chains"][0]["steps"].size(), kSteps.size());
  EXPECT_TRUE(document["chains"][0]["first_difference"].is_null());
  const Ran draws = parity("diff-chains --draws 1 --rows 4 --columns 64 --json");
  ASSERT_EQ(draws.exit, 0) << draws.err;
  EXPECT_EQ(nlohmann::json::parse(draws.out)["chains"][0]["chain"], "nvfp4_te");
  EXPECT_EQ(
      parity("diff-chains 'quantize/M1,K32/f32/splits/chain=nvfp4_te,ste=1,swizzle=1/s8'").exit,
      parity("show 'quantize/M1,K32/f32/splits/chain=nvfp4_te,ste=1,swizzle=1/s8'").exit);
  expect_refused("diff-chains x.safetensors --tensor y", "no tensor 'y'");
  expect_refused("diff-chains gone.npz", "gone.npz");
  expect_refused("diff-chains --chain nvfp4_tee", "did you mean 'nvfp4_te'?");
}

}  // namespace
}  // namespace parity::cli
