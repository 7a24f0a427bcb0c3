// The vector steps against the scalar ones over patterns that matter, and whole launches against
// the op's reference: every chain, both formats, ragged shapes, any number of threads, bit for bit.
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "harness/source.hpp"
#include "kernels/quantize/frame.hpp"

namespace parity::nvfp4 {
namespace {

struct NamedSteps {
  const char* name;
  const Steps* steps;
};

std::vector<NamedSteps> available() {
  std::vector<NamedSteps> list = {{"plain", &kPlainSteps}};
  if (missing_capability("avx2").empty()) list.push_back({"avx2", &kAvx2Steps});
  if (missing_capability("avx512").empty()) list.push_back({"avx512", &kAvx512Steps});
  return list;
}

// Blocks of many sizes, thresholds and their neighbours, zeros of both signs, subnormals,
// infinities and NaN.
std::vector<float> patterns(std::int64_t blocks) {
  std::vector<float> x;
  const Rng rng{11, 0};
  const std::vector<float> thresholds = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5, 6};
  for (std::int64_t b = 0; b < blocks; ++b) {
    const int kind = static_cast<int>(b % 8);
    const float size = std::ldexp(1.0F, static_cast<int>(b * 5 % 60) - 40);
    for (std::int64_t i = 0; i < 16; ++i) {
      const auto index = static_cast<std::uint64_t>(b * 16 + i);
      float v = static_cast<float>(rng.normal(index)) * size;
      if (kind == 1) {
        v = thresholds[static_cast<std::size_t>(i % 8)] * 2;
        if (i > 7) v = std::nextafter(v, i % 2 == 0 ? 0.0F : 100.0F);
      }
      if (kind == 2) v = i % 3 == 0 ? -0.0F : 0.0F;
      if (kind == 3) v = std::bit_cast<float>(static_cast<std::uint32_t>(rng.bits(index)));
      if (kind == 4) v = i == b / 8 % 16 ? 448 * 6.0F : v;
      if (kind == 5) v = static_cast<float>(i) * 1e-40F;
      x.push_back(v);
    }
  }
  return x;
}

std::vector<std::uint16_t> narrowed(const std::vector<float>& x) {
  std::vector<std::uint16_t> h;
  for (const float v : x) h.push_back(bf16_from_float(v));
  return h;
}

struct Blocks {
  std::vector<std::uint8_t> codes, scales;
  std::vector<float> encode;
  std::vector<float> values;
  std::vector<std::uint16_t> values_bf16;
};

Blocks run(const Steps& steps, const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks) {
  const auto n = static_cast<std::size_t>(blocks);
  Blocks r{std::vector<std::uint8_t>(8 * n), std::vector<std::uint8_t>(n), std::vector<float>(n),
           std::vector<float>(16 * n), std::vector<std::uint16_t>(16 * n)};
  steps.quantise(plan, dtype, x, blocks, r.codes.data(), r.scales.data(), r.encode.data());
  for (std::size_t b = 0; b < n;
       ++b)  // no chain defines the codes of a NaN block, or of 0 times inf
    if (r.scales[b] == 0x7F || !std::isfinite(r.encode[b]))
      std::fill_n(r.codes.begin() + static_cast<std::ptrdiff_t>(8 * b), 8, std::uint8_t{0});
  steps.dequantise(plan, Dtype::F32, r.codes.data(), r.scales.data(), blocks, r.values.data());
  steps.dequantise(plan, Dtype::BF16, r.codes.data(), r.scales.data(), blocks,
                   r.values_bf16.data());
  return r;
}

// NaN equals NaN; everything else bit for bit.
int differing(const std::vector<float>& a, const std::vector<float>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    count += !(std::isnan(a[i]) && std::isnan(b[i])) &&
             std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  return count;
}

std::vector<Plan> plans() {
  std::vector<Plan> list;
  for (const char* chain :
       {"nvfp4_te", "nvfp4_ao_te", "nvfp4_torchao_b1", "nvfp4_torchao_b2", "nvfp4_te_4over6"}) {
    Case c;
    c.options.set("chain", chain);
    for (const float amax : {5.25F, 448 * 6.0F, 1e-6F, 3e38F, 1e-40F, 0.0F,
                             std::numeric_limits<float>::infinity(), std::nanf("")})
      list.push_back(plan_of(c, amax));
  }
  return list;
}

TEST(QuantizeSteps, EveryWidthEqualsTheScalarDefinition) {
  for (const std::int64_t blocks : {1, 3, 4, 7, 8, 16, 17, 31, 512}) {
    const std::vector<float> x = patterns(blocks);
    const std::vector<std::uint16_t> h = narrowed(x);
    for (const Plan& plan : plans()) {
      for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
        const void* data = dtype == Dtype::F32 ? static_cast<const void*>(x.data()) : h.data();
        const Blocks want = run(kScalarSteps, plan, dtype, data, blocks);
        for (const NamedSteps& s : available()) {
          const Blocks got = run(*s.steps, plan, dtype, data, blocks);
          ASSERT_EQ(got.scales, want.scales) << s.name << " amax " << plan.amax;
          ASSERT_EQ(got.codes, want.codes) << s.name << " amax " << plan.amax;
          ASSERT_EQ(differing(got.encode, want.encode), 0) << s.name;
          ASSERT_EQ(differing(got.values, want.values), 0) << s.name << " amax " << plan.amax;
          for (std::size_t i = 0; i < want.values_bf16.size(); ++i)
            ASSERT_TRUE(got.values_bf16[i] == want.values_bf16[i] ||
                        (std::isnan(float_from_bf16(got.values_bf16[i])) &&
                         std::isnan(float_from_bf16(want.values_bf16[i]))))
                << s.name << " element " << i;
          ASSERT_EQ(s.steps->amax(dtype, data, 16 * blocks - 3),
                    kScalarSteps.amax(dtype, data, 16 * blocks - 3))
              << s.name;
        }
      }
    }
  }
}

