#include "references/gemm/evaluate.hpp"

#include <bit>
#include <cmath>

#include "references/blocks/unit_op.hpp"
#include "references/gemm/faults.hpp"

namespace parity::gemm {
namespace {

using tensorcore::Operands;
using tensorcore::Product;

// Operands as numbers, block scales (which are exact in f64, and but for e8m0's ends in f32)
// multiplied in.
std::vector<double> scaled(const Problem& p, const Tensors& tensors, const char* operand,
                           const char* scale) {
  std::vector<double> values = tensors.at(operand).widened();
  if (p.scale_block() == 0) return values;
  std::vector<double> scales = tensors.at(scale).widened();
  if (p.scales == Scales::Nvfp4)
    for (double& s : scales) s = std::abs(s);  // the sign of a scale is not looked at
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    values[i] *=
        scales[static_cast<std::size_t>(at / p.K * p.blocks() + at % p.K / p.scale_block())];
  }
  return values;
}

// Visits every output: visit(index in y, row of x, row of w, m, n), rows over the tensors.
template <class Visit>
void for_outputs(const Problem& p, const Tensors& tensors, const Visit& visit) {
  for (const Part& part : parts_of(p, tensors))
    for (std::int64_t m = part.first_x; m < part.first_x + part.rows; ++m)
      for (std::int64_t n = 0; n < p.N; ++n) visit(m * p.N + n, m, part.first_w + n, n);
}

std::span<const std::uint8_t> scale_codes(const Problem& p, const Tensors& tensors,
                                          const char* name, std::int64_t first_row) {
  if (p.scale_block() == 0) return {};
  return tensors.at(name).as<std::uint8_t>().subspan(
      static_cast<std::size_t>(first_row * p.blocks()));
}

// Rows [first, first + rows) of a matrix. E2M1 rows of an odd K would begin within a byte.
Operands rows_of(const Problem& p, const Tensors& tensors, const char* name, const char* scale,
                 std::int64_t first, std::int64_t rows) {
  const Tensor& t = tensors.at(name);
  return {.dtype = t.spec.dtype,
          .codes = t.bytes.data() + bytes_for(t.spec.dtype, first * p.K),
          .rows = rows,
          .scales = scale_codes(p, tensors, scale, first)};
}

std::vector<float> floats(const Tensors& tensors, const char* name) {
  const std::vector<double> wide = tensors.at(name).widened();
  return {wide.begin(), wide.end()};
}

}  // namespace

Epilogue::Epilogue(const Problem& p, const Tensors& tensors, std::string_view fault)
    : p_(p), fault_(fault) {
  if (p.scales == Scales::Tensor || p.scales == Scales::Row) {
    x_ = floats(tensors, "scale_x");
    w_ = floats(tensors, "scale_w");
  }
  if (p.alpha) alpha_ = floats(tensors, "alpha").front();
  if (p.result_scale) result_ = floats(tensors, "scale_result").front();
}

bool Epilogue::idle() const { return x_.empty() && !p_.alpha && !p_.result_scale; }

std::uint64_t Epilogue::operator()(float sum, std::int64_t m, std::int64_t n) const {
  if (!x_.empty()) {
    const float x =
        x_[x_.size() == 1 || fault_ == "P-gemm-scale-rows" ? 0 : static_cast<std::size_t>(m)];
    const float w = w_[w_.size() == 1 ? 0 : static_cast<std::size_t>(n)];
    if (fault_ == "P-gemm-scale-bf16")
      sum *= static_cast<float>(round_to(Dtype::BF16, static_cast<double>(x * w)));
    else
      sum = sum * x * w;
  }
  if (p_.alpha && fault_ != "P-gemm-alpha-missing") sum *= alpha_;
  if (fault_ == "P-gemm-alpha-twice") sum *= alpha_;
  if (p_.result_scale && fault_ != "P-gemm-result-scale") sum *= result_;
  double value = static_cast<double>(sum);
  if (fault_ == "P-gemm-double-rounding") value = round_to(Dtype::F16, value);
  const bool truncated = fault_ == "P-gemm-truncated-store";
  return encode(p_.y, value,
                {.rounding = truncated ? Rounding::TowardZero : Rounding::NearestEven,
                 .overflow = format(p_.y).bits > 8 ? Overflow::Infinity : Overflow::Saturate});
}

double Epilogue::factor(std::int64_t m, std::int64_t n) const {
  double f = static_cast<double>(alpha_) * static_cast<double>(result_);
  if (x_.empty()) return f;
  f *= static_cast<double>(x_[x_.size() == 1 ? 0 : static_cast<std::size_t>(m)]);
  return f * static_cast<double>(w_[w_.size() == 1 ? 0 : static_cast<std::size_t>(n)]);
}

tensorcore::Product product_of(const Problem& p, const Tensors& tensors, const Part& part,
                               const tensorcore::Schedule& schedule) {
  return {.a = rows_of(p, tensors, "x", "scale_x", part.first_x, part.rows),
          .b = rows_of(p, tensors, "w", "scale_w", part.first_w, p.N),
          .K = p.K,
          .schedule = schedule};
}

