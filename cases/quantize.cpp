// Cases of quantize: every chain, on inputs at which a wrong order of operations, a wrong rounding
// or a wrong layout shows.
//
// A tensor amax of 2688 makes the tensor scale 1 in every chain, so that block scales and ties can
// be placed exactly: a block amax of 6 s has the scale s, and x = s t lies on the threshold t of
// e2m1.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr double kFull = 2688;  // 448 * 6

std::uint64_t index_of(const RowDraw& d, std::size_t i) {
  return static_cast<std::uint64_t>(d.first) + i;
}

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

// Cotangents are plain noise whatever the fill does to x.
bool is_cotangent(const RowDraw& d, std::span<double> out) {
  if (d.spec.role != Role::Cotangent) return false;
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  return true;
}

void normal(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
}

// Normal values times 2^k, k normal with deviation 3 and clipped at +-9.
void heavy_tail(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  const Rng exponents = d.rng.split(1);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] *=
        power_of_two(static_cast<int>(std::clamp(exponents.normal(index_of(d, i)) * 3, -9.0, 9.0)));
}

// f32 or bf16 spacing, so that "one ulp beside" survives the rounding to storage.
double ulp(const RowDraw& d) { return d.spec.dtype == Dtype::BF16 ? 0x1p-7 : 0x1p-23; }

// Block b of row r, counted over the tensor.
std::int64_t block_of(const RowDraw& d, std::size_t i) {
  return (d.first + static_cast<std::int64_t>(i)) / kBlock;
}

constexpr std::array<double, 7> kThresholds = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};

// Thresholds of e2m1 under power-of-two scales; `beside`: one ulp to either side of them.
void thresholds(const RowDraw& d, std::span<double> out, bool beside) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i);
    const double scale = power_of_two(static_cast<int>(block % 13) - 5);
    const auto at = static_cast<std::size_t>(d.first) + i;
    double t = kThresholds[(at + static_cast<std::size_t>(block)) % 7];
    if (beside) t *= at % 2 == 0 ? 1 + ulp(d) : 1 - ulp(d) / 2;
    if (static_cast<std::int64_t>(at) % kBlock == block % kBlock) t = 6;
    out[i] = (at / 3 % 2 == 0 ? t : -t) * scale;
  }
  if (d.row == 0) out[0] = kFull;
}
void ties(const RowDraw& d, std::span<double> out) {
  if (!is_cotangent(d, out)) thresholds(d, out, false);
}
void beside_ties(const RowDraw& d, std::span<double> out) {
  if (!is_cotangent(d, out)) thresholds(d, out, true);
}

// Block scales midway between two e4m3 numbers, normal and subnormal, and an ulp beside; noise
// below the amax.
void scale_ties(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i);
    const std::int64_t odd = 2 * (block % 8) + 1;  // in sixteenths
    const int exponent = static_cast<int>(block % 17) - 9;
    double scale = (1 + static_cast<double>(odd) / 16) * power_of_two(exponent);
    if (exponent < -6) scale = static_cast<double>(odd) * 0x1p-10;
    if (block % 3 == 1) scale *= 1 + ulp(d);
    if (block % 3 == 2) scale *= 1 - ulp(d) / 2;
    const std::int64_t place = (d.first + static_cast<std::int64_t>(i)) % kBlock;
    out[i] = place == block % kBlock ? (block % 2 == 0 ? -6 : 6) * scale
                                     : std::clamp(out[i], -3.0, 3.0) * 1.5 * scale;
  }
  if (d.row == 0) out[0] = kFull;
}

// Blocks from 2^-3 to 2^-20 of the tensor's amax: e4m3 subnormals, and scales that underflow beside
// non-zero elements.
void tiny_blocks(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] *= kFull / 4 * power_of_two(-3 - static_cast<int>(block_of(d, i) % 18));
  if (d.row == 0) out[0] = -kFull;
}

void zero_blocks(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (block_of(d, i) % 3 == 1) out[i] = 0;
}

void negative(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x = -std::abs(x);
}

// -0, and negative values that round to zero.
void negative_zeros(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % 4 == 1) out[i] = -0.0;
    if (i % 4 == 2) out[i] = -std::abs(out[i]) * 0x1p-8;
  }
}

// One huge element; everything else lies far below it.
void outlier(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 0x1p-6;
  if (d.row == d.problem.sizes.get("M", 1) - 1) out[out.size() / 2] = -3000;
}

// Signs alternate and sizes fall, so that no permutation inside a block leaves it as it was.
void alternating(const RowDraw& d, std::span<double> out) {
  if (is_cotangent(d, out)) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = (static_cast<std::size_t>(d.first) + i) % 61;
    out[i] = (i % 2 == 0 ? 1.0 : -1.0) * (0.1 + static_cast<double>(at) * 0.1);
  }
}

// Beyond every scale of one level: 448 saturates, and so do the codes.
void beyond(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 8192;
}

