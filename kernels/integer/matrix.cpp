#include "kernels/integer/matrix.hpp"

#include <algorithm>
#include <cmath>

#include "harness/numeric/formats.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity::integer_kernel {
namespace {

float rounded(Dtype dtype, float v) {
  return dtype == Dtype::BF16 ? float_from_bf16(bf16_from_float(v)) : v;
}

// Faults of the parameters, looked up once for a matrix.
struct Faults {
  bool wide_scale = false, eps = false, zero_range = false, range = false, group = false,
       half_away = false, nibbles = false;
  explicit Faults(std::string_view id)
      : wide_scale(id == "P-int-wide-scale"),
        eps(id == "P-int-eps"),
        zero_range(id == "P-int-zero-range"),
        range(id == "P-int-range"),
        group(id == "P-int-group"),
        half_away(id == "P-int-half-away"),
        nibbles(id == "P-int-nibbles") {}
};

// Where either is NaN the result is.
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }
float smaller(float a, float b) { return std::isnan(a) || a < b ? a : b; }

struct Parameters {
  Group group = {};
  float stored = 0;  // the scale as it is written
};

// int8 rows: the stored scale may be zero, the one that divides is not.
Parameters of_row(const MatrixJob& job, const Faults& f, float low, float high) {
  Parameters p;
  p.stored = larger(std::fabs(low), std::fabs(high)) / 127.0F;
  if (!f.wide_scale) p.stored = rounded(job.dtype, p.stored);
  p.group.scale = f.eps ? p.stored : larger(p.stored, 1e-12F);
  p.group.inverse = 1 / p.group.scale;
  return p;
}

Parameters of_group(const MatrixJob& job, const Faults& f, float low, float high) {
  if (job.mapping == Mapping::Rows) return of_row(job, f, low, high);
  const auto R = [&](float v) { return f.wide_scale ? v : rounded(job.dtype, v); };
  if (!f.zero_range) low = smaller(low, 0), high = larger(high, 0);
  const float range = job.qmax - job.qmin;
  float scale = 0;
  if (job.mapping == Mapping::Symmetric)
    scale = R(larger(-low, high) / ((f.range ? range - 1 : range) / 2));
  else if (job.mapping == Mapping::NoClipping)
    scale = larger(R(low / job.qmin), R(high / job.qmax));
  else
    scale = R(R(high - low) / range);
  if (!f.eps) scale = larger(scale, R(job.eps));
  Parameters p;
  if (job.mapping == Mapping::Asymmetric) {
    p.group.zero = R(job.qmin - std::nearbyint(R(low / scale)));
    p.group.zero = larger(smaller(p.group.zero, job.qmax), job.qmin);
    if (std::isnan(p.group.zero)) p.group.zero = 0;
  }
  p.group.scale = rounded(job.scale_dtype, scale);
  p.group.inverse = rounded(job.scale_dtype, 1 / p.group.scale);
  p.stored = p.group.scale;
  return p;
}

void store(Dtype dtype, float v, std::byte* to, std::int64_t i) {
  if (dtype == Dtype::BF16)
    reinterpret_cast<std::uint16_t*>(to)[i] = bf16_from_float(v);
  else
    reinterpret_cast<float*>(to)[i] = v;
}

class Row {
 public:
  Row(const MatrixJob& job, const Steps& steps, const MatrixResult& to)
      : job_(job),
        steps_(steps),
        to_(to),
        x_(static_cast<std::size_t>(job.columns)),
        codes_(static_cast<std::size_t>(job.columns)),
        values_(static_cast<std::size_t>(job.columns)),
        plan_{.qmin = job.qmin,
              .qmax = job.qmax,
              .narrow = job.dtype == Dtype::BF16,
              .narrow_wide = job.dtype == Dtype::BF16 && job.scale_dtype == Dtype::BF16 &&
                             job.mapping != Mapping::Rows} {}

