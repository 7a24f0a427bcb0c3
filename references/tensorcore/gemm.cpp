#include "references/tensorcore/gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <thread>

#include "references/tensorcore/lanes.hpp"

namespace parity::tensorcore {
namespace {

constexpr int kLongest = 64;  // products of one instruction

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::uint64_t code_of(const Product& p, const Operands& x, std::int64_t row, std::int64_t k) {
  std::uint64_t code = load_code(x.dtype, x.codes, row * p.K + k);
  if (p.schedule.nearest_inputs) code = encode(Dtype::TF32, decode(Dtype::F32, code));
  return code;
}

Instruction instruction_of(const Product& p) {
  const Unit& unit = *p.schedule.unit;
  return {&unit, unit.sees(p.a.dtype), unit.sees(p.b.dtype), p.schedule.accumulate};
}

struct Codes {
  std::array<std::uint64_t, kLongest> value = {}, scale = {};
  std::size_t values = 0, scales = 0;
  [[nodiscard]] std::span<const std::uint64_t> list() const { return {value.data(), values}; }
  [[nodiscard]] std::span<const std::uint64_t> scale_list() const { return {scale.data(), scales}; }
};

// Ranges of K whose sums are added, in the order of addition.
struct Slice {
  std::int64_t first = 0, last = 0;
};

// The elements of one row that an instruction reads from `range` on, not past its end.
Codes gather(const Product& p, const Operands& x, std::int64_t row, Slice range) {
  Codes codes;
  const Unit& unit = *p.schedule.unit;
  const std::int64_t first = range.first;
  const std::int64_t last = std::min<std::int64_t>(first + unit.k, range.last);
  for (std::int64_t k = first; k < last; ++k) codes.value[codes.values++] = code_of(p, x, row, k);
  if (unit.scale_block == 0) return codes;
  const std::int64_t blocks = ceil_div(p.K, unit.scale_block);
  for (std::int64_t k = first; k < last; k += unit.scale_block)
    codes.scale[codes.scales++] =
        x.scales[static_cast<std::size_t>(row * blocks + k / unit.scale_block)];
  return codes;
}

std::uint64_t one_instruction(const Product& p, std::int64_t m, std::int64_t n, Slice range,
                              std::uint64_t c, const Defect& defect) {
  const Codes a = gather(p, p.a, m, range), b = gather(p, p.b, n, range);
  return dot(instruction_of(p), {a.list(), b.list(), a.scale_list(), b.scale_list()}, c, defect);
}

std::vector<Slice> slices_of(const Product& p) {
  const std::int64_t step =
      p.schedule.slice > 0 ? p.schedule.slice : std::max<std::int64_t>(p.K, 1);
  std::vector<Slice> all;
  for (std::int64_t k = 0; k < p.K; k += step) all.push_back({k, std::min(k + step, p.K)});
  if (p.schedule.descending) std::ranges::reverse(all);
  return all;
}

std::uint64_t code_of(Dtype accumulate, float value) {
  return accumulate == Dtype::F32 ? std::bit_cast<std::uint32_t>(value)
                                  : encode(accumulate, static_cast<double>(value));
}

// ---- all of them ----

// Operands taken apart, padded with zeros to whole instructions.
class Panel {
 public:
  Panel(const Product& p, const Operands& x, std::int64_t lanes, int shift)
      : lanes_(lanes), instructions_(ceil_div(p.K, p.schedule.unit->k)) {
    const Unit& unit = *p.schedule.unit;
    depth_ = instructions_ * unit.k;
    const std::int64_t groups = ceil_div(x.rows, lanes);
    const auto n = static_cast<std::size_t>(groups * lanes * depth_);
    size_.assign(n, 0), exponent_.assign(n, kNoExponent), sign_.assign(n, 0);
    special_.assign(static_cast<std::size_t>(groups * instructions_), 0);
    const Dtype dtype = instruction_of({.a = x, .b = x, .schedule = p.schedule}).a;
    std::vector<Operand> known;
    if (format(dtype).bits <= 8)
      for (std::uint64_t code = 0; code < 256; ++code)
        known.push_back(operand_of(unit, dtype, code));
    for (std::int64_t row = 0; row < x.rows; ++row)
      for (std::int64_t k = 0; k < p.K; ++k) {
        const std::uint64_t code = code_of(p, x, row, k);
        put(row, k, known.empty() ? take_apart(dtype, code) : known[code], unit.k, shift);
      }
    if (unit.scheme == Scheme::BlockDots)
      scale_dots(p, x, unit);
    else if (unit.scaling == Scaling::E8M0)
      scale(p, x, unit);
  }

  [[nodiscard]] Apart rows(std::int64_t group) const {
    const auto at = static_cast<std::size_t>(group * lanes_ * depth_);
    return {size_.data() + at, exponent_.data() + at, sign_.data() + at};
  }
  [[nodiscard]] const std::uint8_t* special(std::int64_t group) const {
    return special_.data() + group * instructions_;
  }
  [[nodiscard]] std::int64_t instructions() const { return instructions_; }

