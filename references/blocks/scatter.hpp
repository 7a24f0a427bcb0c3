// Where features of images stand among the embeddings of text (k3.md §5.3).
//   runs    torchtitan: every image has a run of placeholder tokens as long as its features
//   merged  the released code: one placeholder an image, which expands to its features; the rest
//           of the row moves, shorter rows are padded on the left, or, where some row ends in the
//           padding token, on the right
// Both refuse what does not fit. Plans are integers only; scatter() then copies, and its backward
// gives slots of features to features and slots of text to text: the embedding of a placeholder
// takes no gradient.
#pragma once

#include <string>
#include <vector>

#include "references/blocks/run.hpp"

namespace parity::net {

// What fills a slot of the combined sequence.
struct Slot {
  enum class Of : std::uint8_t { Nothing, Text, Feature };
  Of of = Of::Nothing;
  std::int64_t index = 0;  // token of all [B T], or row of all features, items one after another
};

struct ImageRun {
  std::int64_t item = 0, sample = 0, start = 0, count = 0;
};

struct ScatterPlan {
  std::int64_t rows = 0, length = 0;
  std::vector<Slot> slots = {};                                      // [rows length]
  std::vector<ImageRun> runs = {};                                   // of `runs`
  std::vector<std::int64_t> mask = {}, positions = {}, labels = {};  // of `merged`
  std::string refused = {};
};

struct TokenRows {
  std::int64_t rows = 0, length = 0;
  std::vector<std::int64_t> ids = {};  // [rows length]
  std::int64_t image = 0;              // placeholder id
};

ScatterPlan scatter_runs(const TokenRows&, const std::vector<std::int64_t>& counts);

constexpr std::int64_t kIgnoredLabel = -100;
struct MergeRows {
  std::vector<std::int64_t> mask = {}, labels = {};  // of the tokens
  std::int64_t padding = 0;                          // id
  // The released code looks for images in the free slots behind as many as the row is short of the
  // longest, which are the right ones where the padding is on the left only.
  bool released_right_padding = false;
};
ScatterPlan scatter_merged(const TokenRows&, const std::vector<std::int64_t>& counts,
                           const MergeRows&);

// y [rows length, D] from text [B T, D] and features [sum of counts, D].
template <class T>
Array<T> scatter(const ScatterPlan&, const Array<T>& text, const Array<T>& features);
template <class T>
struct ScatterGradients {
  Array<T> text, features;
};
template <class T>
ScatterGradients<T> scatter_backward(const ScatterPlan&, const Array<T>& dy, std::int64_t tokens,
                                     std::int64_t features);

}  // namespace parity::net