// Every bf16 number under a scale of one and under one that makes ties.
TEST(QuantizeSteps, EveryBf16Number) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> blocks;  // each number beside a 6, so that its block has scale one
  for (const std::uint16_t h : all) {
    blocks.insert(blocks.end(), 16, std::uint16_t{0});
    blocks[blocks.size() - 16] = h;
    blocks[blocks.size() - 1] = bf16_from_float(6);
  }
  Plan plan;
  plan.order = Order::Decode;
  const auto n = static_cast<std::int64_t>(all.size());
  const Blocks want = run(kScalarSteps, plan, Dtype::BF16, blocks.data(), n);
  for (const NamedSteps& s : available()) {
    const Blocks got = run(*s.steps, plan, Dtype::BF16, blocks.data(), n);
    EXPECT_EQ(got.codes, want.codes) << s.name;
    EXPECT_EQ(got.scales, want.scales) << s.name;
  }
}

// Parts give what `quantise` gives.
TEST(QuantizeSteps, PartsMakeTheWhole) {
  constexpr std::int64_t kBlocks = 67;
  const std::vector<float> x = patterns(kBlocks);
  for (const Plan& plan : plans()) {
    for (const NamedSteps& s : available()) {
      const Blocks want = run(*s.steps, plan, Dtype::F32, x.data(), kBlocks);
      std::vector<float> amax(kBlocks), encode(kBlocks), errors(kBlocks), same(kBlocks);
      std::vector<std::uint8_t> scales(kBlocks), codes(8 * kBlocks);
      s.steps->block_amax(Dtype::F32, x.data(), kBlocks, amax.data());
      s.steps->scales(plan, amax.data(), kBlocks, scales.data(), encode.data());
      s.steps->codes(plan, Dtype::F32, x.data(), kBlocks, encode.data(), codes.data());
      ASSERT_EQ(scales, want.scales) << s.name;
      ASSERT_EQ(differing(encode, want.encode), 0) << s.name;
      for (std::size_t b = 0; b < kBlocks; ++b)
        if (scales[b] == 0x7F || !std::isfinite(encode[b]))
          std::fill_n(codes.begin() + static_cast<std::ptrdiff_t>(8 * b), 8, std::uint8_t{0});
      ASSERT_EQ(codes, want.codes) << s.name;
      if (plan.order != Order::Choice) continue;
      s.steps->errors(plan, Dtype::F32, x.data(), codes.data(), scales.data(), kBlocks,
                      errors.data());
      kScalarSteps.errors(plan, Dtype::F32, x.data(), codes.data(), scales.data(), kBlocks,
                          same.data());
      ASSERT_EQ(differing(errors, same), 0) << s.name;
    }
  }
}

// Exponents near each other and far apart, zeros, infinities, NaN: the sum is exact all the same.
TEST(QuantizeSteps, TransformIsExact) {
  constexpr std::int64_t kColumns = 333;
  std::vector<float> x = patterns(kColumns);
  for (std::size_t i = 0; i < x.size(); i += 7) x[i] = std::ldexp(1.0F, static_cast<int>(i % 90));
  const std::vector<std::uint16_t> h = narrowed(x);
  std::vector<float> signs;
  for (int i = 0; i < 16; ++i) signs.push_back(i % 3 == 1 ? -1.0F : 1.0F);
  constexpr std::int64_t kPitch = 40;
  std::vector<std::uint16_t> want(kColumns * kPitch, 1), got(kColumns * kPitch, 1);
  kScalarSteps.transform(h.data(), kColumns, kColumns, signs.data(), want.data(), kPitch);
  for (const NamedSteps& s : available()) {
    std::fill(got.begin(), got.end(), std::uint16_t{1});
    s.steps->transform(h.data(), kColumns, kColumns, signs.data(), got.data(), kPitch);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(got[i] == want[i] ||
                  (std::isnan(float_from_bf16(got[i])) && std::isnan(float_from_bf16(want[i]))))
          << s.name << " " << i;
  }
}