 private:
  [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t k) const {
    return static_cast<std::size_t>((row / lanes_ * depth_ + k) * lanes_ + row % lanes_);
  }
  void put(std::int64_t row, std::int64_t k, const Operand& x, int per_instruction, int shift) {
    if (x.kind != Operand::Class::Finite)
      special_[static_cast<std::size_t>(row / lanes_ * instructions_ + k / per_instruction)] = 1;
    if (x.kind != Operand::Class::Finite || x.significand == 0) return;
    size_[at(row, k)] = static_cast<std::int32_t>(x.significand << shift);
    exponent_[at(row, k)] = x.exponent;
    sign_[at(row, k)] = x.negative ? -1 : 0;
  }
  // Elements in units of a half, with their sign; exponents and significands are those of scales.
  void scale_dots(const Product& p, const Operands& x, const Unit& unit) {
    const std::int64_t blocks = ceil_div(p.K, unit.scale_block);
    for (std::int64_t row = 0; row < x.rows; ++row)
      for (std::int64_t k = 0; k < p.K; ++k) {
        const std::size_t i = at(row, k);
        if (size_[i] != 0) size_[i] = (sign_[i] < 0 ? -size_[i] : size_[i]) * (1 << exponent_[i]);
        const std::uint8_t code =
            x.scales[static_cast<std::size_t>(row * blocks + k / unit.scale_block)];
        Operand scale{.exponent = code - 127, .significand = 1};
        if (unit.scaling == Scaling::E4M3) scale = take_apart(Dtype::E4M3, code & 0x7F);
        if (unit.scaling == Scaling::E8M0 && code == 0xFF) scale.kind = Operand::Class::Nan;
        exponent_[i] = scale.exponent;
        sign_[i] = static_cast<std::int32_t>(scale.significand);
        if (scale.kind == Operand::Class::Nan)
          special_[static_cast<std::size_t>(row / lanes_ * instructions_ + k / unit.k)] = 1;
      }
  }
  void scale(const Product& p, const Operands& x, const Unit& unit) {
    const std::int64_t blocks = ceil_div(p.K, unit.scale_block);
    for (std::int64_t row = 0; row < x.rows; ++row)
      for (std::int64_t k = 0; k < p.K; ++k) {
        const std::uint8_t code =
            x.scales[static_cast<std::size_t>(row * blocks + k / unit.scale_block)];
        exponent_[at(row, k)] += code - 127;
        if (code == 0xFF)
          special_[static_cast<std::size_t>(row / lanes_ * instructions_ + k / unit.k)] = 1;
      }
  }

  std::int64_t lanes_ = 1, instructions_ = 0, depth_ = 0;
  std::vector<std::int32_t> size_ = {}, exponent_ = {}, sign_ = {};
  std::vector<std::uint8_t> special_ = {};
};

struct Context {
  const Product& product;
  std::int64_t column = 0;
};

float exact_lane(const void* context, std::int64_t row, int lane, std::int64_t instruction,
                 float c) {
  const auto& at = *static_cast<const Context*>(context);
  const Product& p = at.product;
  const std::int64_t n = at.column + lane;
  if (n >= p.b.rows) return 0;
  const Dtype accumulate = p.schedule.accumulate;
  return value_of(accumulate, one_instruction(p, row, n, {instruction * p.schedule.unit->k, p.K},
                                              code_of(accumulate, c), {}));
}

// Fills rows [first, last) of y.
class Sweep {
 public:
  Sweep(const Product& p, RunLanes run, std::vector<float>& y)
      : p_(p), run_(run), y_(y), a_(p, p.a, 1, 0), b_(p, p.b, kLanes, left_shift(p)) {
    const Unit& unit = *p.schedule.unit;
    job_ = {.k = unit.k,
            .group = unit.group,
            .fraction = unit.fraction,
            .kept_bits = unit.keeps == Keeps::F32 ? 23 : 13,
            .f16 = p.schedule.accumulate == Dtype::F16,
            .term_bits = unit.scheme != Scheme::BlockDots ? 0
                         : unit.scaling == Scaling::E4M3  ? kE2m1Bits + kE4m3Bits
                                                          : kE2m1Bits,
            .via_half = unit.scheme == Scheme::ViaHalf,
            .exact = exact_lane};
  }

  void rows(std::int64_t first, std::int64_t last) const {
    for (std::int64_t column = 0; column < p_.b.rows; column += kLanes)
      for (std::int64_t m = first; m < last; m += kTile)
        tile(m, static_cast<int>(std::min<std::int64_t>(kTile, last - m)), column);
  }

 private:
  static constexpr int kE2m1Bits = 2, kE4m3Bits = 6;  // fraction bits of a product of two

  static int left_shift(const Product& p) {
    const Instruction i = instruction_of(p);
    if (i.unit->scheme == Scheme::BlockDots) return 0;
    return i.unit->fraction - product_bits(*i.unit, i.a, i.b);
  }

