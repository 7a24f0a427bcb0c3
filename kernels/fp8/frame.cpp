#include "kernels/fp8/frame.hpp"

#include <algorithm>

namespace parity::fp8_kernel {
namespace {

bool blockwise(const Case& c) { return c.options.get("chain", "") == "fp8_torchao_blockwise"; }
std::string granularity(const Case& c) { return c.options.get("granularity", "tensor"); }

Defect defect_of(std::string_view fault) {
  if (fault == "P-half-away") return Defect::HalfAway;
  if (fault == "P-fp8-dequant") return Defect::Multiplied;
  if (fault == "P-amax-nan") return Defect::DropsNan;
  return Defect::None;
}

Job job_of(const Launch& launch) {
  const Case& c = launch.problem;
  Job job{.dtype = c.dtype,
          .rows = c.sizes.get("M", 1),
          .columns = c.sizes["K"],
          .threads = launch.threads};
  if (blockwise(c)) {
    const std::string function = c.options.get("function", "lhs");
    const std::int64_t block = c.options.integer("block", 128);
    job.tile_rows = function == "lhs" ? 1 : block;
    job.tile_columns = function == "rhs" ? 1 : block;
    return job;
  }
  job.tile_rows = granularity(c) == "row" ? 1 : job.rows;
  job.tile_columns = granularity(c) == "column" ? 1 : job.columns;
  return job;
}

Rule rule_of(const Launch& launch) {
  const Case& c = launch.problem;
  Rule rule{.pow2 = c.options.flag("pow2")};
  if (c.options.get("elem", "e4m3") == "e5m2") rule.max = 57344;
  if (blockwise(c) && c.options.get("function", "lhs") == "rhs")
    rule.least = round_to(c.dtype, rule.least);
  if (launch.fault == "P-zero-guard") rule.least = 0;
  if (launch.fault == "P-fp8-max") rule.max = 448;
  return rule;
}

}  // namespace

std::string refuses(const Case& c, const Options&) {
  const std::string chain = c.options.get("chain", "");
  if (chain != "fp8_torchao" && !blockwise(c)) return "no chain '" + chain + "' in it";
  if (c.sizes.find("M") == nullptr) return "takes matrices";
  return "";
}

void forward(const Launch& launch, const Steps& clean_steps) {
  const Case& c = launch.problem;
  Plan plan{.elem = c.options.get("elem", "e4m3") == "e5m2" ? Dtype::E5M2 : Dtype::E4M3,
            .defect = defect_of(launch.fault)};
  const Steps& steps = plan.defect == Defect::None ? clean_steps : kScalarSteps;
  const Job job = job_of(launch);
  const std::int64_t count = job.down() * job.across();
  std::vector<float> own(static_cast<std::size_t>(count));
  auto* codes = launch.out<std::uint8_t>("codes");
  Job reduced = job;
  if (launch.fault == "P-partial-tile") reduced.rows -= reduced.rows > 1 ? 1 : 0;
  quantise_matrix(reduced, steps, plan, rule_of(launch), launch.in<std::byte>("x"), own.data(),
                  codes);
  if (auto* scale = launch.out<float>("scale")) std::copy(own.begin(), own.end(), scale);
  if (auto* inverse = launch.out<float>("inverse_scale"))
    std::transform(own.begin(), own.end(), inverse, [](float s) { return 1 / s; });
  if (auto* values = launch.out<std::byte>("dequant"))
    dequantise_matrix(job, steps, plan, granularity(c) == "tensor" ? c.dtype : Dtype::F32,
                      own.data(), codes, values);
}

std::vector<FaultDef> kernel_faults() {
  return {
      {"P-zero-guard", "", "amax 0 not guarded: an infinite scale, NaN codes"},
      {"P-fp8-max", "", "the largest e4m3 in place of the largest e5m2"},
      {"P-fp8-dequant", "", "dequantised by the reciprocal where the chain divides"},
      {"P-half-away", "", "ties of a code away from zero"},
      {"P-amax-nan", "", "the maximum drops a NaN"},
      {"P-partial-tile", "", "the last row is not written"},
      {.id = "A-RC08",
       .what = "32-bit offsets overflow",
       .unsupported = "needs a tensor of more than 2^31 elements"},
  };
}

}  // namespace parity::fp8_kernel
