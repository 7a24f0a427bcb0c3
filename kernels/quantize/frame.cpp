#include "kernels/quantize/frame.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace parity::nvfp4 {
namespace {

std::string chain_of(const Case& c) { return c.options.get("chain", ""); }
bool one_level(const Case& c) { return chain_of(c) == "nvfp4_torchao_b1"; }
bool chain_a(const Case& c) { return chain_of(c) == "nvfp4_te" || chain_of(c) == "nvfp4_ao_te"; }
bool choice(const Case& c) { return chain_of(c) == "nvfp4_te_4over6"; }
bool transpose_padded(const Case& c) { return chain_of(c) == "nvfp4_te" || choice(c); }
std::int64_t rows_of(const Case& c) { return c.sizes.get("M", 1); }
std::int64_t columns_of(const Case& c) { return c.sizes["K"]; }

Defect defect_of(std::string_view fault) {
  if (fault == "A-QT05") return Defect::ExactScale;
  if (fault == "A-QT08") return Defect::ReciprocalOrder;
  if (fault == "P-half-away") return Defect::HalfAway;
  if (fault == "P-truncate") return Defect::Truncated;
  if (fault == "P-scale-up") return Defect::ScaleUp;
  if (fault == "P-amax-nan") return Defect::DropsNan;
  return Defect::None;
}

// 4 scales of a row, neighbours in the layout, at a time.
std::int64_t offset(std::int64_t row, std::int64_t four, std::int64_t fours) {
  return (row / 128 * fours + four) * 512 + row % 32 * 16 + row % 128 / 32 * 4;
}

void faulty_swizzle(const std::uint8_t* scales, std::int64_t rows, std::int64_t blocks,
                    std::uint8_t* to, std::string_view fault) {
  const std::int64_t fours = (blocks + 3) / 4;
  const std::int64_t padded = (rows + 127) / 128 * 128;
  const std::int64_t bytes = padded * fours * 4;
  if (fault != "P-padding") std::memset(to, 0, static_cast<std::size_t>(bytes));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < blocks; ++c) {
      std::int64_t at = offset(r, c / 4, fours) + c % 4;
      if (fault == "P-swizzle-transposed") at += c % 4 * 4 + r % 128 / 32 - at % 16;
      if (fault == "P-swizzle-skipped") at = r * fours * 4 + c;
      if (fault == "P-swizzle-8x4" && rows <= 32)
        at = (r / 8 * fours + c / 4) * 32 + r % 8 * 4 + c % 4;
      to[at] = scales[r * blocks + c];
    }
  }
  if (fault == "P-swizzled-twice") {
    const std::vector<std::uint8_t> once(to, to + bytes);
    swizzle(once.data(), padded, fours * 4, to);
  }
}

}  // namespace

std::string refuses(const Case& c, const Options&) {
  const std::string chain = chain_of(c);
  if (!chain_a(c) && !one_level(c) && chain != "nvfp4_torchao_b2" && !choice(c))
    return "no chain '" + chain + "' in it";
  if (c.options.flag("pow2")) return "no power-of-two scales";
  if (c.options.flag("sr")) return "rounds to nearest even only";
  if (c.options.flag("trace")) return "no steps apart";
  if (c.sizes.find("M") == nullptr) return "takes matrices";
  if (!c.sizes.find("M")->parts.empty()) return "no groups of rows";
  if (c.options.flag("rht") && c.dtype != Dtype::BF16) return "transforms bf16 only";
  const std::int64_t tile = c.options.integer("tile", 1);
  if (tile != 1 && tile != kBlock) return "tiles are 1x16 or 16x16";
  if (chain == "nvfp4_ao_te" && rows_of(c) % tile != 0) return "rows must be multiples of the tile";
  const bool ragged_rows = rows_of(c) % kBlock != 0;
  if (c.options.flag("rht") && ragged_rows) return "the transform takes multiples of 16 rows";
  if (c.options.flag("transpose") && ragged_rows && !transpose_padded(c))
    return "x^T must have rows of multiples of 16";
  const std::int64_t multiple = transpose_padded(c) ? 2 : kBlock;
  if (columns_of(c) % multiple != 0) return "rows must be multiples of " + std::to_string(multiple);
  if (c.options.flag("row_scaled") && (tile > 1 || c.options.flag("dequant") ||
                                       c.options.flag("dequant_f32") || c.options.flag("ste")))
    return "an amax a row: codes and scales only";
  if (c.options.flag("transpose") && rows_of(c) % 2 != 0)
    return "a transposed copy needs an even M";
  return "";
}