Truth truth(const Problem& p, const Tensors& tensors) {
  const std::vector<double> x = scaled(p, tensors, "x", "scale_x");
  const std::vector<double> w = scaled(p, tensors, "w", "scale_w");
  const std::vector<double> x_plain = tensors.at("x").widened(),
                            w_plain = tensors.at("w").widened();
  const Epilogue epilogue(p, tensors, "");
  const std::vector<double> c = p.c ? tensors.at("c").widened() : std::vector<double>{};
  const double x_least = format(p.x).min_normal, w_least = format(p.w).min_normal;
  // Times what a subnormal has to grow to be the least normal number.
  const auto raised = [](double scaled_value, double plain, double least) {
    const double size = std::abs(scaled_value);
    return plain != 0 && std::abs(plain) < least ? size * (least / std::abs(plain)) : size;
  };
  Truth t;
  t.value.resize(static_cast<std::size_t>(p.T * p.M * p.N));
  t.scale.resize(t.value.size());
  std::vector<double> terms(static_cast<std::size_t>(p.K));
  for_outputs(p, tensors, [&](std::int64_t at, std::int64_t m, std::int64_t row, std::int64_t n) {
    double size = 0;
    for (std::int64_t k = 0; k < p.K; ++k) {
      const auto i = static_cast<std::size_t>(m * p.K + k),
                 j = static_cast<std::size_t>(row * p.K + k);
      terms[static_cast<std::size_t>(k)] = x[i] * w[j];
      size += raised(x[i], x_plain[i], x_least) * raised(w[j], w_plain[j], w_least);
    }
    const auto y = static_cast<std::size_t>(at);
    const double start = p.c ? c[y] : 0;
    const double factor = epilogue.factor(m, n);
    t.value[y] = (unit::Vary{}.sum(std::span<const double>(terms)) + start) * factor;
    t.scale[y] = (size + std::abs(start)) * std::abs(factor);
  });
  return t;
}

Codes in_f32(const Problem& p, const BaseRequest& r) {
  const Tensors tensors = as_read(p, r.inputs, r.fault);
  const std::vector<double> x = scaled(p, tensors, "x", "scale_x");
  const std::vector<double> w = scaled(p, tensors, "w", "scale_w");
  const std::vector<double> c = p.c ? tensors.at("c").widened() : std::vector<double>{};
  const Epilogue epilogue(p, tensors, r.fault);
  unit::Vary vary(r);
  std::vector<float> terms(static_cast<std::size_t>(p.K));
  Codes y(static_cast<std::size_t>(p.T * p.M * p.N));
  for_outputs(p, tensors, [&](std::int64_t at, std::int64_t m, std::int64_t row, std::int64_t n) {
    if (r.fault == "P-gemm-group") row = n;
    for (std::int64_t k = 0; k < p.K; ++k)
      terms[static_cast<std::size_t>(k)] =
          vary(static_cast<float>(x[static_cast<std::size_t>(m * p.K + k)]) *
               static_cast<float>(w[static_cast<std::size_t>(row * p.K + k)]));
    float sum = 0;
    if (r.fault == "P-gemm-bf16-accumulator")
      for (const float term : terms)
        sum = static_cast<float>(round_to(Dtype::BF16, static_cast<double>(sum + term)));
    else
      sum = vary.sum(std::span<const float>(terms));
    if (p.c) sum += static_cast<float>(c[static_cast<std::size_t>(at)]);
    y[static_cast<std::size_t>(at)] = epilogue(sum, m, n);
  });
  return y;
}

Codes by_units(const Problem& p, const Tensors& inputs, const tensorcore::Schedule& schedule,
               std::string_view fault) {
  const Tensors tensors = as_read(p, inputs, fault);
  const Epilogue epilogue(p, tensors, fault);
  const auto [how, defect] = faulty(schedule, fault);
  Codes y(static_cast<std::size_t>(p.T * p.M * p.N));
  for (Part part : parts_of(p, tensors)) {
    if (fault == "P-gemm-group") part.first_w = 0;
    const Product product = product_of(p, tensors, part, how);
    for (std::int64_t m = 0; m < part.rows; ++m)
      for (std::int64_t n = 0; n < p.N; ++n) {
        const std::int64_t at = (part.first_x + m) * p.N + n;
        const std::uint64_t c = p.c ? load_code(p.y, tensors.at("c").bytes.data(), at) : 0;
        const std::uint64_t sum = tensorcore::accumulator(product, m, n, c, defect);
        const bool stored = epilogue.idle() && p.y == how.accumulate;
        y[static_cast<std::size_t>(at)] =
            stored ? sum : epilogue(tensorcore::value_of(how.accumulate, sum), part.first_x + m, n);
      }
  }
  return y;
}

Codes by_lanes(const Problem& p, const Tensors& tensors, const tensorcore::Schedule& schedule,
               int threads) {
  const Epilogue epilogue(p, tensors, "");
  Codes y(static_cast<std::size_t>(p.T * p.M * p.N));
  const std::vector<float> c = p.c ? floats(tensors, "c") : std::vector<float>{};
  for (const Part& part : parts_of(p, tensors)) {
    Product product = product_of(p, tensors, part, schedule);
    if (p.c) product.c = c.data() + part.first_x * p.N;
    const std::vector<float> sums = tensorcore::accumulators(product, threads);
    for (std::int64_t m = 0; m < part.rows; ++m)
      for (std::int64_t n = 0; n < p.N; ++n) {
        const float sum = sums[static_cast<std::size_t>(m * p.N + n)];
        const bool stored = epilogue.idle() && p.y == Dtype::F32;
        y[static_cast<std::size_t>((part.first_x + m) * p.N + n)] =
            stored ? std::bit_cast<std::uint32_t>(sum) : epilogue(sum, part.first_x + m, n);
      }
  }
  return y;
}

}  // namespace parity::gemm
