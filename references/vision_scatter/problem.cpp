#include "references/vision_scatter/problem.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/blocks/scatter.hpp"

namespace parity::net::vision {
namespace {

constexpr std::int64_t kUsualImage = 7, kUsualPadding = 0, kMostTokens = 1 << 20;

std::vector<std::int64_t> counts_of(const std::string& text) {
  std::vector<std::int64_t> counts;
  for (const std::string& part : split(text, '+'))
    counts.push_back(to_integer(part, "counts of features"));
  return counts;
}

std::vector<Dim> by_slot(const ScatterProblem& p) {
  return p.merge ? std::vector<Dim>{{"B", p.B}, {"S", p.S}}
                 : std::vector<Dim>{{"B", p.B}, {"T", p.T}};
}

std::vector<Dim> with_width(std::vector<Dim> dims, const ScatterProblem& p) {
  dims.push_back({"D", p.D});
  return dims;
}

std::vector<TensorSpec> tables(const Case& c, const ScatterProblem& p) {
  std::vector<TensorSpec> specs;
  if (p.merge) {
    for (std::size_t i = 0; i < p.counts.size(); ++i)
      specs.push_back({.name = fmt::format("feature{}", i),
                       .dtype = c.dtype,
                       .dims = {{"N", p.counts[i]}, {"D", p.D}}});
  } else if (!p.counts.empty()) {
    specs.push_back({.name = "features",
                     .dtype = c.dtype,
                     .dims = {{"N", static_cast<std::int64_t>(p.counts.size())},
                              {"S", p.most_features()},
                              {"D", p.D}}});
  }
  specs.push_back({.name = "embedding", .dtype = c.dtype, .dims = {{"V", p.V}, {"D", p.D}}});
  return specs;
}

// The k-th token of text: any id but the placeholder's and the padding's, all of them in turn.
std::int64_t text_id(const Case& c, const ScatterProblem& p, std::int64_t k) {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < p.V; ++id)
    if (id != p.image && (!p.merge || id != p.padding)) ids.push_back(id);
  const auto seed = static_cast<std::int64_t>(c.seed % 1021);
  return ids[static_cast<std::size_t>((k * 5 + seed) % static_cast<std::int64_t>(ids.size()))];
}

}  // namespace

std::int64_t ScatterProblem::features() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}
std::int64_t ScatterProblem::most_features() const {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

std::vector<std::string> parse_layout(const std::string& text) {
  std::vector<std::string> rows;
  for (const std::string& row : split(text, '+')) {
    rows.emplace_back();
    for (std::size_t i = 0; i < row.size();) {
      const char kind = row[i];
      const std::size_t end = std::min(row.find_first_not_of("0123456789", i + 1), row.size());
      const std::int64_t n = to_integer(row.substr(i + 1, end - i - 1), "tokens of layout " + row);
      if ((kind != 't' && kind != 'i' && kind != 'p') || n < 1 || n > kMostTokens)
        throw UsageError(fmt::format("a layout is of t, i and p with numbers, not '{}'", row));
      rows.back().append(static_cast<std::size_t>(n), kind);
      i = end;
    }
  }
  return rows;
}

std::string print_layout(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) {
    if (&row != rows.data()) text += '+';
    for (std::size_t i = 0; i < row.size();) {
      const std::size_t end = std::min(row.find_first_not_of(row[i], i), row.size());
      text += fmt::format("{}{}", row[i], end - i);
      i = end;
    }
  }
  return text;
}

ScatterProblem scatter_problem_of(const Case& c) {
  ScatterProblem p{.B = c.sizes["B"], .T = c.sizes["T"], .D = c.sizes["D"], .V = c.sizes["V"]};
  p.image = c.options.integer("image_id", kUsualImage);
  p.padding = c.options.integer("pad_id", kUsualPadding);
  p.merge = c.options.get("form", "runs") == "merge";
  p.S = c.sizes.get("S", p.T);
  p.rightpad_bug = c.options.flag("rightpad_bug");
  p.counts = counts_of(c.options.get("counts", ""));
  return p;
}

