// Codes, scales and values of a chain as the truth of a case: the exact bits, and their values for
// the page.
#include <cmath>

#include "harness/failure.hpp"
#include "references/quantize/layout.hpp"
#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {
namespace {

ExpectedTensor codes_as_bits(const TensorSpec& spec, std::span<const std::uint8_t> codes) {
  ExpectedTensor t{.spec = spec};
  t.bits.resize(bytes_for(spec.dtype, static_cast<std::int64_t>(codes.size())));
  t.value.reserve(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    store_code(spec.dtype, t.bits.data(), static_cast<std::int64_t>(i), codes[i]);
    t.value.push_back(decode(spec.dtype, codes[i]));
    t.scale.push_back(std::fabs(t.value.back()));
  }
  return t;
}

// What a store of the wrong layout leaves: bytes of the right size.
std::vector<std::uint8_t> faulty_layout(const Quantised& q, Defect defect) {
  std::vector<std::uint8_t> good = swizzled(q.scales, q.rows, q.blocks);
  std::vector<std::uint8_t> bad(good.size(), defect == Defect::PaddingUnwritten ? 0x7F : 0);
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t c = 0; c < q.blocks; ++c) {
      const std::uint8_t byte = q.scales[static_cast<std::size_t>(r * q.blocks + c)];
      std::int64_t at = swizzled_offset(r, c, q.blocks);
      if (defect == Defect::SwizzleTransposed) {  // (r%128)/32 and c%4 swapped
        const std::int64_t inner = at % 16;
        at += inner % 4 * 4 + inner / 4 - inner;
      }
      if (defect == Defect::SwizzleSkipped) at = r * ((q.blocks + 3) / 4 * 4) + c;
      bad[static_cast<std::size_t>(at)] = byte;
    }
  }
  if (defect == Defect::SwizzledTwice) {
    const std::int64_t columns = (q.blocks + 3) / 4 * 4;
    bad = swizzled(good, static_cast<std::int64_t>(good.size()) / columns, columns);
  }
  return bad;
}

ExpectedTensor codes(const TensorSpec& spec, const Quantised& q, Defect defect) {
  ExpectedTensor t = codes_as_bits(spec, q.codes);
  if (defect == Defect::NibblesSwapped)
    for (std::byte& byte : t.bits) byte = (byte >> 4) | (byte << 4);
  t.ignore = q.open;
  return t;
}

ExpectedTensor swizzled_scales(const TensorSpec& spec, const Quantised& q, Defect defect) {
  const bool faulty = defect == Defect::SwizzledTwice || defect == Defect::SwizzleTransposed ||
                      defect == Defect::SwizzleSkipped || defect == Defect::PaddingUnwritten;
  return codes_as_bits(spec,
                       faulty ? faulty_layout(q, defect) : swizzled(q.scales, q.rows, q.blocks));
}

// Values that a chain fixes to the last bit, the sign of a zero included.
ExpectedTensor with_bits(ExpectedTensor t) {
  t.bits = make_tensor(t.spec, t.value).bytes;
  return t;
}

// Exact f32 results, rounded to the tensor's format.
ExpectedTensor values(const TensorSpec& spec, std::span<const float> results, Rounding mode) {
  ExpectedTensor t{.spec = spec};
  for (const float v : results) {
    t.value.push_back(round_to(spec.dtype, static_cast<double>(v), mode));
    t.scale.push_back(std::fabs(t.value.back()));
  }
  return with_bits(std::move(t));
}

ExpectedTensor dequant(const TensorSpec& spec, const Result& result, Defect defect) {
  ExpectedTensor t =
      values(spec, result.dequant,
             defect == Defect::DequantTruncated ? Rounding::TowardZero : Rounding::NearestEven);
  t.ignore.resize(t.value.size());
  for (std::size_t i = 0; i < t.value.size(); ++i)  // an open code under a finite scale
    t.ignore[i] = result.rows.open[i] != 0 && !std::isnan(t.value[i]) ? 1 : 0;
  return t;
}

