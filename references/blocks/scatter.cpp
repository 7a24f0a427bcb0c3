#include "references/blocks/scatter.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace parity::net {
namespace {

std::vector<ImageRun> runs_of(const TokenRows& tokens) {
  std::vector<ImageRun> runs;
  for (std::int64_t b = 0; b < tokens.rows; ++b)
    for (std::int64_t t = 0; t < tokens.length; ++t) {
      const auto id = [&](std::int64_t at) {
        return tokens.ids[static_cast<std::size_t>(b * tokens.length + at)];
      };
      if (id(t) != tokens.image) continue;
      if (t == 0 || id(t - 1) != tokens.image)
        runs.push_back({static_cast<std::int64_t>(runs.size()), b, t, 0});
      ++runs.back().count;
    }
  return runs;
}

// Rows [first, first + count) of the features, to one slot after another.
void place(ScatterPlan& plan, std::int64_t slot, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    plan.slots[static_cast<std::size_t>(slot + i)] = {Slot::Of::Feature, first + i};
}

// One row of a merge: the last slot of each of its tokens were nothing padded, and the first row
// of features that a placeholder shows.
struct MergedRow {
  std::vector<std::int64_t> last = {}, first_feature = {};
  std::int64_t length() const { return last.back() + 1; }
};

std::vector<MergedRow> merged_rows(const TokenRows& tokens,
                                   const std::vector<std::int64_t>& counts) {
  std::vector<MergedRow> rows(static_cast<std::size_t>(tokens.rows));
  std::size_t item = 0, token = 0;
  std::int64_t feature = 0;
  for (MergedRow& row : rows) {
    std::int64_t at = -1;
    for (std::int64_t t = 0; t < tokens.length; ++t) {
      const bool image = tokens.ids[token++] == tokens.image;
      const std::int64_t count = image ? counts[item++] : 0;
      at += image ? count : 1;
      row.last.push_back(at);
      row.first_feature.push_back(feature);
      feature += count;
    }
  }
  return rows;
}

// The released rule: images stand in the free slots of a row, behind the first `missing` of them.
void place_in_free_slots(ScatterPlan& plan, std::int64_t row, std::int64_t missing,
                         std::int64_t feature) {
  for (std::int64_t s = row * plan.length, free = 0; s < (row + 1) * plan.length; ++s)
    if (plan.slots[static_cast<std::size_t>(s)].of == Slot::Of::Nothing && free++ >= missing)
      place(plan, s, feature++, 1);
}

// Mask and position ids from what the slots hold.
void number(ScatterPlan& plan, const MergeRows& merge) {
  plan.mask.assign(plan.slots.size(), 0);
  plan.positions.assign(plan.slots.size(), 1);
  plan.labels.assign(plan.slots.size(), kIgnoredLabel);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    if (i % static_cast<std::size_t>(plan.length) == 0) seen = 0;
    const auto [of, index] = plan.slots[i];
    const auto token = static_cast<std::size_t>(index);
    if (of == Slot::Of::Text) {
      plan.mask[i] = merge.mask[token];
      plan.labels[i] = merge.labels[token];
    }
    if (of == Slot::Of::Feature) plan.mask[i] = 1;
    if (plan.mask[i] != 0) plan.positions[i] = seen++;
  }
}

}  // namespace

ScatterPlan scatter_runs(const TokenRows& tokens, const std::vector<std::int64_t>& counts) {
  ScatterPlan plan{.rows = tokens.rows, .length = tokens.length, .runs = runs_of(tokens)};
  if (plan.runs.size() != counts.size()) {
    plan.refused =
        fmt::format("{} runs of placeholders for {} images", plan.runs.size(), counts.size());
    return plan;
  }
  for (std::size_t i = 0; i < tokens.ids.size(); ++i)
    plan.slots.push_back({Slot::Of::Text, static_cast<std::int64_t>(i)});
  std::int64_t first = 0;
  for (const ImageRun& run : plan.runs) {
    const std::int64_t count = counts[static_cast<std::size_t>(run.item)];
    if (run.count != count) {
      plan.refused = fmt::format("image {} has {} features for a run of {} placeholders", run.item,
                                 count, run.count);
      return plan;
    }
    place(plan, run.sample * tokens.length + run.start, first, count);
    first += count;
  }
  return plan;
}

