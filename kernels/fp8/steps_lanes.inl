// The inner loops over PARITY_LANES lanes, 32 elements at a time; what is left goes to the scalar form.

#include "kernels/quantize/lanes.inl"
#include "kernels/quantize/lanes_bytes.inl"

constexpr std::int64_t kRun = 32;
constexpr int kRegisters = 32 / W;

inline std::uint32_t largest_lane(U largest) {
  std::uint32_t all_lanes = 0;
  for (int k = 0; k < W; ++k) all_lanes = all_lanes > largest[k] ? all_lanes : largest[k];
  return all_lanes;
}

template <class X>
std::uint32_t amax_of(const Plan& plan, Dtype dtype, const X* x, std::int64_t n) {
  U a = {}, b = {};
  std::int64_t i = 0;
  for (; i + kRun <= n; i += kRun) {
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; j += 2) {
      a = max(a, bits(widened(x + i + W * j)) & 0x7FFFFFFF);
      b = max(b, bits(widened(x + i + W * j + W)) & 0x7FFFFFFF);
    }
  }
  const std::uint32_t vector = largest_lane(max(a, b));
  const std::uint32_t rest = kScalarSteps.amax(plan, dtype, x + i, n - i);
  return vector > rest ? vector : rest;
}

template <class X>
void amax_by_element_of(const Plan& plan, Dtype dtype, const X* x, std::int64_t n,
                        std::uint32_t* largest) {
  std::int64_t i = 0;
  for (; i + W <= n; i += W)
    store(largest + i, max(load<U>(largest + i), bits(widened(x + i)) & 0x7FFFFFFF));
  kScalarSteps.amax_by_element(plan, dtype, x + i, n - i, largest + i);
}

template <class Format, bool kByElement, class X>
void quantise_run(const Plan& plan, Dtype dtype, const X* x, std::int64_t n, const float* scale,
                  std::uint8_t* codes) {
  std::int64_t i = 0;
  for (; i + kRun <= n; i += kRun) {
    U lanes[kRegisters];
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) {
      const F s = kByElement ? load<F>(scale + (kByElement ? i + W * j : 0)) : all(*scale);
      lanes[j] = Format::code(widened(x + i + W * j) * s);
    }
    store_32(codes + i, lanes);
  }
  kScalarSteps.quantise(plan, dtype, x + i, n - i, kByElement ? scale + i : scale, codes + i);
}

template <class Format, bool kByElement, class X>
void dequantise_run(const Plan& plan, Dtype dtype, const std::uint8_t* codes, std::int64_t n,
                    const float* scale, X* values) {
  std::int64_t i = 0;
  if constexpr (!kByElement && sizeof(X) == 2) {
    constexpr std::int64_t kCodes = 256;
    if (n >= 4 * kCodes) {  // a quotient for each code, then two loads an element
      std::uint8_t code[kCodes];
      for (std::int64_t k = 0; k < kCodes; ++k) code[k] = static_cast<std::uint8_t>(k);
      X value[kCodes];
      kScalarSteps.dequantise(plan, dtype, code, kCodes, scale, value);
      for (; i < n; ++i) values[i] = value[codes[i]];
      return;
    }
  }
  for (; i + W <= n; i += W) {
    const F s = kByElement ? load<F>(scale + i) : all(*scale);
    store_values(values + i, Format::value(load_codes(codes + i)) / s);
  }
  kScalarSteps.dequantise(plan, dtype, codes + i, n - i, kByElement ? scale + i : scale,
                          values + i);
}

// Calls run with the format and whether scales go by element.
template <class Run>
void with_plan(const Plan& plan, const Run& run) {
  const auto chosen = [&]<class Format>(Format format) {
    if (plan.by_element)
      run(format, std::true_type{});
    else
      run(format, std::false_type{});
  };
  if (plan.elem == Dtype::E5M2)
    chosen(E5m2{});
  else
    chosen(E4m3{});
}

// Calls run with x as what it points to.
template <class Run>
auto with_elements(Dtype dtype, const void* x, const Run& run) {
  if (dtype == Dtype::BF16) return run(static_cast<const std::uint16_t*>(x));
  return run(static_cast<const float*>(x));
}
template <class Run>
void with_elements(Dtype dtype, void* x, const Run& run) {
  if (dtype == Dtype::BF16) return run(static_cast<std::uint16_t*>(x));
  run(static_cast<float*>(x));
}

constexpr Steps steps() {
  return {
      .amax =
          [](const Plan& plan, Dtype dtype, const void* x, std::int64_t n) {
            return with_elements(dtype, x,
                                 [&](const auto* e) { return amax_of(plan, dtype, e, n); });
          },
      .amax_by_element =
          [](const Plan& plan, Dtype dtype, const void* x, std::int64_t n, std::uint32_t* largest) {
            with_elements(dtype, x,
                          [&](const auto* e) { amax_by_element_of(plan, dtype, e, n, largest); });
          },
      .quantise =
          [](const Plan& plan, Dtype dtype, const void* x, std::int64_t n, const float* scale,
             std::uint8_t* codes) {
            with_elements(dtype, x, [&](const auto* e) {
              with_plan(plan, [&]<class Format, bool kByElement>(
                                  Format, std::bool_constant<kByElement>) {
                quantise_run<Format, kByElement>(plan, dtype, e, n, scale, codes);
              });
            });
          },
      .dequantise =
          [](const Plan& plan, Dtype dtype, const std::uint8_t* codes, std::int64_t n,
             const float* scale, void* values) {
            with_elements(dtype, values, [&](auto* e) {
              with_plan(plan, [&]<class Format, bool kByElement>(
                                  Format, std::bool_constant<kByElement>) {
                dequantise_run<Format, kByElement>(plan, dtype, codes, n, scale, e);
              });
            });
          },
  };
}