ExpectedTensor gradient(const TensorSpec& spec, const Tensor& cotangent, const Result& result,
                        Defect defect) {
  ExpectedTensor t{.spec = spec};
  t.value = cotangent.widened();
  for (std::size_t i = 0; i < t.value.size(); ++i) {
    if (defect == Defect::GradientMasked && result.rows.clamped[i] != 0) t.value[i] = 0;
    if (defect == Defect::GradientOfDequant)
      t.value[i] = round_to(spec.dtype, static_cast<double>(result.dequant[i]));
    t.scale.push_back(std::fabs(t.value[i]));
  }
  return with_bits(std::move(t));
}

}  // namespace

Expected expected_of(const std::vector<TensorSpec>& specs, const Tensors& inputs,
                     const Result& result, Defect defect) {
  Expected expected;
  for (const TensorSpec& spec : specs) {
    ExpectedTensor t;
    if (spec.name == "codes") {
      t = codes(spec, result.rows, defect);
    } else if (spec.name == "codes_t") {
      t = codes(spec, result.columns, defect);
    } else if (spec.name == "scales") {
      t = codes_as_bits(spec, result.rows.scales);
    } else if (spec.name == "scales_t") {
      t = codes_as_bits(spec, result.columns.scales);
    } else if (spec.name == "scales_swizzled") {
      t = swizzled_scales(spec, result.rows, defect);
    } else if (spec.name == "encode_scale") {
      t = values(spec, result.rows.encode, Rounding::NearestEven);
    } else if (spec.name == "dequant" || spec.name == "dequant_f32") {
      t = dequant(spec, result, defect);
    } else if (spec.name == "grads/x") {
      t = gradient(spec, inputs.at("cotangents/dequant"), result, defect);
    } else {
      const auto scalar = result.scalars.find(spec.name);
      if (scalar == result.scalars.end()) throw Failure("no chain computes '" + spec.name + "'");
      t = values(spec, std::span(&scalar->second, 1), Rounding::NearestEven);
    }
    expected.tensors.push_back(std::move(t));
  }
  return expected;
}

// ---- tensors of a case
// -------------------------------------------------------------------------------------------------

TensorSpec codes_spec(std::string_view name, std::int64_t rows, std::int64_t columns) {
  return {.name = std::string(name),
          .role = Role::Codes,
          .dtype = Dtype::E2M1,
          .dims = {{"M", rows}, {"K", columns}}};
}

TensorSpec scales_spec(std::string_view name, std::int64_t rows, std::int64_t columns) {
  return {.name = std::string(name),
          .role = Role::Scales,
          .dtype = Dtype::E4M3,
          .dims = {{"M", rows}, {"KB", blocks_of(columns)}}};
}

TensorSpec scalar_spec(std::string_view name) {
  return {.name = std::string(name), .role = Role::Output, .dtype = Dtype::F32, .dims = {{"N", 1}}};
}

TensorSpec values_spec(std::string_view name, Dtype dtype, std::int64_t rows,
                       std::int64_t columns) {
  return {.name = std::string(name),
          .role = Role::Output,
          .dtype = dtype,
          .dims = {{"M", rows}, {"K", columns}}};
}

std::vector<TensorSpec> optional_specs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  std::vector<TensorSpec> specs;
  if (c.options.flag("swizzle")) {
    TensorSpec spec = scalar_spec("scales_swizzled");
    spec.role = Role::Scales;
    spec.dtype = Dtype::E4M3;
    spec.dims = {{"N", swizzled_bytes(rows, blocks_of(columns))}};
    specs.push_back(spec);
  }
  if (c.options.flag("dequant") || c.options.flag("ste"))
    specs.push_back(values_spec("dequant", c.dtype, rows, columns));
  if (c.options.flag("dequant_f32"))
    specs.push_back(values_spec("dequant_f32", Dtype::F32, rows, columns));
  if (c.options.flag("ste")) {
    TensorSpec spec = values_spec("grads/x", c.dtype, rows, columns);
    spec.role = Role::Gradient;
    specs.push_back(spec);
  }
  return specs;
}

}  // namespace parity::quantize
