#include "golden/io/diff.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "harness/bound.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::int64_t kBlock = 1 << 19;  // elements at a time; even, for packed codes

double relative(double sum_sq_diff, double sum_sq) {
  if (sum_sq > 0) return std::sqrt(sum_sq_diff / sum_sq);
  return sum_sq_diff > 0 ? std::numeric_limits<double>::infinity() : 0;
}

// Statistics of consecutive pieces, added in sequence.
void append(PairStats& all, const PairStats& part) {
  if (part.max_abs > all.max_abs && part.worst_index >= 0)
    all.worst_index = all.elements + part.worst_index;
  all.elements += part.elements;
  all.differing += part.differing;
  all.mismatched_nonfinite += part.mismatched_nonfinite;
  all.nan_a += part.nan_a;
  all.nan_b += part.nan_b;
  all.inf_a += part.inf_a;
  all.inf_b += part.inf_b;
  all.zero_a += part.zero_a;
  all.zero_b += part.zero_b;
  all.finite_pairs += part.finite_pairs;
  all.want_zero_got_nonzero += part.want_zero_got_nonzero;
  all.sum_sq_diff += part.sum_sq_diff;
  all.sum_sq_a += part.sum_sq_a;
  all.sum_sq_b += part.sum_sq_b;
  all.dot += part.dot;
  all.sum_diff += part.sum_diff;
  all.sum_abs_diff += part.sum_abs_diff;
  all.max_abs = std::max(all.max_abs, part.max_abs);
  all.max_rel = std::max(all.max_rel, part.max_rel);
  all.max_ulp = std::max(all.max_ulp, part.max_ulp);
  all.sum_ulp += part.sum_ulp;
  for (std::size_t i = 0; i < all.log2_ulp_histogram.size(); ++i)
    all.log2_ulp_histogram[i] += part.log2_ulp_histogram[i];
}

// One side of a pair, block by block: its bytes, and its values where they are asked for.
struct Side {
  const TensorFile& file;
  std::size_t tensor = 0;
  std::vector<std::byte> bytes = {};
  std::vector<double> values = {};

  const TensorInfo& info() const { return file.tensors()[tensor]; }
  void read(std::int64_t first, std::int64_t count) {
    bytes.resize(bytes_for(info().dtype, count));
    file.read(tensor, static_cast<std::int64_t>(bytes_for(info().dtype, first)), bytes);
  }
  void widen(std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    parity::widen(info().dtype, bytes.data(), 0, values);
  }
  double at(std::int64_t index) const {
    return decode(info().dtype, load_code(info().dtype, bytes.data(), index));
  }
};

PairStats of_values(const std::vector<double>& want, const std::vector<double>& got) {
  return pair_stats(Dtype::F64, reinterpret_cast<const std::byte*>(want.data()),
                    reinterpret_cast<const std::byte*>(got.data()),
                    static_cast<std::int64_t>(want.size()));
}

// First element of a block that differs; there is one.
std::int64_t first_in(const Side& a, const Side& b, bool same_format, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    if (same_format ? load_code(a.info().dtype, a.bytes.data(), i) !=
                          load_code(b.info().dtype, b.bytes.data(), i)
                    : std::bit_cast<std::uint64_t>(a.values[static_cast<std::size_t>(i)]) !=
                          std::bit_cast<std::uint64_t>(b.values[static_cast<std::size_t>(i)]))
      return i;
  throw Failure("a difference that is not found again");
}

struct Errors {
  PairStats a = {}, b = {}, rounding = {};  // rounding: truth stored once in the format of B
};

TruthError error_of(const PairStats& stats) {
  return {.rel_l2 = relative(stats.sum_sq_diff, stats.sum_sq_a),
          .max_abs = stats.max_abs,
          .nonfinite = stats.mismatched_nonfinite};
}

double rms_of(const PairStats& stats) {
  return std::sqrt(stats.sum_sq_a /
                   static_cast<double>(std::max<std::int64_t>(1, stats.finite_pairs)));
}

bool is_within(const PairStats& stats, double bound) {
  return stats.mismatched_nonfinite == 0 && stats.max_abs <= bound * rms_of(stats);
}