std::size_t workspace(const Case& c, const Options&, Direction direction) {
  if (direction == Direction::Backward) return 0;
  if (!c.options.flag("transpose") && !c.options.flag("rht")) return 0;
  return bytes_for(c.dtype, rows_of(c) * columns_of(c));
}

float encode_scale(float amax, float bound) {
  const float s = bound / amax;
  if (amax == 0 || s == 0) return 1;
  return s > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : s;
}

Plan plan_of(const Case& c, float amax) {
  Plan plan;
  plan.positive_zero = chain_of(c) == "nvfp4_te" || choice(c);
  plan.amax = amax;
  if (chain_a(c)) {
    const float encode = encode_scale(amax, 2688);
    plan.mult = encode * (1.0F / 6.0F);
    plan.decode = 1 / encode;
  } else if (choice(c)) {
    plan.order = Order::Choice;
    plan.bound = 6 * static_cast<float>(c.options.integer("e4m3_max", 256));
    plan.mult = encode_scale(amax, plan.bound);
    plan.decode = 1 / plan.mult;
    plan.square = c.options.get("err", "mae") == "mse";
    plan.fast_error = c.options.flag("fast_err");
  } else {
    plan.order = Order::Decode;
    plan.decode = one_level(c) ? 1 : amax / 2688.0F;
    plan.inverse = 1 / plan.decode;
  }
  return plan;
}

void swizzle(const std::uint8_t* scales, std::int64_t rows, std::int64_t blocks, std::uint8_t* to) {
  const std::int64_t fours = (blocks + 3) / 4;
  std::memset(to, 0, static_cast<std::size_t>((rows + 127) / 128 * 128 * fours * 4));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t f = 0; f < fours; ++f)
      std::memcpy(to + offset(r, f, fours), scales + r * blocks + 4 * f,
                  static_cast<std::size_t>(std::min<std::int64_t>(4, blocks - 4 * f)));
}