void one_nan(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role != Role::Cotangent && d.row == d.problem.sizes.get("M", 1) / 2)
    out[out.size() / 2] = std::numeric_limits<double>::quiet_NaN();
}

void one_inf(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role != Role::Cotangent && d.row == 0)
    out[out.size() / 2] = -std::numeric_limits<double>::infinity();
}

void zeros(const RowDraw& d, std::span<double> out) {
  if (!is_cotangent(d, out)) std::fill(out.begin(), out.end(), 0.0);
}

// Smallest f32 numbers, subnormals among them: the reciprocal of the tensor scale overflows.
void least(const RowDraw& d, std::span<double> out) {
  normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 0x1p-128;
}

// (tensor amax, block amax, x) at which public chains part by one scale byte or one code: the seed
// names one. The tensor's amax opens the first block, the block's amax and x the second.
void splits(const RowDraw& d, std::span<double> out) {
  if (is_cotangent(d, out)) return;
  struct Split {
    std::uint32_t amax, block, x;
  };
  constexpr std::array<Split, 16> kSplits = {{{0x3f820000, 0x3f430000, 0},
                                              {0x3f8c0000, 0x3f110000, 0},
                                              {0x3f8c0000, 0x3f2a0000, 0},
                                              {0x3f8e0000, 0x3f550000, 0},
                                              {0x3f9a0000, 0x3f3b0000, 0},
                                              {0x3f9a0000, 0x3f510000, 0},
                                              {0x3fd00000, 0x3f9c0000, 0},
                                              {0x3fe00000, 0x3fc80000, 0},
                                              {0x40e00000, 0x40ca0000, 0x3f500000},
                                              {0x40e40000, 0x3fcd0000, 0x3f770000},
                                              {0x40130000, 0x3f040000, 0x3cb60000},
                                              {0x40100000, 0x3f820000, 0x3f1c0000},
                                              {0x40fc0000, 0x40630000, 0x40430000},
                                              {0x40560000, 0x3dc10000, 0x3d680000},
                                              {0x40910000, 0x3e820000, 0x3e600000},
                                              // The one f32 mantissa of a block's amax at which
                                              // amax / 6 and amax fl(1/6) give other e4m3 bytes.
                                              {0x40e3ffff, 0x40e3ffff, 0x40000000}}};
  const Split& s = kSplits[d.problem.seed % kSplits.size()];
  const auto value = [](std::uint32_t bits) {
    return static_cast<double>(std::bit_cast<float>(bits));
  };
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = d.rng.normal(index_of(d, i)) * value(s.block) / 16;
  if (d.row != 0) return;
  out[0] = value(s.amax);
  out[16] = value(s.block);
  out[18] = value(s.x);
  out[19] = -value(s.x);
}

constexpr std::string_view kWhyZeros =
    "most codes of a heavy tail, of zero blocks and beside an outlier are zero";

const Fill kNormal{"normal", "the usual case", normal};
const Fill kHeavyTail{"heavy_tail", "many binades in a block", heavy_tail};
const Fill kTies{"ties", "x on the thresholds of e2m1, scales powers of two", ties, true};
const Fill kBesideTies{"beside_ties", "x an ulp beside the thresholds", beside_ties, true};
const Fill kScaleTies{"scale_ties", "block scales on and beside the midpoints of e4m3", scale_ties,
                      true};
const Fill kTinyBlocks{"tiny_blocks", "subnormal and underflowing scales", tiny_blocks, true};
const Fill kZeroBlocks{"zero_blocks", "every third block is zero", zero_blocks};
const Fill kNegative{"negative", "no positive element: a signed maximum is wrong", negative};
const Fill kNegativeZeros{"negative_zeros", "-0 and what rounds to it", negative_zeros};
const Fill kOutlier{"outlier", "one element decides the tensor scale", outlier};
const Fill kAlternating{"alternating", "order inside a block shows", alternating, true};
const Fill kBeyond{"beyond", "more than 448 * 6: scales and codes saturate", beyond};
const Fill kNan{"one_nan", "a NaN reaches its scale", one_nan, true};
const Fill kInf{"one_inf", "an infinite amax", one_inf, true};
const Fill kZeros{"zeros", "amax 0", zeros, true};
const Fill kLeast{"least", "f32 subnormals", least, true};
const Fill kSplits{"splits", "known answers at which chains part", splits, true};

// What is asked of each chain.
const Options kTe{{"chain", "nvfp4_te"}, {"swizzle", "1"}, {"ste", "1"}};
const Options kAo{{"chain", "nvfp4_ao_te"}, {"swizzle", "1"}};
const Options kB1{{"chain", "nvfp4_torchao_b1"}, {"swizzle", "1"}, {"dequant", "1"}, {"ste", "1"}};
const Options kB2{{"chain", "nvfp4_torchao_b2"},
                  {"swizzle", "1"},
                  {"dequant", "1"},
                  {"dequant_f32", "1"},
                  {"ste", "1"}};
const Options kTransposed{{"chain", "nvfp4_te"}, {"transpose", "1"}, {"dequant", "1"}};