// B is no further from truth than twice as far as A, or as truth itself once it is stored in the
// format of B: the ratio of harness/bound.hpp for candidates of which only the data types are
// known.
bool no_worse(const Errors& errors) {
  const double factor = ratio_factor(Fidelity::Partial);
  const TruthError a = error_of(errors.a), b = error_of(errors.b), r = error_of(errors.rounding);
  return b.nonfinite == 0 && b.rel_l2 <= factor * std::max(a.rel_l2, r.rel_l2) &&
         b.max_abs <= factor * std::max(a.max_abs, r.max_abs);
}

void compare(TensorDiff& result, Side a, Side b, std::optional<Side> truth,
             std::optional<double> bound) {
  const bool same = result.same_format();
  Errors errors;
  std::vector<std::byte> stored;
  std::vector<double> rounded;
  for (std::int64_t first = 0; first < a.info().elements; first += kBlock) {
    const std::int64_t count = std::min(kBlock, a.info().elements - first);
    a.read(first, count);
    b.read(first, count);
    if (!same || truth) a.widen(count), b.widen(count);
    const PairStats part = same ? pair_stats(a.info().dtype, a.bytes.data(), b.bytes.data(), count)
                                : of_values(a.values, b.values);
    if (part.differing > 0 && result.first.index < 0) {
      const std::int64_t i = first_in(a, b, same, count);
      result.first = {first + i, a.at(i), b.at(i)};
    }
    if (part.worst_index >= 0 && part.max_abs > result.stats.max_abs)
      result.worst = {first + part.worst_index, a.at(part.worst_index), b.at(part.worst_index)};
    append(result.stats, part);
    if (!truth) continue;
    truth->read(first, count);
    truth->widen(count);
    append(errors.a, of_values(truth->values, a.values));
    append(errors.b, of_values(truth->values, b.values));
    stored.resize(bytes_for(b.info().dtype, count));
    rounded.resize(static_cast<std::size_t>(count));
    if (!format(b.info().dtype).is_float) continue;  // an integer is meant to be exact
    narrow(b.info().dtype, truth->values, 0, stored.data());
    widen(b.info().dtype, stored.data(), 0, rounded);
    append(errors.rounding, of_values(truth->values, rounded));
  }
  if (!same)
    result.stats.max_ulp = 0, result.stats.sum_ulp = 0, result.stats.log2_ulp_histogram = {};
  if (truth) {
    result.error_a = error_of(errors.a);
    result.error_b = error_of(errors.b);
    const double least = result.error_a->rel_l2;
    result.ratio = result.error_b->rel_l2 == least ? 1 : result.error_b->rel_l2 / least;
  }
  if (same && result.stats.differing == 0 && !truth)
    result.status = DiffStatus::Equal;
  else if (truth ? (bound ? is_within(errors.a, *bound) && is_within(errors.b, *bound)
                          : no_worse(errors))
                 : bound && is_within(result.stats, *bound))
    result.status = same && result.stats.differing == 0 ? DiffStatus::Equal : DiffStatus::Within;
  else
    result.status = same ? DiffStatus::Differs : DiffStatus::Dtype;
}

// Where a pattern matches a whole name, what its '*' stand for: the shortest first, with a way back
// to the last '*' only, which is enough for globs.
std::optional<std::vector<std::string>> captures(const std::string& pattern,
                                                 const std::string& name) {
  std::vector<std::pair<std::size_t, std::size_t>> stars;  // begin, end in the name
  std::vector<std::size_t> after;                          // in the pattern, behind each '*'
  std::size_t p = 0, n = 0;
  while (n < name.size() || p < pattern.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      stars.emplace_back(n, n);
      after.push_back(++p);
    } else if (p < pattern.size() && n < name.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (!stars.empty() && stars.back().second < name.size()) {
      n = ++stars.back().second;
      p = after.back();
    } else {
      return std::nullopt;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [begin, end] : stars) parts.push_back(name.substr(begin, end - begin));
  return parts;
}

std::unordered_map<std::string, std::size_t> names_of(const TensorFile& file,
                                                      const std::vector<Rename>& renames) {
  std::unordered_map<std::string, std::size_t> names;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string& old = file.tensors()[i].name;
    const auto [it, fresh] = names.emplace(renamed(renames, old), i);
    if (!fresh)
      throw UsageError("--rename: '" + file.tensors()[it->second].name + "' and '" + old + "' of " +
                       file.path().string() + " are both called '" + it->first + "'");
  }
  return names;
}

}  // namespace