namespace {

// One copy, rows of x or of x^T: its amaxes, one or one a row.
struct Copy {
  MatrixJob job = {};
  MatrixResult result = {};
  float* amax = nullptr;  // or null
  std::uint8_t* swizzled = nullptr;
};

Plan faulty(Plan plan, std::string_view fault) {
  plan.defect = defect_of(fault);
  if (fault == "A-QT10") {  // the divisor is taken as the multiplier
    plan.decode = 1 / plan.decode;
    plan.inverse = 1 / plan.inverse;
    plan.mult = 1 / plan.mult;
  }
  return plan;
}

void quantise_whole(const Case& c, const Steps& steps, const Copy& copy, const Plan& plan) {
  const std::int64_t tile = copy.job.fault == "P-tile-row" ? 1 : c.options.integer("tile", 1);
  if (tile > 1 || plan.order == Order::Choice)
    quantise_bands(copy.job, steps, plan, tile, copy.result);
  else
    quantise_matrix(copy.job, steps, plan, copy.result);
}

// Quantises and returns the amax that went into the tensor scale (of the last row, where each has
// its own).
float quantise_copy(const Case& c, const Steps& steps, const Copy& copy) {
  const auto factor = static_cast<float>(c.options.real("amax_factor", 1));
  float amax = 0;
  if (!c.options.flag("row_scaled")) {
    if (!one_level(c)) amax = amax_of(copy.job, steps) * factor;
    if (copy.amax != nullptr) *copy.amax = amax;
    quantise_whole(c, steps, copy, faulty(plan_of(c, amax), copy.job.fault));
    return amax;
  }
  const std::int64_t blocks = (copy.job.columns + kBlock - 1) / kBlock;
  const std::int64_t size = copy.job.dtype == Dtype::BF16 ? 2 : 4;
  for (std::int64_t r = 0; r < copy.job.rows; ++r) {
    Copy row = copy;
    row.job.rows = 1;
    row.job.x += r * copy.job.columns * size;
    row.result.codes += r * copy.job.columns / 2;
    row.result.scales += r * blocks;
    amax = amax_of(row.job, steps) * factor;
    if (copy.amax != nullptr) copy.amax[r] = amax;
    quantise_whole(c, steps, row, faulty(plan_of(c, amax), copy.job.fault));
  }
  return amax;
}

void store_swizzled(const MatrixJob& job, std::int64_t tile, const std::uint8_t* scales,
                    std::uint8_t* blocked) {
  if (blocked == nullptr) return;
  const std::int64_t blocks = (job.columns + kBlock - 1) / kBlock;
  const std::int64_t rows = (job.rows + tile - 1) / tile * tile;
  if (job.fault.starts_with("P-swizzle") || job.fault == "P-padding")
    faulty_swizzle(scales, rows, blocks, blocked, job.fault);
  else
    swizzle(scales, rows, blocks, blocked);
}

void forward_transposed(const Launch& launch, const Steps& steps, const MatrixJob& job) {
  const Case& c = launch.problem;
  auto* codes = launch.out<std::uint8_t>("codes_t");
  if (codes == nullptr) return;
  const float* signs = launch.in<float>("signs");
  transpose(job, steps, signs, launch.workspace.data());
  Copy copy{.job = job,
            .result = {.codes = codes,
                       .scales = launch.out<std::uint8_t>("scales_t"),
                       .encode = launch.out<float>("encode_scale_t")},
            .amax = launch.out<float>("amax_col")};
  copy.job.x = launch.workspace.data();
  std::swap(copy.job.rows, copy.job.columns);
  if (auto* t = launch.out<std::byte>("rht_t"))
    std::memcpy(t, copy.job.x, bytes_for(c.dtype, job.rows * job.columns));
  quantise_copy(c, steps, copy);
  store_swizzled(copy.job, c.options.integer("tile", 1), copy.result.scales,
                 launch.out<std::uint8_t>("scales_swizzled_t"));
}

}  // namespace

void forward(const Launch& launch, const Steps& clean_steps) {
  const Case& c = launch.problem;
  const std::string_view fault = launch.fault;
  const Steps& steps = defect_of(fault) == Defect::None ? clean_steps : kScalarSteps;
  const MatrixJob job{.dtype = c.dtype,
                      .x = launch.in<std::byte>("x"),
                      .rows = rows_of(c),
                      .columns = columns_of(c),
                      .threads = launch.threads,
                      .fault = fault};
  const MatrixResult result{.codes = launch.out<std::uint8_t>("codes"),
                            .scales = launch.out<std::uint8_t>("scales"),
                            .encode = launch.out<float>("encode_scale")};
  const bool by_row = c.options.flag("row_scaled");
  const float amax = quantise_copy(
      c, steps, {.job = job, .result = result, .amax = launch.out<float>("amax_row")});
  if (float* to = launch.out<float>("amax")) *to = amax;
  if (float* to = launch.out<float>("amax_col"); to != nullptr) {
    if (launch.out<std::uint8_t>("codes_t") != nullptr)
      forward_transposed(launch, steps, job);
    else
      std::memcpy(to, launch.out<float>("amax_row"),
                  static_cast<std::size_t>(by_row ? job.rows : 1) * sizeof(float));
  } else {
    forward_transposed(launch, steps, job);
  }
  const std::int64_t blocks = (job.columns + kBlock - 1) / kBlock;
  if (fault == "A-QT07" && job.rows >= 384 && job.rows / 128 % 3 == 0)
    std::memset(result.scales, 0, static_cast<std::size_t>(job.rows * blocks));
  if (fault == "P-nibbles")
    for (std::int64_t i = 0; i < job.rows * job.columns / 2; ++i)
      result.codes[i] = static_cast<std::uint8_t>(result.codes[i] << 4 | result.codes[i] >> 4);
  store_swizzled(job, c.options.integer("tile", 1), result.scales,
                 launch.out<std::uint8_t>("scales_swizzled"));
  const Plan plan = faulty(plan_of(c, amax), fault);
  if (auto* values = launch.out<std::byte>("dequant"))
    dequantise_matrix(job, steps, plan, result, values);
  if (auto* values = launch.out<std::byte>("dequant_f32")) {
    MatrixJob wide = job;
    wide.dtype = Dtype::F32;
    dequantise_matrix(wide, steps, plan, result, values);
  }
  if (float* to = launch.out<float>("tensor_scale"))
    *to = chain_a(c) ? encode_scale(amax, 2688) : plan.decode;
}