  static float sum(float x, float y) {
    const float z = x + y;
    return std::isnan(z) ? std::bit_cast<float>(static_cast<std::uint32_t>(kNanF32)) : z;
  }

  void tile(std::int64_t m, int count, std::int64_t column) const {
    const Context context{p_, column};
    LaneJob job = job_;
    job.context = &context;
    job.b = b_.rows(column / kLanes);
    job.special_b = b_.special(column / kLanes);
    const std::int64_t width = std::min<std::int64_t>(kLanes, p_.b.rows - column);
    float total[kTile][kLanes] = {};
    bool first = true;
    for (const Slice& slice : slices_of(p_)) {
      float part[kTile][kLanes] = {};
      if (first && p_.c != nullptr)
        for (int r = 0; r < count; ++r)
          std::copy_n(p_.c + (m + r) * p_.b.rows + column, width, part[r]);
      LaneRow rows[kTile];
      for (int r = 0; r < count; ++r) rows[r] = {a_.rows(m + r), a_.special(m + r), m + r, part[r]};
      job.first = slice.first / job.k;
      job.last = ceil_div(slice.last, job.k);
      run_(job, rows, count);
      for (int r = 0; r < count; ++r)
        for (int l = 0; l < kLanes; ++l)
          total[r][l] = first ? part[r][l] : sum(total[r][l], part[r][l]);
      first = false;
    }
    for (int r = 0; r < count; ++r)
      std::copy_n(total[r], width, y_.begin() + (m + r) * p_.b.rows + column);
  }

  const Product& p_;
  RunLanes run_;
  std::vector<float>& y_;
  Panel a_, b_;
  LaneJob job_ = {};
};

// Runs work(first, last) over shares of the rows.
template <class Work>
void share_rows(std::int64_t rows, int threads, const Work& work) {
  const std::int64_t tiles = ceil_div(rows, kTile);
  const std::int64_t workers =
      std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(tiles, 1));
  const auto edge = [&](std::int64_t w) { return std::min(tiles * w / workers * kTile, rows); };
  std::vector<std::jthread> others;
  for (std::int64_t w = 1; w < workers; ++w)
    others.emplace_back([&, w] { work(edge(w), edge(w + 1)); });
  work(edge(0), edge(1));
}

RunLanes lanes_of(Isa isa) {
  return isa == Isa::Avx512 ? run_lanes_avx512
         : isa == Isa::Avx2 ? run_lanes_avx2
                            : run_lanes_plain;
}

Isa widest() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return avx512 ? Isa::Avx512 : avx2 ? Isa::Avx2 : Isa::Plain;
}

// Slices that begin within an instruction or are added in f16, and schemes that no lane knows, go
// one by one.
bool fits_lanes(const Product& p) {
  const Unit& unit = *p.schedule.unit;
  const bool scheme = unit.scheme != Scheme::Fma;
  const bool slices = p.schedule.slice == 0 || p.schedule.accumulate == Dtype::F32;
  return scheme && slices && p.schedule.slice % unit.k == 0;
}

}  // namespace

float value_of(Dtype accumulate, std::uint64_t code) {
  return accumulate == Dtype::F32 ? std::bit_cast<float>(static_cast<std::uint32_t>(code))
                                  : static_cast<float>(decode(accumulate, code));
}

std::uint64_t accumulator(const Product& p, std::int64_t m, std::int64_t n, std::uint64_t c,
                          const Defect& defect) {
  const Schedule& s = p.schedule;
  const std::vector<Slice> slices = slices_of(p);
  std::uint64_t total = c;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    std::uint64_t part = i == 0 ? c : 0;
    for (std::int64_t k = slices[i].first; k < slices[i].last; k += s.unit->k)
      part = one_instruction(p, m, n, {k, slices[i].last}, part, defect);
    total = i == 0 ? part : plain_sum(s.accumulate, total, part);
  }
  return total;
}

std::vector<float> accumulators(const Product& p, int threads, Isa isa) {
  std::vector<float> y(static_cast<std::size_t>(p.a.rows * p.b.rows));
  if (!fits_lanes(p)) {
    share_rows(p.a.rows, threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t m = first; m < last; ++m)
        for (std::int64_t n = 0; n < p.b.rows; ++n) {
          const std::int64_t at = m * p.b.rows + n;
          const float c = p.c == nullptr ? 0 : p.c[at];
          y[static_cast<std::size_t>(at)] = value_of(
              p.schedule.accumulate, accumulator(p, m, n, code_of(p.schedule.accumulate, c)));
        }
    });
    return y;
  }
  const Sweep sweep(p, lanes_of(isa), y);
  share_rows(p.a.rows, threads,
             [&](std::int64_t first, std::int64_t last) { sweep.rows(first, last); });
  return y;
}

std::vector<float> accumulators(const Product& p, int threads) {
  return accumulators(p, threads, widest());
}

}  // namespace parity::tensorcore