std::vector<TensorSpec> scatter_inputs(const Case& c) {
  const ScatterProblem p = scatter_problem_of(c);
  const auto integers = [&](const char* name, std::vector<Dim> dims) {
    return TensorSpec{.name = name, .dtype = Dtype::I64, .dims = std::move(dims)};
  };
  const std::vector<Dim> by_token = {{"B", p.B}, {"T", p.T}};
  std::vector<TensorSpec> specs = {integers("tokens", by_token)};
  if (p.merge) {
    specs.push_back(integers("attention_mask", by_token));
    specs.push_back(integers("labels", by_token));
  } else if (!p.counts.empty()) {
    specs.push_back(integers("counts", {{"N", static_cast<std::int64_t>(p.counts.size())}}));
  }
  for (TensorSpec& spec : tables(c, p)) specs.push_back(std::move(spec));
  specs.push_back({.name = "cotangents/y",
                   .role = Role::Cotangent,
                   .dtype = c.dtype,
                   .dims = with_width(by_slot(p), p)});
  return specs;
}

std::vector<TensorSpec> scatter_outputs(const Case& c) {
  const ScatterProblem p = scatter_problem_of(c);
  std::vector<TensorSpec> specs = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = with_width(by_slot(p), p)}};
  const auto integers = [&](const char* name, std::vector<Dim> dims) {
    specs.push_back(
        {.name = name, .role = Role::Ids, .dtype = Dtype::I64, .dims = std::move(dims)});
  };
  if (p.merge) {
    for (const char* name : {"attention_mask", "labels", "position_ids"})
      integers(name, by_slot(p));
  } else if (!p.counts.empty()) {
    integers("positions", {{"N", static_cast<std::int64_t>(p.counts.size())}, {"A", 4}});
  }
  for (const TensorSpec& table : tables(c, p))
    specs.push_back({.name = "grads/inputs/" + table.name,
                     .role = Role::Gradient,
                     .dtype = c.dtype,
                     .dims = table.dims});
  return specs;
}

bool scatter_derive(const Case& c, Tensor& tensor) {
  const std::string& name = tensor.spec.name;
  if (name != "tokens" && name != "counts" && name != "attention_mask" && name != "labels")
    return false;
  const ScatterProblem p = scatter_problem_of(c);
  const std::span<std::int64_t> to = tensor.as<std::int64_t>();
  if (name == "counts") {
    std::ranges::copy(p.counts, to.begin());
    return true;
  }
  std::size_t i = 0;
  for (const std::string& row : parse_layout(c.options.get("layout", "")))
    for (const char kind : row) {
      const std::int64_t id = kind == 'i'   ? p.image
                              : kind == 'p' ? p.padding
                                            : text_id(c, p, static_cast<std::int64_t>(i));
      if (name == "tokens") to[i] = id;
      if (name == "attention_mask") to[i] = kind != 'p';
      if (name == "labels")
        to[i] = kind == 't' ? 100 + static_cast<std::int64_t>(i) : kIgnoredLabel;
      ++i;
    }
  return true;
}

std::string scatter_refuses(const Case& c) {
  for (const auto& [name, value] : c.options.map()) {
    constexpr std::string_view kKnown[] = {"form",     "counts", "layout",
                                           "image_id", "pad_id", "rightpad_bug"};
    if (!std::ranges::count(kKnown, name))
      return fmt::format("vision_scatter has no option '{}'", name);
    if (name == "form" && value != "runs" && value != "merge")
      return fmt::format("form is not '{}'", value);
  }
  const ScatterProblem p = scatter_problem_of(c);
  const std::vector<std::string> rows = parse_layout(c.options.get("layout", ""));
  if (static_cast<std::int64_t>(rows.size()) != p.B) return "a layout has B rows";
  for (const std::string& row : rows)
    if (static_cast<std::int64_t>(row.size()) != p.T) return "a row of the layout has T tokens";
  for (const std::int64_t n : p.counts)
    if (n < 1) return "an image has a feature";
  if (p.image < 0 || p.image >= p.V) return "the placeholder is a token of the vocabulary";
  if (p.merge && (p.padding < 0 || p.padding >= p.V || p.padding == p.image))
    return "the padding is a token of the vocabulary, and not the placeholder";
  return p.V < 3 ? "text needs a token of its own" : "";
}

}  // namespace parity::net::vision
