// gemm: one output at a time and many give the same bits, through scales, groups and tiles; and no
// schedule leaves its bound, whatever the data.
#include <cmath>
#include <gtest/gtest.h>

#include "harness/launch.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/source.hpp"
#include "references/gemm/evaluate.hpp"
#include "references/gemm/import.hpp"

namespace parity::gemm {
namespace {

Case case_of(std::string_view sizes, Dtype dtype, std::string_view options) {
  Case c;
  c.op = "gemm";
  c.sizes = Sizes::parse(sizes);
  c.dtype = dtype;
  c.options = Options::parse(options);
  return c;
}

Tensors drawn(const Case& c, double spread) {
  Tensors tensors;
  std::uint64_t stream = 0;
  for (const TensorSpec& spec : inputs(c)) {
    Tensor t = make_tensor(spec);
    if (!derive(c, t)) {
      std::vector<double> values(static_cast<std::size_t>(t.elements()));
      const Rng rng{11, stream};
      rng.fill_normal(0, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (spec.name.starts_with("scale")) values[i] = std::exp2(std::round(values[i]));
        if (spec.name == "x")
          values[i] *= std::exp2(std::round(spread * rng.split(1).uniform(i, -1, 1)));
      }
      t = make_tensor(spec, values);
    }
    tensors.add(std::move(t));
    ++stream;
  }
  return tensors;
}

TEST(Gemm, LanesAndSingleOutputsAgree) {
  for (const auto& [sizes, dtype, options, schedule] :
       {std::tuple{"M9,N21,K100", Dtype::BF16, "c=1", "sm_90.wgmma"},
        {"M9,N21,K100", Dtype::F32, "out=bf16", "sm_90.mma.k8.nearest.slice64"},
        {"M30,N5,K48,G4", Dtype::F16, "", "sm_80.mma"},
        {"M4,N18,K64,T3", Dtype::E4M3, "w=e5m2,out=f16,c=1", "sm_90.wgmma.f16"},
        {"M9,N21,K300", Dtype::E4M3, "scale=row,alpha=1,out=bf16", "sm_90.wgmma.slice128"},
        {"M9,N21,K96", Dtype::E3M2, "scale=mx,w=e2m1", "sm_100.tcgen05.mxf8f6f4"},
        {"M9,N21,K96", Dtype::E2M1, "scale=nvfp4,alpha=1,result_scale=1", "sm_120.mma.mxf4nvf4"}}) {
    const Case c = case_of(sizes, dtype, options);
    ASSERT_EQ(refuses(c), "") << schedule;
    const Problem p = problem_of(c);
    const auto s = schedule_of(p, schedule);
    ASSERT_TRUE(s) << schedule;
    const Tensors tensors = drawn(c, 6);
    const Codes want = by_units(p, tensors, *s, "");
    for (const int threads : {1, 2, 5})
      EXPECT_EQ(by_lanes(p, tensors, *s, threads), want) << schedule;
  }
}

// The bound of every unit on data that it aligns badly, subnormals included.
TEST(Gemm, EveryUnitStaysWithinItsBound) {
  const BoundDef* definition = nullptr;
  for (const BoundDef& b : registry().bounds)
    if (b.op == "gemm") definition = &b;
  ASSERT_NE(definition, nullptr);
  int judged = 0;
  for (const tensorcore::Unit& unit : tensorcore::units()) {
    if (unit.inputs.front() == Dtype::F64) continue;
    const Dtype dtype = unit.inputs.front() == Dtype::TF32 ? Dtype::F32 : unit.inputs.front();
    const std::string scale = unit.scaling == tensorcore::Scaling::None   ? ""
                              : unit.scaling == tensorcore::Scaling::E8M0 ? "scale=mx"
                                                                          : "scale=nvfp4";
    const Case c = case_of("M8,N9,K320", dtype, scale);
    const Problem p = problem_of(c);
    for (const std::int64_t slice : {0, 64})
      for (const double spread : {0.0, 5.0}) {
        const tensorcore::Schedule s{.unit = &unit, .slice = slice};
        const Contract contract = contract_of(tensorcore::name_of(s));
        EXPECT_EQ(contract.fidelity, Fidelity::Twin);
        EXPECT_EQ(contract.name.ends_with(kModelOnly), unit.arch != "sm_90") << contract.name;
        const Tensors tensors = drawn(c, spread);
        const Truth t = truth(p, tensors);
        const Codes y = by_lanes(p, tensors, s, 1);
        const Bound b = definition->bound(c, contract, outputs(c).front());
        const double units = b.c_acc * growth_factor(b.growth, 0x1p-24);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double error = std::abs(decode(p.y, y[i]) - t.value[i]);
          ASSERT_LE(error, 0x1p-24 * std::abs(t.value[i]) + units * t.scale[i] + 0x1p-149)
              << contract.name;
          ++judged;
        }
      }
  }
  EXPECT_GT(judged, 1000);
}

TEST(Gemm, RefusesWhatItCannotMean) {
  EXPECT_EQ(refuses(case_of("M1,N1,K16", Dtype::BF16, "bits=sm_90.wgmma")), "");
  for (const auto& [sizes, dtype, options] : {std::tuple{"M1,N1", Dtype::BF16, ""},
                                              {"M1,N1,K1", Dtype::I32, ""},
                                              {"M1,N1,K1", Dtype::F64, ""},
                                              {"M1,N1,K1", Dtype::BF16, "scale=column"},
                                              {"M1,N1,K1", Dtype::BF16, "out=i8"},
                                              {"M1,N1,K1", Dtype::BF16, "out=fp7"},
                                              {"M1,N1,K1", Dtype::BF16, "bits=sm_90.tcgen05"},
                                              {"M1,N1,K1", Dtype::E4M3, "bits=sm_80.mma"},
                                              {"M1,N1,K1", Dtype::BF16, "bits=sm_90.wgmma,alpha=1"},
                                              {"M1,N1,K1", Dtype::E4M3, "scale=nvfp4"},
                                              {"M1,N1,K1", Dtype::BF16, "what=1"},
                                              {"M1,N1,K1,T2,G2", Dtype::BF16, ""}})
    EXPECT_NE(refuses(case_of(sizes, dtype, options)), "") << sizes << " " << options;
}

TEST(Gemm, AnEmulatedTargetIsNotVerifiedOnHardware) {
  const Case c = case_of("M4,N4,K32", Dtype::BF16, "");
  int emulated = 0;
  for (const KernelDef& kernel : registry().kernels) {
    if (kernel.op != "gemm") continue;
    const bool of_gpu = kernel.contract.name.starts_with("sm_") && !runs_on_device(kernel);
    emulated += of_gpu ? 1 : 0;
    EXPECT_EQ(candidate_of(kernel, {}, c).hw_verified, !of_gpu) << kernel.name;
  }
  EXPECT_GT(emulated, 0);
}

}  // namespace
}  // namespace parity::gemm
