// The software tensor core against what an H200 returned: single instructions with their NaN bits,
// and the schedules of vendor GEMMs.
#include <cstring>
#include <gtest/gtest.h>
#include <set>

#include "golden/golden.hpp"
#include "harness/test_paths.hpp"

namespace parity::golden {
namespace {

fs::path independent(const char* name) {
  return fs::path(test::kSourceDir) / "golden/independent" / name;
}

TEST(TensorCoreRecordings, EveryInstructionToTheBit) {
  const OpDef& op = registry().op_or_throw("gemm");
  int instructions = 0;
  for (const StoredCase& stored : stored_cases(independent("tensorcore_h200.h5"))) {
    const ImportedCase imported = op.import(stored);
    ASSERT_EQ(imported.unsupported, "") << stored.name;
    const Tensor d = stored.read("outputs/d");
    const Expected expected = op.reference(imported.problem, imported.inputs, false);
    ASSERT_EQ(expected.tensors.size(), 1u);
    const std::vector<std::byte>& bits = expected.tensors.front().bits;
    ASSERT_EQ(bits.size(), d.bytes.size());
    EXPECT_EQ(std::memcmp(bits.data(), d.bytes.data(), bits.size()), 0) << stored.name;
    const Tensor fill = stored.read("inputs/fill");
    const std::span<const std::int32_t> fills = fill.as<std::int32_t>();
    EXPECT_EQ(std::set<std::int32_t>(fills.begin(), fills.end()).size(), 12u) << stored.name;
    ++instructions;
  }
  EXPECT_EQ(instructions, 19);
}

// Every defect of the adder is seen by some recorded instruction.
TEST(TensorCoreRecordings, OtherModelsAreRefuted) {
  const OpDef& op = registry().op_or_throw("gemm");
  std::map<std::string, std::int64_t> wrong;
  for (const StoredCase& stored : stored_cases(independent("tensorcore_h200.h5"))) {
    const ImportedCase imported = op.import(stored);
    const Tensor d = stored.read("outputs/d");
    for (const char* fault : {"P-tc-nearest", "P-tc-narrow", "P-tc-wide", "P-tc-23-bits",
                              "P-tc-half-groups", "P-tc-zero-aligns", "P-tc-flush", "P-tc-nan"}) {
      const Contract contract = op.contract(imported.problem, stored.attributes);
      const Evaluation y = op.base({.problem = imported.problem,
                                    .contract = contract,
                                    .inputs = imported.inputs,
                                    .fault = fault});
      wrong[fault] +=
          std::memcmp(y.front().bits.data(), d.bytes.data(), d.bytes.size()) == 0 ? 0 : 1;
    }
  }
  for (const auto& [fault, cases] : wrong) EXPECT_GT(cases, 0) << fault;
}

TEST(TensorCoreRecordings, VendorGemmsFollowASchedule) {
  const std::map<std::string, std::string> schedules = {
      {"grouped_mm_bf16", "sm_90.wgmma.k16"},
      {"mm_bfloat16_128x64x512", "sm_90.wgmma.k16"},
      {"mm_float16_128x64x512", "sm_90.wgmma.k16"},
      {"mm_float32_128x64x512", "sm_90.ffma.k1.slice64"},
      {"mm_tf32_128x64x512", "sm_90.wgmma.k8.nearest.slice64"},
      {"scaled_mm_rowwise_fast_bf16_128x64x512", "sm_90.wgmma.k32"},
      {"scaled_mm_rowwise_precise_bf16_128x64x512", "sm_90.wgmma.k32.slice128"},
      {"scaled_mm_tensorwise_fast_bfloat16_128x64x512", "sm_90.wgmma.k32"},
      {"scaled_mm_tensorwise_fast_float32_128x64x512", "sm_90.wgmma.k32"},
      {"scaled_mm_tensorwise_precise_bfloat16_128x64x512", "sm_90.wgmma.k32.slice128"},
      {"scaled_mm_tensorwise_precise_float32_128x64x512", "sm_90.wgmma.k32.slice128"}};
  std::set<std::string> seen;
  for (const Subject& s : verify_subjects(independent("gemm_h200_recordings.h5"), "")) {
    if (s.problem.op != "gemm") continue;
    const std::string name = s.problem.recorded.substr(s.problem.recorded.find(':') + 1);
    ASSERT_EQ(s.candidates.size(), 1u);
    const Candidate& model = s.candidates.front();
    EXPECT_EQ(model.contract.name, schedules.at(name)) << name;
    const Tensors inputs = s.inputs();
    const Expected recorded = s.truth(inputs);
    const Observed ours = model.run({.problem = s.problem, .inputs = inputs});
    EXPECT_EQ(ours.tensors.at("y").bytes, recorded.tensors.front().bits) << name;
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), schedules.size());
}

}  // namespace
}  // namespace parity::golden