  void operator()(std::int64_t row) {
    const std::int64_t size = job_.dtype == Dtype::BF16 ? 2 : 4, first = row * job_.columns;
    const std::int64_t groups = job_.columns / job_.group;
    const float* x = reinterpret_cast<const float*>(job_.x) + first;
    if (job_.dtype != Dtype::F32) {
      steps_.widen(job_.dtype, job_.x + first * size, job_.columns, x_.data());
      x = x_.data();
    }
    std::int8_t* codes = to_.codes == nullptr ? codes_.data() : to_.codes + first;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t at = g * job_.group;
      float low = 0, high = 0;
      steps_.extremes(x + at, job_.group, &low, &high);
      Parameters p = of_group(job_, faults_, low, high);
      if (faults_.group && g > 0) p = last_;
      last_ = p;
      steps_.codes(plan_, p.group, x + at, job_.group, codes + at);
      if (faults_.half_away) half_away(p.group, x + at, codes + at);
      if (to_.scales != nullptr) store(job_.scale_dtype, p.stored, to_.scales, row * groups + g);
      if (to_.zeros != nullptr)
        to_.zeros[row * groups + g] = static_cast<std::int32_t>(p.group.zero);
      if (to_.values != nullptr)
        steps_.values(plan_, p.group, codes + at, job_.group, values_.data() + at);
    }
    if (to_.values != nullptr)
      steps_.narrow(job_.dtype, values_.data(), job_.columns, to_.values + first * size);
    if (to_.packed == nullptr) return;
    std::uint8_t* packed = to_.packed + first / 2;
    steps_.pack(codes, job_.columns, packed);
    if (faults_.nibbles)
      for (std::int64_t i = 0; i < job_.columns / 2; ++i)
        packed[i] = static_cast<std::uint8_t>(packed[i] << 4 | packed[i] >> 4);
  }

 private:
  void half_away(const Group& g, const float* x, std::int8_t* codes) const {
    for (std::int64_t i = 0; i < job_.group; ++i) {
      float y = x[i] * g.inverse;
      if (plan_.narrow_wide) y = rounded(Dtype::BF16, y);
      codes[i] =
          static_cast<std::int8_t>(std::clamp(std::round(y) + g.zero, plan_.qmin, plan_.qmax));
    }
  }

  const MatrixJob& job_;
  const Faults faults_{job_.fault};
  const Steps& steps_;
  const MatrixResult& to_;
  std::vector<float> x_;
  std::vector<std::int8_t> codes_;
  std::vector<float> values_;
  Plan plan_;
  Parameters last_ = {};
};

}  // namespace

void quantise_matrix(const MatrixJob& job, const Steps& steps, const MatrixResult& to) {
  constexpr std::int64_t kSmall = 1
                                  << 15;  // elements below which a thread costs more than it gives
  constexpr std::int64_t kPortion = 8;    // rows handed out at a time
  const std::int64_t portions = (job.rows + kPortion - 1) / kPortion;
  kda_kernel::for_each_item(job.rows * job.columns < kSmall ? 1 : job.threads, portions, [&] {
    return [&, row = Row(job, steps, to)](std::int64_t portion) mutable {
      const std::int64_t end = std::min(job.rows, (portion + 1) * kPortion);
      for (std::int64_t r = portion * kPortion; r < end; ++r) row(r);
    };
  });
}

std::vector<FaultDef> matrix_faults() {
  return {
      {"P-int-wide-scale", "", "scale formed in f32 where the data's bf16 rounds it"},
      {"P-int-range", "", "range of the integers off by one in the scale's divisor"},
      {"P-int-eps", "", "no lower bound of the scale"},
      {"P-int-zero-range", "", "zero left out of the range"},
      {"P-int-half-away", "", "ties away from zero"},
      {"P-int-group", "", "scale of the first group for all of the row"},
      {"P-int-nibbles", "", "even element in the high nibble"},
      {.id = "A-RC08",
       .what = "32-bit offsets overflow (MSLK #348)",
       .unsupported = "needs a tensor of more than 2^31 elements"},
  };
}

}  // namespace parity::integer_kernel