// ---- launches
// -----------------------------------------------------------------------------------------------------------

Tensors launch(const KernelDef& kernel, const Case& c, const Tensors& inputs, int threads) {
  const OpDef& op = registry().op_or_throw("quantize");
  Tensors outputs;
  for (TensorSpec& spec : op.outputs(c)) {
    outputs.add(make_tensor(std::move(spec)));
    std::fill(outputs.list().back().bytes.begin(), outputs.list().back().bytes.end(),
              std::byte{0xA5});
  }
  std::vector<TensorView> in, out, gradients;
  for (const Tensor& t : inputs.list())
    in.push_back({&t.spec, const_cast<std::byte*>(t.bytes.data())});
  for (Tensor& t : outputs.list())
    (t.spec.role == Role::Gradient ? gradients : out).push_back({&t.spec, t.bytes.data()});
  const Options none;
  std::vector<std::byte> space(kernel.workspace(c, none, Direction::Forward));
  kernel.forward({.problem = c,
                  .options = none,
                  .inputs = in,
                  .outputs = out,
                  .workspace = space,
                  .threads = threads});
  kernel.backward(
      {.problem = c, .options = none, .inputs = in, .outputs = gradients, .threads = threads});
  return outputs;
}

std::int64_t mismatches(const ExpectedTensor& want, const Tensor& got) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!want.ignore.empty() && want.ignore[at] != 0) continue;
    const std::uint64_t code = load_code(got.spec.dtype, got.bytes.data(), i);
    const double value = decode(got.spec.dtype, code);
    if (std::isnan(value) && std::isnan(want.value[at])) continue;
    const std::uint64_t expected = want.bits.empty()
                                       ? encode(got.spec.dtype, want.value[at])
                                       : load_code(got.spec.dtype, want.bits.data(), i);
    count += code != expected;
  }
  return count;
}

TEST(QuantizeKernels, EqualTheReferenceBitForBit) {
  const OpDef& op = registry().op_or_throw("quantize");
  int launches = 0;
  for (const char* options :
       {"chain=nvfp4_te,dequant=1,swizzle=1,transpose=1", "chain=nvfp4_te,ste=1",
        "chain=nvfp4_ao_te,swizzle=1", "chain=nvfp4_torchao_b1,dequant=1,ste=1",
        "chain=nvfp4_torchao_b2,amax_factor=0.5,dequant=1,dequant_f32=1,swizzle=1",
        "chain=nvfp4_te,dequant=1,swizzle=1,tile=16,transpose=1",
        "chain=nvfp4_ao_te,swizzle=1,tile=16,transpose=1", "chain=nvfp4_te,rht=1,swizzle=1",
        "chain=nvfp4_ao_te,rht=1,signs=0x0F35", "chain=nvfp4_te,row_scaled=1,transpose=1",
        "chain=nvfp4_te_4over6,dequant=1,dequant_f32=1,transpose=1",
        "chain=nvfp4_te_4over6,e4m3_max=448,err=mse", "chain=nvfp4_te_4over6,err=mse,fast_err=1",
        "chain=nvfp4_te_4over6,fast_err=1,tile=16"}) {
    for (const char* sizes :
         {"M1,K16", "M4,K64", "M6,K48", "M130,K80", "M20,K24", "M2,K2048", "M64,K1040"}) {
      for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
        Case c;
        c.op = "quantize";
        c.sizes = Sizes::parse(sizes);
        c.dtype = dtype;
        c.fill = "test";
        c.options = Options::parse(options);
        if (!refuses(c, {}).empty()) continue;
        Tensors inputs;
        for (const TensorSpec& spec : op.inputs(c)) {
          Tensor derived = make_tensor(spec);
          if (op.derive(c, derived)) {
            inputs.add(std::move(derived));
            continue;
          }
          std::vector<float> x = patterns((elements(spec.dims) + 15) / 16);
          if (launches % 3 != 0)
            for (float& v : x) v = std::isfinite(v) && std::fabs(v) < 1e30F ? v : 1;
          x.resize(static_cast<std::size_t>(elements(spec.dims)));
          inputs.add(make_tensor(spec, std::vector<double>(x.begin(), x.end())));
        }
        const Expected expected = op.reference(c, inputs, true);
        ASSERT_EQ(expected.refused, "") << c.id();
        for (const KernelDef& kernel : registry().kernels) {
          if (!kernel.name.starts_with("quantize.nvfp4_") ||
              !candidate_of(kernel, {}, c).unsupported.empty())
            continue;
          for (const int threads : {1, 2, 5}) {
            const Tensors got = launch(kernel, c, inputs, threads);
            for (const ExpectedTensor& want : expected.tensors)
              ASSERT_EQ(mismatches(want, got.at(want.spec.name)), 0)
                  << c.id() << " " << want.spec.name << "@" << kernel.name << ", " << threads
                  << " threads";
            ++launches;
          }
        }
      }
    }
  }
  EXPECT_GT(launches, 300);
}

}  // namespace
}  // namespace parity::nvfp4
