// quantize.int_*: integers by groups of a row on CPUs, bit for bit the chains int_affine and
// int8_rowwise. One pass over a row that stays in the cache: extremes of the group, scale, codes,
// int4 pairs, values. Threads take rows.
#include "kernels/integer/matrix.hpp"
#include "kernels/quantize/instruction_sets.hpp"

namespace parity::integer_kernel {
namespace {

std::string chain_of(const Case& c) { return c.options.get("chain", ""); }

// Columns of a group by the option block=RxC; 0 where its rows are not single ones.
std::int64_t group_of(const Case& c) {
  const std::string block = c.options.get("block", "1x0");
  if (!block.starts_with("1x")) return 0;
  const std::int64_t columns = std::atoll(block.c_str() + 2);
  return columns == 0 ? c.sizes["K"] : columns;
}

std::string refuses(const Case& c, const Options&) {
  if (c.sizes.find("M") == nullptr) return "takes matrices";
  if (chain_of(c) == "int8_rowwise") return "";
  if (chain_of(c) != "int_affine") return "no chain '" + chain_of(c) + "' in it";
  if (c.options.get("codes", "i8") != "i8") return "codes are int8";
  if (c.options.integer("qmin", -128) >= 0) return "signed integers only";
  const std::int64_t group = group_of(c);
  if (group <= 0 || c.sizes["K"] % group != 0) return "groups lie within a row";
  return "";
}

MatrixJob job_of(const Launch& launch) {
  const Case& c = launch.problem;
  MatrixJob job{.dtype = c.dtype,
                .scale_dtype = c.dtype,
                .x = launch.in<std::byte>("x"),
                .rows = c.sizes["M"],
                .columns = c.sizes["K"],
                .group = c.sizes["K"],
                .threads = launch.threads,
                .fault = launch.fault};
  if (chain_of(c) == "int8_rowwise") {
    job.mapping = Mapping::Rows;
    return job;
  }
  const std::string mapping = c.options.get("mapping", "symmetric");
  job.mapping = mapping == "asymmetric"    ? Mapping::Asymmetric
                : mapping == "no_clipping" ? Mapping::NoClipping
                                           : Mapping::Symmetric;
  job.scale_dtype = parse_dtype(c.options.get("scale", std::string(name(c.dtype))));
  job.qmin = static_cast<float>(c.options.integer("qmin", -128));
  job.qmax = static_cast<float>(c.options.integer("qmax", 127));
  job.eps = static_cast<float>(c.options.real("eps", 0x1p-126));
  job.group = group_of(c);
  return job;
}

void forward(const Launch& launch, const Steps& steps) {
  quantise_matrix(job_of(launch), steps,
                  {.codes = launch.out<std::int8_t>("codes"),
                   .packed = launch.out<std::uint8_t>("packed"),
                   .scales = launch.out<std::byte>("scale"),
                   .zeros = launch.out<std::int32_t>("zero_point"),
                   .values = launch.out<std::byte>("dequant")});
}

template <const Steps& kSteps>
void by(const Launch& launch) {
  forward(launch, kSteps);
}

const KernelDef kPlain{
    .op = "quantize",
    .name = "quantize.int_plain",
    .what = "integer groups, 4 lanes, any x86-64",
    .contract = exact_chain(),
    .refuses = refuses,
    .forward = by<kPlainSteps>,
    .faults = matrix_faults(),
};

const Register plain{kPlain};
const Register avx2{
    wider(kPlain, "quantize.int_avx2", "integer groups, 8 lanes", "avx2", by<kAvx2Steps>)};
const Register avx512{
    wider(kPlain, "quantize.int_avx512", "integer groups, 16 lanes", "avx512", by<kAvx512Steps>)};

}  // namespace
}  // namespace parity::integer_kernel