// Straight through: clamped elements and elements of zero blocks too.
void backward(const Launch& launch) {
  const Case& c = launch.problem;
  const std::size_t bytes = bytes_for(c.dtype, rows_of(c) * columns_of(c));
  std::byte* gradient = launch.out<std::byte>("grads/x");
  if (gradient == nullptr) return;
  std::memcpy(gradient, launch.in<std::byte>("cotangents/dequant"), bytes);
  if (launch.fault == "P-ste-zero") {
    const auto* x = launch.in<std::byte>("x");
    const std::size_t size = bytes_for(c.dtype, 1);
    for (std::size_t i = 0; i < bytes; i += size)
      if (std::all_of(x + i, x + i + size, [](std::byte b) { return b == std::byte{0}; }))
        std::memset(gradient + i, 0, size);
  }
}

std::vector<FaultDef> kernel_faults() {
  return {
      {"A-QT05", "", "encode factor from the exact block scale, stored beside its e4m3 rounding"},
      {"A-QT06", "", "lanes past the row's end keep what the registers held"},
      {"A-QT07", "", "scales all zero for certain row counts (384, 768, ...)"},
      {"A-QT08", "", "the two divisions of the encode factor in the other order"},
      {"A-QT10", "", "the tensor scale multiplied where it is a divisor"},
      {"P-swizzled-twice", "", "scales permuted to 128x4 twice"},
      {"P-swizzle-transposed", "", "row and column swapped inside the 4x4 of the layout"},
      {"P-swizzle-skipped", "", "plain scales where 128x4 is asked for (vLLM #50084)"},
      {"P-swizzle-8x4", "", "the 8x4 layout for M <= 32 (vLLM #37563)"},
      {"P-padding", "", "padding of the scales never written (vLLM #45741)"},
      {"P-nibbles", "", "even element in the high nibble (sglang #23625)"},
      {"P-partial-tile", "", "blocks after the last full group are not written"},
      {"P-amax-tail", "", "the last partial tile does not enter the tensor's amax"},
      {"P-amax-nan", "", "the maximum drops a NaN"},
      {"P-half-away", "", "ties of a code away from zero"},
      {"P-truncate", "", "codes truncated"},
      {"P-scale-up", "", "scales rounded up"},
      {"P-ste-zero", "", "no gradient where x is zero"},
      {"P-tile-row", "", "a scale a row where a tile of 16 rows shares it"},
      {.id = "A-QT03",
       .what = "stochastic rounding returns zeros",
       .unsupported = "rounds to nearest even only"},
      {.id = "A-QT04",
       .what = "two stochastic copies share a stream",
       .unsupported = "rounds to nearest even only"},
      {.id = "A-RC08",
       .what = "32-bit offsets overflow",
       .unsupported = "needs a tensor of more than 2^31 elements"},
  };
}

}  // namespace parity::nvfp4
