// Two files of tensors, paired by name and compared in one pass over their bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/io/tensor_file.hpp"
#include "harness/numeric/pair_stats.hpp"

namespace parity::io {

// "model.*.weight=*.w": a pattern that matches a whole name; '*' stands for anything, and those of
// the replacement for what they matched, in order.
struct Rename {
  std::string pattern = {}, replacement = {};
};
Rename parse_rename(const std::string& text);
std::string renamed(const std::vector<Rename>&, const std::string& name);  // the first that matches

enum class DiffStatus {
  Equal,    // bit for bit
  Within,   // within --bound, or by --truth no worse than A
  Differs,  // values
  Dtype,    // formats; values are compared all the same
  Shape     // nothing is compared
};
std::string_view name(DiffStatus);

struct Point {
  std::int64_t index = -1;  // flat, row-major; -1: there is none
  double a = 0, b = 0;
};

// Against truth, over the elements in which both are finite.
struct TruthError {
  double rel_l2 = 0, max_abs = 0;
  std::int64_t nonfinite = 0;  // elements of which one is finite and the other is not
};

struct TensorDiff {
  std::string name = {};  // renamed
  TensorInfo a = {}, b = {};
  DiffStatus status = DiffStatus::Equal;
  PairStats stats = {};  // A is `want`; in f64, without ulps, where the formats differ
  Point first = {}, worst = {};
  std::optional<TruthError> error_a = {}, error_b = {};
  double ratio = 0;  // of the rel L2 errors, B over A; 0 without truth

  bool same_format() const { return a.dtype == b.dtype; }
  double rel_l2() const;
  double cosine() const;
  double norm_ratio() const;
};

struct DiffRequest {
  const TensorFile& a;
  const TensorFile& b;
  const TensorFile* truth = nullptr;
  std::vector<Rename> renames = {};
  std::optional<double> bound = {};  // largest |B - A| in units of the RMS of A (with truth: of C)
};

struct Diff {
  std::vector<TensorDiff> tensors = {};  // in the order of A
  std::vector<std::string> only_in_a = {}, only_in_b = {}, without_truth = {};
  const TensorDiff* first_difference() const;  // null where none differs
  int exit() const;  // 0 all equal or within, 1 not, 4 nothing was compared
};

Diff diff(const DiffRequest&);

}  // namespace parity::io
