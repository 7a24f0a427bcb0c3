#include "references/gemm/problem.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "harness/failure.hpp"

namespace parity::gemm {
namespace {

constexpr std::array<std::string_view, 5> kScales = {"none", "tensor", "row", "mx", "nvfp4"};

std::optional<Scales> scales_of(const Case& c) {
  const std::string name = c.options.get("scale", "none");
  const auto at = std::ranges::find(kScales, name);
  if (at == kScales.end()) return {};
  return static_cast<Scales>(at - kScales.begin());
}

Dtype dtype_option(const Case& c, std::string_view name, Dtype otherwise) {
  const std::string text = c.options.get(name, "");
  return text.empty() ? otherwise : parse_dtype(text);
}

TensorSpec spec(std::string name, Role role, Dtype dtype, std::vector<Dim> dims) {
  return {.name = std::move(name), .role = role, .dtype = dtype, .dims = std::move(dims)};
}

}  // namespace

std::int64_t Problem::scale_block() const {
  return scales == Scales::Mx ? 32 : scales == Scales::Nvfp4 ? 16 : 0;
}
std::int64_t Problem::blocks() const {
  return scale_block() == 0 ? 0 : (K + scale_block() - 1) / scale_block();
}

Problem problem_of(const Case& c) {
  return {.T = c.sizes.get("T", 1),
          .G = c.sizes.get("G", 0),
          .M = c.sizes["M"],
          .N = c.sizes["N"],
          .K = c.sizes["K"],
          .x = c.dtype,
          .w = dtype_option(c, "w", c.dtype),
          .y = dtype_option(c, "out", c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32),
          .scales = scales_of(c).value_or(Scales::None),
          .alpha = c.options.flag("alpha"),
          .result_scale = c.options.flag("result_scale"),
          .c = c.options.flag("c"),
          .bits = c.options.get("bits", "")};
}

std::string refuses(const Case& c) {
  constexpr std::array<std::string_view, 8> kKnown = {"w",    "out", "scale",        "alpha",
                                                      "bits", "c",   "result_scale", "found"};
  for (const auto& [name, value] : c.options.map())
    if (std::ranges::find(kKnown, name) == kKnown.end()) return "gemm has no option '" + name + "'";
  for (const char* size : {"M", "N", "K"})
    if (c.sizes.find(size) == nullptr) return fmt::format("a product has a size {}", size);
  if (!scales_of(c)) return "scale is none, tensor, row, mx or nvfp4";
  for (const char* type : {"w", "out"}) try {
      if (!format(dtype_option(c, type, c.dtype)).is_float) return "operands are floating point";
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
  const Problem p = problem_of(c);
  if (!format(p.x).is_float || p.x == Dtype::E8M0) return "operands are floating point";
  if (p.scales == Scales::Nvfp4 && (p.x != Dtype::E2M1 || p.w != Dtype::E2M1))
    return "nvfp4 scales are for e2m1 operands";
  if (p.G > 0 && p.T > 1) return "tiles or groups, not both";
  if (p.bits.empty())
    return p.x == Dtype::F64 ? "f64 is for bits= alone: its truth is no wider" : "";
  const auto schedule = schedule_of(p, p.bits);
  if (!schedule) return fmt::format("no schedule '{}' for {} x {}", p.bits, name(p.x), name(p.w));
  return p.alpha || p.result_scale || p.scales == Scales::Tensor || p.scales == Scales::Row
             ? "bits= is for what the matrix unit does itself"
             : "";
}

std::vector<std::int64_t> Problem::scale_shape(std::int64_t rows) const {
  if (scales == Scales::Tensor) return {1};
  if (scales == Scales::Row) return {rows};
  return {rows, blocks()};
}

std::vector<TensorSpec> inputs(const Case& c) {
  const Problem p = problem_of(c);
  const auto matrix = [&](std::int64_t count, const char* letter, std::int64_t rows,
                          const char* row_letter) {
    std::vector<Dim> dims;
    if (count > 0) dims.push_back({letter, count});
    dims.push_back({row_letter, rows});
    return dims;
  };
  const std::int64_t tiles = c.sizes.find("T") != nullptr ? p.T : 0;
  const std::vector<Dim> x_rows = matrix(tiles, "T", p.M, "M");
  const std::vector<Dim> w_rows =
      p.G > 0 ? matrix(p.G, "G", p.N, "N") : matrix(tiles, "T", p.N, "N");
  const auto with = [](std::vector<Dim> dims, const char* letter, std::int64_t extent) {
    dims.push_back({letter, extent});
    return dims;
  };
  std::vector<TensorSpec> specs = {spec("x", Role::Input, p.x, with(x_rows, "K", p.K)),
                                   spec("w", Role::Input, p.w, with(w_rows, "K", p.K))};
  if (p.scales == Scales::Tensor || p.scales == Scales::Row) {
    const bool row = p.scales == Scales::Row;
    specs.push_back(spec("scale_x", Role::Input, Dtype::F32, {{"M", row ? p.M : 1}}));
    specs.push_back(spec("scale_w", Role::Input, Dtype::F32, {{"N", row ? p.N : 1}}));
  } else if (p.scales != Scales::None) {
    const Dtype type = p.scales == Scales::Mx ? Dtype::E8M0 : Dtype::E4M3;
    specs.push_back(spec("scale_x", Role::Input, type, with(x_rows, "KB", p.blocks())));
    specs.push_back(spec("scale_w", Role::Input, type, with(w_rows, "KB", p.blocks())));
  }
  if (p.c) specs.push_back(spec("c", Role::Input, p.y, with(x_rows, "N", p.N)));
  if (p.alpha) specs.push_back(spec("alpha", Role::Input, Dtype::F32, {{"R", 1}}));
  if (p.result_scale) specs.push_back(spec("scale_result", Role::Input, Dtype::F32, {{"R", 1}}));
  if (p.G > 0) specs.push_back(spec("offs", Role::Ids, Dtype::I32, {{"G", p.G}}));
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Problem p = problem_of(c);
  std::vector<Dim> dims;
  if (c.sizes.find("T") != nullptr) dims.push_back({"T", p.T});
  dims.push_back({"M", p.M});
  dims.push_back({"N", p.N});
  return {spec("y", Role::Output, p.y, std::move(dims))};
}

bool derive(const Case& c, Tensor& t) {
  if (t.spec.name != "offs") return false;
  const Problem p = problem_of(c);
  const std::span<std::int32_t> ends = t.as<std::int32_t>();
  for (std::int64_t g = 0; g < p.G; ++g)  // the second group is empty
    ends[static_cast<std::size_t>(g)] =
        static_cast<std::int32_t>(g + 1 == p.G ? p.M : p.M * std::max<std::int64_t>(g, 1) / p.G);
  return true;
}

std::vector<Part> parts_of(const Problem& p, const Tensors& tensors) {
  std::vector<Part> parts;
  if (p.G == 0) {
    for (std::int64_t t = 0; t < p.T; ++t) parts.push_back({t * p.M, p.M, t * p.N});
    return parts;
  }
  std::int64_t first = 0;
  const Tensor& offs = tensors.at("offs");
  for (std::int64_t g = 0; g < p.G; ++g) {
    const std::int64_t end = offs.as<std::int32_t>()[static_cast<std::size_t>(g)];
    if (end < first || end > p.M)
      throw Failure(fmt::format("offs[{}] = {} is not an end of a group in {} rows", g, end, p.M));
    parts.push_back({first, end - first, g * p.N});
    first = end;
  }
  return parts;
}

std::optional<tensorcore::Schedule> schedule_of(const Problem& p, std::string_view name) {
  const auto parsed = tensorcore::parse_schedule(name);
  if (!parsed) return {};
  const auto schedule = tensorcore::schedule_for(*parsed, p.x, p.w);
  if (!schedule) return {};
  using tensorcore::Scaling;
  const Scaling wanted = p.scales == Scales::Mx      ? Scaling::E8M0
                         : p.scales == Scales::Nvfp4 ? Scaling::E4M3
                                                     : Scaling::None;
  return schedule->unit->scaling == wanted ? schedule : std::nullopt;
}

std::string_view schedule_name(const Contract& contract) {
  const std::string_view name = contract.name;
  return name.ends_with(kModelOnly) ? name.substr(0, name.size() - kModelOnly.size()) : name;
}

}  // namespace parity::gemm