Rename parse_rename(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UsageError("--rename " + text + ": write it 'PATTERN=REPLACEMENT'");
  Rename rename{text.substr(0, at), text.substr(at + 1)};
  if (std::ranges::count(rename.replacement, '*') > std::ranges::count(rename.pattern, '*'))
    throw UsageError("--rename " + text + ": the replacement has more '*' than the pattern");
  return rename;
}

std::string renamed(const std::vector<Rename>& renames, const std::string& name) {
  for (const Rename& rename : renames)
    if (const auto parts = captures(rename.pattern, name)) {
      std::string text;
      std::size_t next = 0;
      for (const char c : rename.replacement) {
        if (c == '*')
          text += (*parts)[next++];
        else
          text += c;
      }
      return text;
    }
  return name;
}

std::string_view name(DiffStatus status) {
  switch (status) {
    case DiffStatus::Equal:
      return "equal";
    case DiffStatus::Within:
      return "within";
    case DiffStatus::Differs:
      return "differs";
    case DiffStatus::Dtype:
      return "dtype";
    case DiffStatus::Shape:
      return "shape";
  }
  return "?";
}

double TensorDiff::rel_l2() const { return relative(stats.sum_sq_diff, stats.sum_sq_a); }

double TensorDiff::cosine() const {
  if (stats.sum_sq_a == 0 || stats.sum_sq_b == 0) return stats.sum_sq_a == stats.sum_sq_b ? 1 : 0;
  return stats.dot / (std::sqrt(stats.sum_sq_a) * std::sqrt(stats.sum_sq_b));
}

double TensorDiff::norm_ratio() const {
  if (stats.sum_sq_a == stats.sum_sq_b) return 1;
  return std::sqrt(stats.sum_sq_b) / std::sqrt(stats.sum_sq_a);
}

const TensorDiff* Diff::first_difference() const {
  for (const TensorDiff& tensor : tensors)
    if (tensor.status != DiffStatus::Equal && tensor.status != DiffStatus::Within) return &tensor;
  return nullptr;
}

int Diff::exit() const {
  if (tensors.empty()) return 4;
  return first_difference() || !only_in_a.empty() || !only_in_b.empty() || !without_truth.empty();
}

Diff diff(const DiffRequest& request) {
  const auto names_a = names_of(request.a, request.renames);
  const auto names_b = names_of(request.b, request.renames);
  const auto names_truth =
      request.truth ? names_of(*request.truth, request.renames) : decltype(names_a){};
  Diff result;
  for (std::size_t i = 0; i < request.a.tensors().size(); ++i) {
    TensorDiff tensor{.name = renamed(request.renames, request.a.tensors()[i].name)};
    const auto other = names_b.find(tensor.name);
    if (other == names_b.end()) {
      result.only_in_a.push_back(tensor.name);
      continue;
    }
    Side a{.file = request.a, .tensor = i}, b{.file = request.b, .tensor = other->second};
    tensor.a = a.info();
    tensor.b = b.info();
    std::optional<Side> truth;
    if (const auto it = names_truth.find(tensor.name); it != names_truth.end())
      truth.emplace(Side{.file = *request.truth, .tensor = it->second});
    if (request.truth && (!truth || truth->info().shape != tensor.a.shape)) {
      result.without_truth.push_back(tensor.name);
      truth.reset();
    }
    if (tensor.a.shape != tensor.b.shape)
      tensor.status = DiffStatus::Shape;
    else
      compare(tensor, std::move(a), std::move(b), std::move(truth), request.bound);
    result.tensors.push_back(std::move(tensor));
  }
  for (const TensorInfo& tensor : request.b.tensors())
    if (const std::string name = renamed(request.renames, tensor.name); !names_a.contains(name))
      result.only_in_b.push_back(name);
  return result;
}

}  // namespace parity::io
