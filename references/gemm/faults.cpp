#include "references/gemm/faults.hpp"

#include <algorithm>

namespace parity::gemm {
namespace {

// Applies f(code at k) to every element of a matrix with K last.
template <class F>
void for_elements(Tensor& t, std::int64_t K, const F& f) {
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const std::uint64_t code = load_code(t.spec.dtype, t.bytes.data(), i);
    store_code(t.spec.dtype, t.bytes.data(), i, f(code, i % K));
  }
}

// Element k of every row taken from from(k).
template <class F>
void gather(Tensor& t, std::int64_t K, const F& from) {
  const Tensor source = t;
  for (std::int64_t i = 0; i < t.elements(); ++i)
    store_code(t.spec.dtype, t.bytes.data(), i,
               load_code(t.spec.dtype, source.bytes.data(), i - i % K + from(i % K)));
}

// A scale of 2^-127 read as zero.
void zero_least_blocks(const Problem& p, const Tensor& scale, Tensor& operand) {
  for (std::int64_t i = 0; i < operand.elements(); ++i) {
    const std::int64_t block = i / p.K * p.blocks() + i % p.K / p.scale_block();
    if (scale.bytes[static_cast<std::size_t>(block)] == std::byte{0})
      store_code(operand.spec.dtype, operand.bytes.data(), i, 0);
  }
}

}  // namespace

std::vector<FaultDef> faults() {
  return {
      {"P-gemm-tail", "", "the last K mod 32 elements (8 where there are none) are not read"},
      {"P-gemm-slices", "", "split K: each slice of x meets the next slice of w"},
      {"P-gemm-nibbles", "", "the two codes of a byte are swapped in w"},
      {"A-QT01", "", "e8m0 codes by shifting: 0 makes a block zero, NaN a large number"},
      {"P-gemm-e8m0-bias", "", "e8m0 scales are 2^(code - 128)"},
      {"P-gemm-e4m3-implicit", "", "subnormal e4m3 scales are read with an implicit one"},
      {"P-gemm-scale-blocks", "", "block scales are read from the next block"},
      {"P-gemm-scale-rows", "", "scale_x is that of row 0 for every row"},
      {"P-gemm-scale-bf16", "", "the product of the scales is rounded to bf16"},
      {"P-gemm-alpha-missing", "", "alpha is not applied"},
      {"P-gemm-alpha-twice", "", "alpha is applied twice"},
      {"P-gemm-result-scale", "", "scale_result is ignored (PyTorch 190449)"},
      {"P-gemm-double-rounding", "", "the result is rounded to f16 before its own format"},
      {"P-gemm-truncated-store", "", "the result is stored towards zero"},
      {"P-gemm-group", "", "every group reads the weights of the first"},
      {"P-gemm-bf16-accumulator", "", "partial sums are kept in bf16"},
      {"P-gemm-c-missing", "", "the accumulator is not read"},
      {"P-tc-nearest", "", "sums are rounded to nearest even where the unit truncates"},
      {"P-tc-narrow", "", "one bit less is kept below the greatest exponent"},
      {"P-tc-wide", "", "one bit more is kept below the greatest exponent"},
      {"P-tc-23-bits", "", "the fp8 accumulator keeps 23 bits where it keeps 13"},
      {"P-tc-half-groups", "", "two groups are added one after another where the unit adds one"},
      {"P-tc-zero-aligns", "", "a product with a zero factor takes part in the alignment"},
      {"P-tc-flush", "", "subnormal operands and sums are zero"},
      {"P-tc-nan", "", "NaN comes out as infinity"},
      {"P-tc-descending", "", "the sums of the slices are added from the last to the first"},
      {"P-tc-one-chain", "", "partial sums are not promoted: all of K is one chain"},
      {"P-tc-tf32-inputs", "", "operands are truncated to tf32 where they are rounded, or rounded"},
  };
}

Tensors as_read(const Problem& p, const Tensors& inputs, std::string_view fault) {
  Tensors read = inputs;
  Tensor &x = *read.find("x"), &w = *read.find("w");
  Tensor *scale_x = read.find("scale_x"), *scale_w = read.find("scale_w");
  if (fault == "P-gemm-tail") {
    const std::int64_t last = p.K - (p.K % 32 != 0 ? p.K % 32 : std::min<std::int64_t>(8, p.K));
    for_elements(x, p.K, [&](std::uint64_t code, std::int64_t k) { return k < last ? code : 0; });
  }
  if (fault == "P-gemm-slices") {
    const std::int64_t half = p.K / 2;
    gather(w, p.K, [&](std::int64_t k) { return k < 2 * half ? (k + half) % (2 * half) : k; });
  }
  if (fault == "P-gemm-nibbles" && p.w == Dtype::E2M1)
    gather(w, p.K, [&](std::int64_t k) { return (k ^ 1) < p.K ? k ^ 1 : k; });
  if (p.scale_block() > 0 && scale_x != nullptr && scale_w != nullptr) {
    const std::int64_t blocks = p.blocks();
    if (fault == "A-QT01" && p.scales == Scales::Mx) {
      zero_least_blocks(p, *scale_x, x);
      zero_least_blocks(p, *scale_w, w);
    }
    if (fault == "P-gemm-scale-blocks")
      gather(*scale_w, blocks, [&](std::int64_t b) { return (b + 1) % blocks; });
    if (fault == "P-gemm-scale-rows")
      for (std::int64_t i = 0; i < scale_x->elements(); ++i)
        scale_x->bytes[static_cast<std::size_t>(i)] =
            inputs.at("scale_x").bytes[static_cast<std::size_t>(i % blocks)];
    for (Tensor* scale : {scale_x, scale_w})
      for_elements(*scale, blocks, [&](std::uint64_t code, std::int64_t) -> std::uint64_t {
        if (fault == "A-QT01" && p.scales == Scales::Mx && code == 0xFF) return 0xFE;
        if (fault == "P-gemm-e8m0-bias" && p.scales == Scales::Mx && code > 0 && code < 0xFF)
          return code - 1;
        if (fault == "P-gemm-e4m3-implicit" && p.scales == Scales::Nvfp4 && (code & 0x78) == 0)
          return code | 0x08;
        return code;
      });
  }
  if (Tensor* c = read.find("c"); c != nullptr && fault == "P-gemm-c-missing")
    std::ranges::fill(c->bytes, std::byte{0});
  return read;
}

Faulty faulty(const tensorcore::Schedule& schedule, std::string_view fault) {
  Faulty f{.schedule = schedule};
  f.defect = {.nearest = fault == "P-tc-nearest",
              .fraction = fault == "P-tc-narrow" ? -1
                          : fault == "P-tc-wide" ? 1
                                                 : 0,
              .zero_aligns = fault == "P-tc-zero-aligns",
              .flushes = fault == "P-tc-flush",
              .nan_is_inf = fault == "P-tc-nan",
              .wide_fp8 = fault == "P-tc-23-bits",
              .half_groups = fault == "P-tc-half-groups",
              .bf16_accumulator = fault == "P-gemm-bf16-accumulator"};
  if (fault == "P-tc-descending") f.schedule.descending = !schedule.descending;
  if (fault == "P-tc-one-chain") f.schedule.slice = 0;
  if (fault == "P-tc-tf32-inputs") f.schedule.nearest_inputs = !schedule.nearest_inputs;
  return f;
}

}  // namespace parity::gemm