ScatterPlan scatter_merged(const TokenRows& tokens, const std::vector<std::int64_t>& counts,
                           const MergeRows& merge) {
  ScatterPlan plan{.rows = tokens.rows};
  const auto images = static_cast<std::size_t>(std::ranges::count(tokens.ids, tokens.image));
  if (images != counts.size()) {
    plan.refused = fmt::format("{} placeholders for {} images", images, counts.size());
    return plan;
  }
  const std::vector<MergedRow> rows = merged_rows(tokens, counts);
  bool left = true;  // no row ends in padding
  for (std::int64_t b = 0; b < tokens.rows; ++b) {
    plan.length = std::max(plan.length, rows[static_cast<std::size_t>(b)].length());
    left &= tokens.ids[static_cast<std::size_t>((b + 1) * tokens.length - 1)] != merge.padding;
  }
  plan.slots.resize(static_cast<std::size_t>(plan.rows * plan.length));
  for (std::int64_t b = 0; b < tokens.rows; ++b) {
    const MergedRow& row = rows[static_cast<std::size_t>(b)];
    const std::int64_t missing = plan.length - row.length();
    const std::int64_t shift = b * plan.length + (left ? missing : 0);
    std::int64_t before = -1;
    for (std::size_t t = 0; t < row.last.size(); ++t) {
      const std::int64_t token = b * tokens.length + static_cast<std::int64_t>(t);
      if (tokens.ids[static_cast<std::size_t>(token)] != tokens.image)
        plan.slots[static_cast<std::size_t>(shift + row.last[t])] = {Slot::Of::Text, token};
      else if (!merge.released_right_padding)
        place(plan, shift + before + 1, row.first_feature[t], row.last[t] - before);
      before = row.last[t];
    }
    if (merge.released_right_padding)
      place_in_free_slots(plan, b, missing, row.first_feature.front());
  }
  number(plan, merge);
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {  // padding keeps its label and mask
    Slot& slot = plan.slots[i];
    if (slot.of == Slot::Of::Text &&
        tokens.ids[static_cast<std::size_t>(slot.index)] == merge.padding)
      slot = {};
  }
  return plan;
}

template <class T>
Array<T> scatter(const ScatterPlan& plan, const Array<T>& text, const Array<T>& features) {
  Array<T> y({plan.rows * plan.length, text.width()});
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    const auto [of, index] = plan.slots[static_cast<std::size_t>(i)];
    if (of == Slot::Of::Nothing) continue;
    const std::span<const T> row = (of == Slot::Of::Text ? text : features).row(index);
    std::ranges::copy(row, y.row(i).begin());
  }
  return y;
}

template <class T>
ScatterGradients<T> scatter_backward(const ScatterPlan& plan, const Array<T>& dy,
                                     std::int64_t tokens, std::int64_t features) {
  ScatterGradients<T> d{Array<T>({tokens, dy.width()}), Array<T>({features, dy.width()})};
  for (std::int64_t i = 0; i < dy.rows(); ++i) {
    const auto [of, index] = plan.slots[static_cast<std::size_t>(i)];
    if (of == Slot::Of::Nothing) continue;
    std::ranges::copy(dy.row(i), (of == Slot::Of::Text ? d.text : d.features).row(index).begin());
  }
  return d;
}

#define PARITY_INSTANTIATE(T)                                                                      \
  template Array<T> scatter(const ScatterPlan&, const Array<T>&, const Array<T>&);                 \
  template ScatterGradients<T> scatter_backward(const ScatterPlan&, const Array<T>&, std::int64_t, \
                                                std::int64_t);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
