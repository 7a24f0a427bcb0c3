#include "references/integer/tensors.hpp"

#include <cmath>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::integer {

TensorSpec group_spec(std::string_view name, Role role, Dtype dtype, std::int64_t groups) {
  return {.name = std::string(name), .role = role, .dtype = dtype, .dims = {{"G", groups}}};
}

namespace {

// "1x32" -> {1, 32}; 0 stands for the whole axis.
std::pair<std::int64_t, std::int64_t> parse_block(const std::string& text) {
  const std::size_t x = text.find('x');
  if (x == std::string::npos) throw UsageError("block=" + text + " is not ROWSxCOLUMNS");
  return {parity::to_integer(text.substr(0, x), "block rows"),
          parity::to_integer(text.substr(x + 1), "block columns")};
}

// "(1, 32)" -> "1x32".
std::string block_option(const std::string& attribute) {
  std::string text;
  for (const char c : attribute) {
    if (c >= '0' && c <= '9') text += c;
    if (c == ',') text += 'x';
  }
  return text;
}

}  // namespace

Affine affine_of(const Case& c, std::string_view fault) {
  Affine a;
  a.mapping = parse_mapping(c.options.get("mapping", "symmetric"));
  a.qmin = static_cast<int>(c.options.integer("qmin", -128));
  a.qmax = static_cast<int>(c.options.integer("qmax", 127));
  a.data = c.dtype;
  a.scale = parse_dtype(c.options.get("scale", std::string(name(c.dtype))));
  a.eps = static_cast<float>(c.options.real("eps", 0x1p-126));
  const auto [rows, columns] = parse_block(c.options.get("block", "1x0"));
  a.block_rows = rows == 0 ? rows_of(c) : rows;
  a.block_columns = columns == 0 ? columns_of(c) : columns;
  a.defect = defect_of(fault);
  return a;
}

std::int64_t groups_of(const Case& c, const Affine& a) {
  return rows_of(c) / a.block_rows * (columns_of(c) / a.block_columns);
}

void import_affine(const StoredCase& stored, ImportedCase& imported) {
  using chains::attribute;
  Options& options = imported.problem.options;
  const std::string mapping = attribute(stored, "mapping_type");
  if (!mapping.empty()) {
    const Mapping kind = parse_mapping(mapping);
    options.set("mapping", kind == Mapping::Symmetric    ? "symmetric"
                           : kind == Mapping::NoClipping ? "no_clipping"
                                                         : "asymmetric");
  }
  if (const std::string v = attribute(stored, "quant_min"); !v.empty()) options.set("qmin", v);
  if (const std::string v = attribute(stored, "quant_max"); !v.empty()) options.set("qmax", v);
  if (const std::string v = attribute(stored, "block"); !v.empty())
    options.set("block", block_option(v));
  const std::string scale = attribute(stored, "scale_dtype");
  if (!scale.empty() && scale != "input dtype") options.set("scale", name(parse_dtype(scale)));
  const std::string eps = attribute(stored, "eps");
  if (!eps.empty() && !eps.starts_with("default")) options.set("eps", eps);
  if (chains::holds(stored, "outputs/codes"))
    options.set("codes", name(stored.read("outputs/codes").spec.dtype));
}

std::vector<float> floats_of(const Tensor& t) { return quantize::matrix_of(t).values; }

ExpectedTensor affine_tensor(const TensorSpec& spec, const Integers& q) {
  if (spec.name.ends_with("codes")) return chains::exact(spec, q.codes, q.open);
  if (spec.name.ends_with("scale")) {
    std::vector<float> scales;
    for (const Group& g : q.groups) scales.push_back(g.scale);
    return chains::exact(spec, scales);
  }
  if (spec.name.ends_with("zero_point")) {
    std::vector<float> zeros;
    std::vector<std::uint8_t> open;
    for (const Group& g : q.groups) {
      zeros.push_back(g.open ? 0 : g.zero);
      open.push_back(g.open ? 1 : 0);
    }
    return chains::exact(spec, zeros, std::move(open));
  }
  if (spec.name.ends_with("mask"))
    return chains::exact(spec, std::vector<double>(q.inside.begin(), q.inside.end()));
  // A value is open with its code, but where it is NaN whatever the code.
  std::vector<std::uint8_t> open = q.open;
  for (std::size_t i = 0; i < open.size(); ++i)
    if (std::isnan(q.values[i])) open[i] = 0;
  return chains::exact(spec, q.values, std::move(open));
}

}  // namespace parity::integer
