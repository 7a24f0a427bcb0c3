// quantized_linear.fused: y = x w^T of four-bit weights on CPUs. Weights are quantised once (NVFP4
// of two levels, or int4 groups), packed, and dequantised in registers inside the product
// (linear/gemm.hpp). Backward from the dequantised operands, dense. Sums in f32.
#include <algorithm>
#include <cstring>

#include "harness/numeric/formats.hpp"
#include "harness/registry.hpp"
#include "kernels/integer/matrix.hpp"
#include "kernels/linear/gemm.hpp"
#include "kernels/moe/matrix.hpp"
#include "kernels/quantize/frame.hpp"

namespace parity::linear_kernel {
namespace {

bool missing(std::string_view needs) { return !missing_capability(needs).empty(); }

std::string recipe_of(const Case& c) { return c.options.get("recipe", ""); }
bool is_int4(const Case& c) { return recipe_of(c) == "int4_weight"; }
bool quantises_x(const Case& c) { return recipe_of(c) == "nvfp4_qat"; }

std::string refuses(const Case& c, const Options&) {
  const std::string recipe = recipe_of(c);
  if (recipe != "nvfp4_weight" && recipe != "int4_weight" && recipe != "nvfp4_qat")
    return "no recipe '" + recipe + "' in it";
  if (c.options.get("tp", "none") != "none") return "one rank";
  if (c.options.flag("taps") || c.options.get("out", "").size() > 0) return "no taps, no other out";
  if (c.sizes["K"] % kStep != 0) return "K must be a multiple of 16";
  if (is_int4(c) && c.options.integer("group", 32) % kStep != 0)
    return "groups must be multiples of 16";
  if (is_int4(c) && c.sizes["K"] % c.options.integer("group", 32) != 0)
    return "K must be a multiple of the group";
  return "";
}

const nvfp4::Steps& nvfp4_steps() {
  if (missing("avx512")) return missing("avx2") ? nvfp4::kPlainSteps : nvfp4::kAvx2Steps;
  return nvfp4::kAvx512Steps;
}

// An operand in four bits, with what it takes to multiply by it.
struct Packed {
  std::vector<std::uint8_t> codes = {};
  std::vector<std::uint8_t> bytes = {};
  std::vector<float> scales = {};
  float factor = 1;  // scale of the tensor
  Weights view = {};
};

Case as_two_level(Dtype dtype) {
  Case c;
  c.dtype = dtype;
  c.options.set("chain", "nvfp4_torchao_b2");
  return c;
}

void pack_nvfp4(const Launch& launch, const std::byte* x, std::int64_t rows, Packed& p) {
  const Case& c = launch.problem;
  const std::int64_t K = c.sizes["K"];
  p.codes.resize(static_cast<std::size_t>(rows * K / 2));
  p.bytes.resize(static_cast<std::size_t>(rows * K / kStep));
  const nvfp4::MatrixJob job{
      .dtype = c.dtype, .x = x, .rows = rows, .columns = K, .threads = launch.threads};
  const nvfp4::Plan plan =
      nvfp4::plan_of(as_two_level(c.dtype), nvfp4::amax_of(job, nvfp4_steps()));
  nvfp4::quantise_matrix(job, nvfp4_steps(), plan, {p.codes.data(), p.bytes.data(), nullptr});
  p.factor = plan.decode;
  p.view = {
      .N = rows, .K = K, .codes = p.codes.data(), .bytes = p.bytes.data(), .table = kE2m1Values};
}

void pack_int4(const Launch& launch, Packed& p) {
  const Case& c = launch.problem;
  const std::int64_t N = c.sizes["N"], K = c.sizes["K"], group = c.options.integer("group", 32);
  p.codes.resize(static_cast<std::size_t>(N * K / 2));
  p.scales.resize(static_cast<std::size_t>(N * K / group));
  std::vector<std::byte> scales(p.scales.size() * 4);
  integer_kernel::quantise_matrix(
      {.dtype = c.dtype,
       .scale_dtype = c.dtype,
       .qmin = -8,
       .qmax = 7,
       .x = launch.in<std::byte>("params/weight"),
       .rows = N,
       .columns = K,
       .group = group,
       .threads = launch.threads},
      missing("avx2") ? integer_kernel::kPlainSteps : integer_kernel::kAvx2Steps,
      {.packed = p.codes.data(), .scales = scales.data()});
  for (std::size_t i = 0; i < p.scales.size(); ++i) {
    if (c.dtype == Dtype::BF16) {
      std::uint16_t half = 0;
      std::memcpy(&half, scales.data() + 2 * i, 2);
      p.scales[i] = float_from_bf16(half);
    } else {
      std::memcpy(&p.scales[i], scales.data() + 4 * i, 4);
    }
  }
  p.view = {.N = N,
            .K = K,
            .group = group,
            .codes = p.codes.data(),
            .scales = p.scales.data(),
            .table = kInt4Values};
}

Packed packed_weights(const Launch& launch) {
  Packed p;
  if (is_int4(launch.problem))
    pack_int4(launch, p);
  else
    pack_nvfp4(launch, launch.in<std::byte>("params/weight"), launch.problem.sizes["N"], p);
  const std::string_view fault = launch.fault;
  if (fault == "P-lin-nibbles")
    for (std::uint8_t& b : p.codes) b = static_cast<std::uint8_t>(b << 4 | b >> 4);
  if (fault == "P-lin-scales") {
    std::rotate(p.bytes.begin(), p.bytes.begin() + (p.bytes.empty() ? 0 : 1), p.bytes.end());
    std::rotate(p.scales.begin(), p.scales.begin() + (p.scales.empty() ? 0 : 1), p.scales.end());
  }
  if (fault == "P-lin-unsigned") p.view.table = kE2m1Values;
  return p;
}

// Values without the factor; `rounded`: times the factor, rounded to the case's format.
moe_kernel::Matrix dequantised(const Packed& p, Dtype rounded_to, bool rounded) {
  const Weights& w = p.view;
  moe_kernel::Matrix m(w.N, w.K);
  for (std::int64_t n = 0; n < w.N; ++n)
    for (std::int64_t k = 0; k < w.K; ++k) {
      const std::uint8_t byte = w.codes[n * (w.K / 2) + k / 2];
      const std::int64_t group = n * (w.K / w.group) + k / w.group;
      const float code = w.table[k % 2 == 0 ? byte & 15 : byte >> 4];
      const float scale = w.bytes != nullptr ? float_from_e4m3(w.bytes[group]) : w.scales[group];
      if (!rounded) {
        m.row(n)[k] = code * scale;
        continue;
      }
      const float value = code * (p.factor * scale);  // the order of torchao's dequantisation
      m.row(n)[k] = rounded_to == Dtype::BF16 ? float_from_bf16(bf16_from_float(value)) : value;
    }
  return m;
}

// Rows of x as the product reads them: dense f32.
std::vector<float> rows_of(const Launch& launch, const Packed* quantised) {
  const std::int64_t M = launch.problem.sizes["M"], K = launch.problem.sizes["K"];
  std::vector<float> x(static_cast<std::size_t>(M * K));
  const moe_kernel::Matrix m =
      quantised == nullptr ? moe_kernel::load(launch.problem.dtype, launch.in<std::byte>("x"), M, K)
                           : dequantised(*quantised, Dtype::F32, false);
  for (std::int64_t r = 0; r < M; ++r)
    std::memcpy(x.data() + r * K, m.row(r), static_cast<std::size_t>(K) * 4);
  return x;
}

void forward(const Launch& launch) {
  const Case& c = launch.problem;
  const std::int64_t M = c.sizes["M"], N = c.sizes["N"];
  const Packed w = packed_weights(launch);
  Packed qx;
  if (quantises_x(c)) pack_nvfp4(launch, launch.in<std::byte>("x"), M, qx);
  const std::vector<float> x = rows_of(launch, quantises_x(c) ? &qx : nullptr);
  moe_kernel::Matrix y(M, N);
  Weights view = w.view;
  if (launch.fault == "P-lin-last-columns") view.N -= 1;  // a partial tile is never computed
  multiply(best_steps(), launch.threads, {.x = x.data(), .M = M, .y = y.row(0), .ldy = y.ld}, view);
  const auto R = [&](float v) {
    return c.dtype == Dtype::BF16 ? float_from_bf16(bf16_from_float(v)) : v;
  };
  const float factor = launch.fault == "P-lin-factor" ? 1 : w.factor * qx.factor;
  const bool last = quantises_x(c);
  std::vector<float> bias(static_cast<std::size_t>(N));
  if (const auto* b = launch.in<std::byte>("params/bias")) {
    const moe_kernel::Matrix loaded = moe_kernel::load(c.dtype, b, 1, N);
    std::copy(loaded.row(0), loaded.row(0) + N, bias.begin());
  }
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      float& v = y.row(m)[n];
      v = last ? R(R(v) * R(factor)) : R(v * factor);
      if (c.options.flag("bias")) v = v + bias[static_cast<std::size_t>(n)];
    }
  moe_kernel::store(y, c.dtype, launch.out<std::byte>("y"));
}

void backward(const Launch& launch) {
  const Case& c = launch.problem;
  const std::int64_t M = c.sizes["M"], N = c.sizes["N"], K = c.sizes["K"];
  const bool qat = quantises_x(c);
  const Packed w = packed_weights(launch);
  const moe_kernel::Matrix dy =
      moe_kernel::load(c.dtype, launch.in<std::byte>("cotangents/y"), M, N);
  moe_kernel::Matrix dx = moe_kernel::times(launch.threads, dy, dequantised(w, c.dtype, qat));
  if (!qat)
    for (float& v : dx.data) v *= w.factor;
  moe_kernel::store(dx, c.dtype, launch.out<std::byte>("grads/x"));
  Packed qx;
  if (qat) pack_nvfp4(launch, launch.in<std::byte>("x"), M, qx);
  const bool plain = !qat || launch.fault == "P-lin-wgrad-source";
  const moe_kernel::Matrix x = plain ? moe_kernel::load(c.dtype, launch.in<std::byte>("x"), M, K)
                                     : dequantised(qx, c.dtype, true);
  moe_kernel::transposed_times(launch.threads, dy, x, 0, M, c.dtype,
                               launch.out<std::byte>("grads/params/weight"));
  if (auto* to = launch.out<std::byte>("grads/params/bias")) {
    moe_kernel::Matrix sums(1, N);
    if (launch.fault != "P-lin-bias-gradient")
      for (std::int64_t m = 0; m < M; ++m)
        for (std::int64_t n = 0; n < N; ++n) sums.row(0)[n] += dy.row(m)[n];
    moe_kernel::store(sums, c.dtype, to);
  }
}

const Register kernel{KernelDef{
    .op = "quantized_linear",
    .name = "quantized_linear.fused",
    .what = "four-bit weights dequantised in registers; f32 sums over K in lanes, ascending",
    .contract = {.name = "f32_sum", .dtypes = {Dtype::F32, Dtype::BF16}, .invariant = {"threads"}},
    .refuses = refuses,
    .forward = forward,
    .backward = backward,
    .faults = {{"P-lin-nibbles", "", "even element in the high nibble"},
               {"P-lin-scales", "", "scales of the group beside it"},
               {"P-lin-factor", "", "scale of the tensor left out"},
               {"P-lin-unsigned", "", "int4 nibbles read as e2m1"},
               {"P-lin-last-columns", "", "the last column of w is never multiplied"},
               {"P-lin-wgrad-source", "", "dw from x in place of its stored form (torchao #3478)"},
               {"P-lin-bias-gradient", "", "no gradient for the bias"}},
}};

}  // namespace
}  // namespace parity::linear_kernel
