#include "kernels/mx/frame.hpp"

#include <cstring>
#include <vector>

#include "kernels/quantize/frame.hpp"
#include "kernels/quantize/ranges.hpp"

namespace parity::mx_kernel {
namespace {

constexpr std::int64_t kGrain = 16;  // blocks: a group of the widest lanes

std::int64_t size_of(Dtype dtype) { return dtype == Dtype::BF16 ? 2 : 4; }

Defect defect_of(std::string_view fault) {
  if (fault == "A-QT01") return Defect::SpecialScales;
  if (fault == "P-mx-floor") return Defect::Floor;
  if (fault == "P-cast-overflow") return Defect::Overflow;
  if (fault == "P-half-away") return Defect::HalfAway;
  if (fault == "P-truncate") return Defect::Truncated;
  if (fault == "P-amax-nan") return Defect::DropsNan;
  return Defect::None;
}

}  // namespace

std::string refuses(const Case& c, const Options&) {
  if (const std::string chain = c.options.get("chain", ""); chain != "mx_torchao")
    return "no chain '" + chain + "' in it";
  if (c.options.integer("block", kBlock) != kBlock) return "blocks of 32 only";
  if (c.sizes["K"] % kBlock != 0) return "rows must be multiples of 32";
  return "";
}

Plan plan_of(const Case& c) {
  const std::string mode = c.options.get("mode", "floor");
  return {.elem = parse_dtype(c.options.get("elem", "e4m3")),
          .mode = mode == "ceil"    ? Mode::Ceil
                  : mode == "even"  ? Mode::Even
                  : mode == "rceil" ? Mode::Rceil
                                    : Mode::Floor};
}

void quantise_blocks(const Job& job, const Steps& steps, const Plan& plan, const std::byte* x,
                     std::uint8_t* codes, std::uint8_t* scales) {
  const int threads = useful_threads(job.threads, job.blocks * kBlock);
  in_ranges(threads, job.blocks, kGrain, [&](std::int64_t begin, std::int64_t end) {
    steps.quantise(plan, job.dtype, x + begin * kBlock * size_of(job.dtype), end - begin,
                   codes + begin * code_bytes(plan.elem), scales + begin);
  });
}

void dequantise_blocks(const Job& job, const Steps& steps, const Plan& plan,
                       const std::uint8_t* codes, const std::uint8_t* scales, std::byte* values) {
  const int threads = useful_threads(job.threads, job.blocks * kBlock);
  in_ranges(threads, job.blocks, kGrain, [&](std::int64_t begin, std::int64_t end) {
    steps.dequantise(plan, job.dtype, codes + begin * code_bytes(plan.elem), scales + begin,
                     end - begin, values + begin * kBlock * size_of(job.dtype));
  });
}

void forward(const Launch& launch, const Steps& clean_steps) {
  const Case& c = launch.problem;
  const std::string_view fault = launch.fault;
  Plan plan = plan_of(c);
  plan.defect = defect_of(fault);
  const Steps& steps = plan.defect == Defect::None ? clean_steps : kScalarSteps;
  const std::int64_t rows = c.sizes.get("M", 1);
  const std::int64_t across = c.sizes["K"] / kBlock;
  Job job{.dtype = c.dtype, .blocks = rows * across, .threads = launch.threads};
  auto* codes = launch.out<std::uint8_t>("codes");
  auto* scales = launch.out<std::uint8_t>("scales");
  if (fault == "P-partial-tile") job.blocks -= job.blocks % kGrain;
  quantise_blocks(job, steps, plan, launch.in<std::byte>("x"), codes, scales);
  job.blocks = rows * across;
  if (fault == "P-nibbles" && plan.elem == Dtype::E2M1)
    for (std::int64_t i = 0; i < job.blocks * code_bytes(plan.elem); ++i)
      codes[i] = static_cast<std::uint8_t>(codes[i] << 4 | codes[i] >> 4);
  if (auto* blocked = launch.out<std::uint8_t>("scales_swizzled")) {
    nvfp4::swizzle(scales, rows, across, blocked);
    if (fault == "P-swizzle-skipped")
      std::memcpy(blocked, scales, static_cast<std::size_t>(job.blocks));
  }
  if (auto* values = launch.out<std::byte>("dequant"))
    dequantise_blocks(job, steps, plan, codes, scales, values);
}

std::vector<FaultDef> kernel_faults() {
  return {
      {"A-QT01", "", "e8m0 bytes 0, 254 and 255 expanded and inverted as if they were normal"},
      {"P-mx-floor", "", "scales rounded down where the mode rounds up"},
      {"P-cast-overflow", "", "cast without saturation beyond max"},
      {"P-half-away", "", "ties of a code away from zero"},
      {"P-truncate", "", "codes truncated"},
      {"P-amax-nan", "", "the maximum drops a NaN"},
      {"P-partial-tile", "", "blocks after the last full group are not written"},
      {"P-nibbles", "", "even element in the high nibble"},
      {"P-swizzle-skipped", "", "plain scales where 128x4 is asked for"},
      {.id = "A-RC08",
       .what = "32-bit offsets overflow",
       .unsupported = "needs a tensor of more than 2^31 elements"},
  };
}

}  // namespace parity::mx_kernel
