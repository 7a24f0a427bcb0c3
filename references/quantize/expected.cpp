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
  std::vector<std::uint8_t> good = swizzled(q.scales, q.scale_rows(), q.blocks);
  std::vector<std::uint8_t> bad(good.size(), defect == Defect::PaddingUnwritten ? 0x7F : 0);
  for (std::int64_t r = 0; r < q.scale_rows(); ++r) {
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

// Scales of x^T restart the layout at every group of its columns, one buffer after the other.
std::vector<std::uint8_t> in_groups(const Quantised& q, const std::vector<std::int64_t>& groups) {
  std::vector<std::uint8_t> all;
  std::int64_t first = 0;
  for (const std::int64_t columns : groups) {
    const std::int64_t blocks = columns / q.block;
    std::vector<std::uint8_t> own;
    for (std::int64_t r = 0; r < q.rows; ++r)
      for (std::int64_t b = first; b < first + blocks; ++b)
        own.push_back(q.scales[static_cast<std::size_t>(r * q.blocks + b)]);
    const std::vector<std::uint8_t> buffer = swizzled(own, q.rows, blocks);
    all.insert(all.end(), buffer.begin(), buffer.end());
    first += blocks;
  }
  return all;
}

ExpectedTensor swizzled_scales(const TensorSpec& spec, const Quantised& q,
                               const std::vector<std::int64_t>& groups, Defect defect) {
  const bool faulty = defect == Defect::SwizzledTwice || defect == Defect::SwizzleTransposed ||
                      defect == Defect::SwizzleSkipped || defect == Defect::PaddingUnwritten;
  if (faulty) return codes_as_bits(spec, faulty_layout(q, defect));
  if (groups.empty() || defect == Defect::GroupsIgnored)
    return codes_as_bits(spec, swizzled(q.scales, q.scale_rows(), q.blocks));
  return codes_as_bits(spec, in_groups(q, groups));
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
    if (defect == Defect::GradientMasked && std::fabs(result.rows.scaled[i]) > kMaxE2m1)
      t.value[i] = 0;
    if (defect == Defect::GradientOfDequant)
      t.value[i] = round_to(spec.dtype, static_cast<double>(result.dequant[i]));
    t.scale.push_back(std::fabs(t.value[i]));
  }
  return with_bits(std::move(t));
}

}  // namespace

namespace {

ExpectedTensor tensor_of(const TensorSpec& spec, const Tensors& inputs, const Result& result,
                         Defect defect) {
  const bool turned = spec.name.ends_with("_t") && !result.values.contains(spec.name);
  const Quantised& q = turned ? result.columns : result.rows;
  const std::string name = turned ? spec.name.substr(0, spec.name.size() - 2) : spec.name;
  if (name == "codes") return codes(spec, q, defect);
  if (name == "scales") return codes_as_bits(spec, q.scales);
  if (name == "scales_swizzled")
    return swizzled_scales(spec, q, turned ? result.groups : std::vector<std::int64_t>{}, defect);
  if (name == "encode_scale") return values(spec, q.encode, Rounding::NearestEven);
  if (name == "dequant" || name == "dequant_f32") return dequant(spec, result, defect);
  if (name == "grads/x") return gradient(spec, inputs.at("cotangents/dequant"), result, defect);
  const auto own = result.values.find(name);
  if (own == result.values.end()) throw Failure("no chain computes '" + spec.name + "'");
  ExpectedTensor t = values(spec, own->second, Rounding::NearestEven);
  if (const auto size = result.magnitudes.find(name); size != result.magnitudes.end()) {
    t.bits.clear();
    t.scale.assign(size->second.begin(), size->second.end());
  }
  return t;
}

}  // namespace

Expected expected_of(const std::vector<TensorSpec>& specs, const Tensors& inputs,
                     const Result& result, Defect defect) {
  Expected expected;
  for (const TensorSpec& spec : specs)
    expected.tensors.push_back(tensor_of(spec, inputs, result, defect));
  return expected;
}

// ---- tensors of a case
// -------------------------------------------------------------------------------------------------

std::vector<TensorSpec> plain_inputs(const Case& c) {
  TensorSpec x = values_spec("x", c.dtype, rows_of(c), columns_of(c));
  x.role = Role::Input;
  if (c.sizes.find("M") == nullptr) x.dims.erase(x.dims.begin());
  std::vector<TensorSpec> specs = {x};
  if (c.options.flag("ste")) {
    x.name = "cotangents/dequant";
    x.role = Role::Cotangent;
    specs.push_back(std::move(x));
  }
  return specs;
}

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

TensorSpec vector_spec(std::string_view name, std::int64_t n) {
  return {.name = std::string(name), .role = Role::Output, .dtype = Dtype::F32, .dims = {{"N", n}}};
}

TensorSpec scalar_spec(std::string_view name) { return vector_spec(name, 1); }

TensorSpec swizzled_spec(std::string_view name, std::int64_t bytes) {
  TensorSpec spec = vector_spec(name, bytes);
  spec.role = Role::Scales;
  spec.dtype = Dtype::E4M3;
  return spec;
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
  if (c.options.flag("swizzle"))
    specs.push_back(swizzled_spec("scales_swizzled", swizzled_bytes(rows, blocks_of(columns))));
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

std::vector<TensorSpec> traced_or(const Case& c, std::vector<TensorSpec> own) {
  if (!c.options.flag("trace")) return own;
  TensorSpec encode = values_spec("encode_scale", Dtype::F32, rows_of(c), blocks_of(columns_of(c)));
  encode.dims.back().name = "KB";
  return {scalar_spec("tensor_amax"), scales_spec("scales", rows_of(c), columns_of(c)),
          std::move(encode), codes_spec("codes", rows_of(c), columns_of(c)),
          values_spec("dequant_f32", Dtype::F32, rows_of(c), columns_of(c))};
}

}  // namespace parity::quantize