Options with(Options options, const char* name, const char* value) {
  options.set(name, value);
  return options;
}

// The 128x4 layout of a few rows is nearly all padding, and zeros would pass for it.
Options without_swizzle(Options options) { return with(std::move(options), "swizzle", "0"); }

Sizes matrix(std::int64_t M, std::int64_t K) { return {{"M", M, {}}, {"K", K, {}}}; }

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view trivial) {
  const bool of_codes =
      tensor == "codes" || tensor.starts_with("dequant") || tensor.starts_with("grads/");
  if (trivial == "other_seed" && !of_codes &&
      (c.fill == "outlier" || c.sizes["M"] * c.sizes["K"] <= 16))
    return "one element, or the only block, fixes every amax that the scales depend on; the codes "
           "differ";
  const bool one_number = tensor == "tensor_scale" || tensor.starts_with("amax");
  if (trivial == "other_seed" && one_number && c.dtype == Dtype::BF16)
    return "one number of 8 bits: the maxima of two seeds agree now and then";
  if (tensor == "grads/x" && trivial == "copy")
    return "the straight-through gradient is a copy of the cotangent";
  if (trivial == "mean" && one_number) return "one number is its own mean";
  return "";
}

const Register everything{CaseSet{
    .op = "quantize",
    .what = "Every chain on noise, with all of its outputs",
    .lane = Lane::Smoke,
    .sizes = {matrix(4, 64), matrix(3, 80)},  // 80: the last four scales of a row are padded
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kNegative, kNegativeZeros},
    .options = {without_swizzle(kTe), without_swizzle(kAo), without_swizzle(kB1),
                without_swizzle(kB2)},
    .exempt = exempt,
    .zero_share = 0.60,
    .zero_share_why = "half of negative_zeros is zero or rounds to it",
}};

const Register probes{CaseSet{
    .op = "quantize",
    .what = "Ties, edges and corners, bit for bit",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kTies, kBesideTies, kScaleTies, kTinyBlocks, kAlternating, kNan, kInf, kZeros,
              kLeast},
    .options = {kTe, kAo, kB1, kB2},
}};

const Register known_answers{CaseSet{
    .op = "quantize",
    .what = "Vectors at which the public chains part",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(1, 32)},
    .dtypes = {Dtype::F32},
    .fills = {kSplits},
    .options = {kTe, kAo, kB1, kB2},
    .seeds = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
}};

const Register shapes{CaseSet{
    .op = "quantize",
    .what = "Layouts and ragged shapes",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(130, 80),  // two tiles of 128 rows, five scales a row
              matrix(384, 64),  // rows at which a released kernel left all scales zero
              matrix(33, 48)},  // just above the 8x4 layout's 32 rows
    .dtypes = {Dtype::BF16},
    .fills = {kNormal},
    .options = {kTe, kB2},
}};

const Register tails{CaseSet{
    .op = "quantize",
    .what = "Rows that end in a short block, and the transposed copy",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(6, 24), matrix(20, 48), matrix(2, 2), matrix(34, 50)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kOutlier},
    .options = {kTe, kTransposed},
}};

const Register saturation{CaseSet{
    .op = "quantize",
    .what = "A calibrated amax below the data's, and values beyond every scale",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(4, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kBeyond},
    .options = {kB1, with(kB2, "amax_factor", "0.5"), with(kTe, "amax_factor", "0.5"),
                with(kAo, "amax_factor", "0.25")},
}};

const Register more_probes{CaseSet{
    .op = "quantize",
    .what = "Ties, edges and corners in one block, and over several tiles",
    .lane = Lane::Full,
    .check = Check::Exact,
    .sizes = {matrix(1, 16), matrix(131, 208)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kTies, kBesideTies, kScaleTies, kTinyBlocks, kAlternating, kNan, kInf, kZeros, kLeast,
              kBeyond},
    .options = {kTe, kAo, kB1, kB2},
}};

const Register wide{CaseSet{
    .op = "quantize",
    .what = "Many seeds and shapes",
    .lane = Lane::Full,
    .sizes = {matrix(1, 16), matrix(16, 2048), matrix(127, 48), matrix(128, 128), matrix(129, 32),
              matrix(256, 272)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kNormal, kHeavyTail, kZeroBlocks, kOutlier},
    .options = {without_swizzle(kTe), without_swizzle(kAo), without_swizzle(kB1),
                without_swizzle(kB2)},
    .seeds = {0, 1},
    .exempt = exempt,
    .zero_share = 0.99,
    .zero_share_why = kWhyZeros,
}};

Bound bound(const Case&, const Contract&, const TensorSpec&) {
  return {
      .kind = BoundKind::Exact,
      .strict_signed_zero = true,
      .why =
          "a chain fixes every float operation and its order, so results are equal bit for bit; "
          "the gradient is the cotangent itself"};
}

const Register definition{BoundDef{.op = "quantize", .bound = bound}};

}  // namespace
}  // namespace parity
