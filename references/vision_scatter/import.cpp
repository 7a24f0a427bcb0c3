// Stored scatters: with a dataset of counts and padded features (torchtitan), or one of features
// for each image (the released code).
#include <algorithm>
#include <fmt/format.h>

#include "references/blocks/scatter.hpp"
#include "references/blocks/stored.hpp"
#include "references/vision_scatter/problem.hpp"

namespace parity::net::vision {
namespace {

std::vector<std::int64_t> integers(const StoredCase& stored, const std::string& path) {
  std::vector<std::int64_t> values;
  for (const double x : stored.read(path).widened()) values.push_back(static_cast<std::int64_t>(x));
  return values;
}

std::vector<std::int64_t> counts_of(const StoredCase& stored) {
  if (holds(stored, "inputs/counts")) return integers(stored, "inputs/counts");
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0;; ++i) {
    const std::string path = fmt::format("inputs/feature{}", i);
    if (!holds(stored, path)) return counts;
    counts.push_back(stored_shape(stored, path).at(0));
  }
}

// Slots of a row after a merge, if every placeholder has its image.
std::int64_t merged_length(const TokenRows& tokens, const std::vector<std::int64_t>& counts,
                           const MergeRows& merge) {
  const ScatterPlan plan = scatter_merged(tokens, counts, merge);
  return plan.refused.empty() ? plan.length : tokens.length;
}

}  // namespace

ImportedCase scatter_import(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  Options& o = c.options;
  c.op = "vision_scatter";
  c.dtype = stored_dtype(stored);
  const bool merge = !holds(stored, "inputs/features");
  const std::vector<std::int64_t> shape = stored_shape(stored, "inputs/tokens");
  const std::vector<std::int64_t> table = stored_shape(stored, "inputs/embedding");
  const TokenRows tokens{.rows = shape.at(0),
                         .length = shape.at(1),
                         .ids = integers(stored, "inputs/tokens"),
                         .image = stored_integer(stored, "image_id", 7)};
  const std::int64_t padding = stored_integer(stored, "pad_id", 0);
  const std::vector<std::int64_t> counts = counts_of(stored);
  std::vector<std::string> layout(static_cast<std::size_t>(tokens.rows));
  bool right = false;  // some row ends in padding
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::int64_t id = tokens.ids[i];
    std::string& row = layout[i / static_cast<std::size_t>(tokens.length)];
    row += id == tokens.image ? 'i' : merge && id == padding ? 'p' : 't';
    right |= static_cast<std::int64_t>(row.size()) == tokens.length && row.back() == 'p';
  }
  c.sizes = Sizes{{"B", tokens.rows, {}},
                  {"T", tokens.length, {}},
                  {"D", table.at(1), {}},
                  {"V", table.at(0), {}}};
  std::string text;
  for (const std::int64_t n : counts) text += fmt::format("{}{}", text.empty() ? "" : "+", n);
  o.set("counts", text);
  o.set("layout", print_layout(layout));
  if (tokens.image != 7) o.set("image_id", std::to_string(tokens.image));
  if (merge) {
    o.set("form", "merge");
    if (padding != 0) o.set("pad_id", std::to_string(padding));
    if (right) o.set("rightpad_bug", "1");
    const MergeRows rows{.mask = integers(stored, "inputs/attention_mask"),
                         .labels = integers(stored, "inputs/labels"),
                         .padding = padding};
    c.sizes.set({"S", merged_length(tokens, counts, rows), {}});
  }
  import_composite(stored, registry().op_or_throw(c.op), imported);
  return imported;
}

}  // namespace parity::net::vision
