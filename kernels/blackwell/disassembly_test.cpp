// What the compiled kernels of Blackwell consist of: no machine here runs them, but their code can
// be read. A kernel that fell back to ordinary arithmetic would lack its instructions.
#include <array>
#include <cstdio>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "harness/build_info.hpp"
#include "harness/test_paths.hpp"

namespace parity {
namespace {

bool has_nvcc() {
  for (const NamedText& t : build_info().compiler)
    if (t.name == "cuda") return true;
  return false;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 65536> part;
  while (const std::size_t n = fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

// Machine code by function (mangled), of one architecture.
std::map<std::string, std::string> functions_of(const std::string& object,
                                                const std::string& arch) {
  std::map<std::string, std::string> functions;
  const std::string text =
      output_of(std::string("PATH=\"$PATH:$(dirname '") + test::kCuobjdump + "')\" '" +
                test::kCuobjdump + "' -sass -arch " + arch + " '" + object + "'");
  constexpr std::string_view kMark = "Function : ";
  for (std::size_t at = text.find(kMark); at != std::string::npos;) {
    const std::size_t name = at + kMark.size(), end = text.find('\n', name);
    at = text.find(kMark, end);
    functions[text.substr(name, end - name)] =
        text.substr(end, at == std::string::npos ? at : at - end);
  }
  return functions;
}

struct Demand {
  const char* file;  // of kernels/
  const char* arch;
  const char* function;  // part of its mangled name
  std::vector<const char*> instructions;
};

std::vector<Demand> demands() {
  std::vector<Demand> all;
  const auto gemm = [&](const char* file, const char* arch, const char* function,
                        std::vector<const char*> instructions) {
    for (const char* copy : {"UTMALDG.2D", "UBLKCP.S.G", "SYNCS.PHASECHK"})
      instructions.push_back(copy);
    all.push_back({file, arch, function, std::move(instructions)});
  };
  for (const auto& [arch, fp4] :
       {std::pair{"sm_100a", "UTCOMMA.4X"}, {"sm_103a", "UTCOMMA.BLOCK16"}}) {
    // Scales to tensor memory, products, results from there.
    gemm("gemm_cuda_sm100a.cu", arch, "tcgen054gemmILNS0_8MatricesE0E",
         {fp4, "UTCCP.T.S.4x32dp128bit", "LDTM", "STTM", "UTCBAR"});
    gemm("gemm_cuda_sm100a.cu", arch, "tcgen054gemmILNS0_8MatricesE1E",
         {"UTCQMMA", "UTCCP.T.S.4x32dp128bit", "LDTM", "STTM", "UTCBAR"});
  }
  gemm("gemm_cuda_sm120a.cu", "sm_120a", "mma_sync4gemmINS2_5Nvfp4E",
       {"OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X", "LDSM"});
  for (const auto& [types, function] :
       {std::pair{"QMMA.SF.16832.F32.E4M3.E4M3.E8", "Mxfp8ILNS_5DtypeE5ELS5_5E"},
        {"QMMA.SF.16832.F32.E4M3.E5M2.E8", "Mxfp8ILNS_5DtypeE5ELS5_6E"},
        {"QMMA.SF.16832.F32.E5M2.E4M3.E8", "Mxfp8ILNS_5DtypeE6ELS5_5E"},
        {"QMMA.SF.16832.F32.E5M2.E5M2.E8", "Mxfp8ILNS_5DtypeE6ELS5_6E"}})
    gemm("gemm_cuda_sm120a.cu", "sm_120a", function, {types, "LDSM"});
  const std::vector<const char*> conversions = {"F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C",
                                                "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C",
                                                "F2FP.F16.E2M1.UNPACK_B", "F2FP.F16.E4M3.UNPACK_B"};
  for (const char* arch : {"sm_100a", "sm_103a"})
    all.push_back({"quantize_nvfp4_cuda_sm100a.cu", arch, "quantise6blocks", conversions});
  all.push_back({"quantize_nvfp4_cuda_sm120a.cu", "sm_120a", "quantise6blocks", conversions});
  for (const auto& [file, arch] : {std::pair{"kda_chunk_cuda_sm100a.cu", "sm_100a"},
                                   {"kda_chunk_cuda_sm100a.cu", "sm_103a"},
                                   {"kda_chunk_cuda_sm120a.cu", "sm_120a"}})
    all.push_back({file, arch, "3kda6chunks", {"HMMA.16816.F32.BF16"}});
  return all;
}

TEST(Disassembly, BlackwellKernelsHaveTheirInstructions) {
  if (!has_nvcc()) GTEST_SKIP() << "built without CUDA";
  ASSERT_STRNE(test::kCuobjdump, "") << "no cuobjdump: ci/setup fetches it";
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::string>> read;
  for (const Demand& demand : demands()) {
    const std::string file = demand.file;
    const std::string sm = file.substr(file.find("_sm"), file.find(".cu") - file.find("_sm"));
    const std::string object = std::string(test::kBinaryDir) + "/CMakeFiles/kernels_cuda" + sm +
                               ".dir/kernels/" + file + ".o";
    ASSERT_TRUE(std::filesystem::exists(object)) << object;
    auto& functions = read[{file, demand.arch}];
    if (functions.empty()) functions = functions_of(object, demand.arch);
    int found = 0;
    for (const auto& [name, code] : functions) {
      if (name.find(demand.function) == std::string::npos) continue;
      ++found;
      for (const char* instruction : demand.instructions)
        EXPECT_NE(code.find(instruction), std::string::npos)
            << demand.arch << " " << name << " has no " << instruction;
    }
    EXPECT_EQ(found, 1) << demand.function << " in " << object << " for " << demand.arch;
  }
}

}  // namespace
}  // namespace parity
