// parity diff A B: two dumps, tensor by tensor.
#include "golden/io/diff.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "golden/io/mxfp4.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/diff_ranks.hpp"
#include "harness/cli/history.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

using io::Diff;
using io::DiffStatus;
using io::TensorDiff;
using reports::JsonWriter;
using reports::number;
using reports::visible;

constexpr std::size_t kMostNames = 20;  // of a list on a terminal; --verbose shows all

std::vector<Dim> dims_of(const std::vector<std::int64_t>& shape) {
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) dims.push_back({fmt::format("d{}", i), shape[i]});
  return dims;
}

std::string index_text(const TensorDiff& tensor, std::int64_t flat) {
  return fmt::format("[{}]", fmt::join(coordinates(dims_of(tensor.a.shape), flat), ","));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

// All digits that tell a value from its neighbours.
std::string value_text(Dtype dtype, double value) {
  const bool wide = dtype == Dtype::F64 || dtype == Dtype::I64 || dtype == Dtype::I32;
  return wide ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

std::string point_text(const TensorDiff& t, const io::Point& point) {
  return fmt::format("{}: {} in A, {} in B", index_text(t, point.index),
                     value_text(t.a.dtype, point.a), value_text(t.b.dtype, point.b));
}

std::string details(const TensorDiff& t) {
  if (t.status == DiffStatus::Shape)
    return fmt::format("      {} in A, {} in B: nothing is compared\n", shape_text(t.a.shape),
                       shape_text(t.b.shape));
  std::string text;
  if (!t.same_format())
    text += fmt::format("      {} in A, {} in B: compared as values\n", parity::name(t.a.dtype),
                        parity::name(t.b.dtype));
  if (t.first.index >= 0) text += "      first at " + point_text(t, t.first);
  if (t.worst.index >= 0 && t.worst.index != t.first.index)
    text += "; worst at " + point_text(t, t.worst);
  if (t.first.index >= 0) text += "\n";
  if (t.stats.nan_a + t.stats.nan_b + t.stats.inf_a + t.stats.inf_b > 0)
    text += fmt::format("      NaN {} in A, {} in B; infinities {}, {}; {} on one side only\n",
                        t.stats.nan_a, t.stats.nan_b, t.stats.inf_a, t.stats.inf_b,
                        t.stats.mismatched_nonfinite);
  if (t.error_a)
    text +=
        fmt::format("      against truth: rel L2 {} of A, {} of B (ratio {}); max abs {}, {}{}\n",
                    number(t.error_a->rel_l2), number(t.error_b->rel_l2), reports::times(t.ratio),
                    number(t.error_a->max_abs), number(t.error_b->max_abs),
                    t.error_a->nonfinite + t.error_b->nonfinite == 0
                        ? ""
                        : fmt::format("; {} and {} finite on one side only", t.error_a->nonfinite,
                                      t.error_b->nonfinite));
  return text;
}

std::string names_text(std::string_view what, const std::vector<std::string>& names, bool all) {
  if (names.empty()) return "";
  std::string text = fmt::format("\n{} ({})\n", what, names.size());
  for (std::size_t i = 0; i < names.size() && (all || i < kMostNames); ++i)
    text += fmt::format("  {}\n", visible(names[i]));
  if (!all && names.size() > kMostNames)
    text += fmt::format("  and {} more; -v shows them\n", names.size() - kMostNames);
  return text;
}

std::string table(const Diff& diff, bool verbose) {
  std::size_t width = 6, format_width = 5, equal = 0;
  for (const TensorDiff& t : diff.tensors) {
    equal += t.status == DiffStatus::Equal;
    if (!verbose && t.status == DiffStatus::Equal) continue;
    width = std::max(width, t.name.size());
    format_width = std::max(format_width, parity::name(t.a.dtype).size());
  }
  std::string text;
  if (verbose || equal < diff.tensors.size())
    text += fmt::format("{:<8} {:<{}} {:<{}} {:>20} {:>9} {:>9} {:>9} {:>9} {:>10}\n", "", "tensor",
                        width, "dtype", format_width, "differing", "max abs", "max rel", "max ulp",
                        "rel L2", "1 - cosine");
  for (const TensorDiff& t : diff.tensors) {
    if (!verbose && t.status == DiffStatus::Equal) continue;
    text += fmt::format("{:<8} {:<{}} {:<{}} ", io::name(t.status), visible(t.name), width,
                        parity::name(t.a.dtype), format_width);
    if (t.status != DiffStatus::Shape)
      text += fmt::format("{:>20} {:>9} {:>9} {:>9} {:>9} {:>10}",
                          fmt::format("{}/{}", t.stats.differing, t.stats.elements),
                          number(t.stats.max_abs), number(t.stats.max_rel),
                          t.same_format() ? std::to_string(t.stats.max_ulp) : "-",
                          number(t.rel_l2()), number(1 - t.cosine()));
    text += "\n" + (t.status == DiffStatus::Equal ? "" : details(t));
  }
  return text;
}

void put_point(JsonWriter& out, const char* key, const TensorDiff& t, const io::Point& point) {
  out.key(key);
  if (point.index < 0) return void(out.null());
  out.begin_object()
      .field("index", coordinates(dims_of(t.a.shape), point.index))
      .field("a", point.a)
      .field("b", point.b)
      .end_object();
}

void put_error(JsonWriter& out, const char* key, const std::optional<io::TruthError>& error) {
  out.key(key);
  if (!error) return void(out.null());
  out.begin_object()
      .field("rel_l2", error->rel_l2)
      .field("max_abs", error->max_abs)
      .field("nonfinite", error->nonfinite)
      .end_object();
}

std::string json(const Diff& diff) {
  JsonWriter out;
  out.begin_object().field("schema", 1).key("tensors").begin_array();
  for (const TensorDiff& t : diff.tensors) {
    out.begin_object()
        .field("name", t.name)
        .field("status", io::name(t.status))
        .field("equal", t.status == DiffStatus::Equal)
        .field("dtype", parity::name(t.a.dtype))
        .field("dtype_b", parity::name(t.b.dtype))
        .field("shape", t.a.shape)
        .field("shape_b", t.b.shape)
        .field("elements", t.a.elements);
    if (t.status != DiffStatus::Shape) {
      out.field("differing", t.stats.differing)
          .field("max_abs", t.stats.max_abs)
          .field("max_rel", t.stats.max_rel)
          .field("max_ulp", t.same_format() ? std::optional(t.stats.max_ulp) : std::nullopt)
          .field("rel_l2", t.rel_l2())
          .field("cosine", t.cosine())
          .field("norm_ratio", t.norm_ratio())
          .field("mismatched_nonfinite", t.stats.mismatched_nonfinite)
          .field("nan", std::vector{t.stats.nan_a, t.stats.nan_b})
          .field("inf", std::vector{t.stats.inf_a, t.stats.inf_b});
      put_point(out, "first", t, t.first);
      put_point(out, "worst", t, t.worst);
      put_error(out, "error_a", t.error_a);
      put_error(out, "error_b", t.error_b);
      out.field("ratio", t.error_a ? std::optional(t.ratio) : std::nullopt);
    }
    out.end_object();
  }
  const TensorDiff* first = diff.first_difference();
  out.end_array()
      .field("only_in_a", diff.only_in_a)
      .field("only_in_b", diff.only_in_b)
      .field("without_truth", diff.without_truth)
      .field("first_difference", first ? std::optional(first->name) : std::nullopt)
      .field("exit", diff.exit())
      .end_object();
  return out.text() + "\n";
}

std::string summary(const Diff& diff) {
  std::size_t equal = 0, within = 0;
  for (const TensorDiff& t : diff.tensors) {
    equal += t.status == DiffStatus::Equal;
    within += t.status == DiffStatus::Within;
  }
  std::string text = "\n";
  if (const TensorDiff* first = diff.first_difference())
    text += fmt::format("first difference: {}\n", visible(first->name));
  if (diff.tensors.empty()) text += "no tensor has the same name in both: nothing was compared\n";
  return text + fmt::format("{} equal, {} within, {} different, {} only in A, {} only in B\n",
                            equal, within, diff.tensors.size() - equal - within,
                            diff.only_in_a.size(), diff.only_in_b.size());
}

// Packed weights are compared by their values where another side has them unpacked.
void unpack_where_others_are(const std::vector<io::TensorFile*>& files) {
  const auto packed = [](const io::TensorFile* file) { return io::holds_mxfp4(*file); };
  if (std::ranges::none_of(files, packed) || std::ranges::all_of(files, packed)) return;
  for (io::TensorFile* file : files) *file = io::dequantised(std::move(*file));
}

}  // namespace

int diff(const Arguments& args) {
  if (const std::optional<int> exit = diff_ranks(args)) return *exit;
  if (is_run(args.names.at(0)) && is_run(args.names.at(1))) return diff_runs(args);
  io::TensorFile a = io::open(args.names.at(0)), b = io::open(args.names.at(1));
  std::optional<io::TensorFile> truth;
  if (!args.truth.empty()) truth = io::open(args.truth);
  std::vector<io::TensorFile*> files = {&a, &b};
  if (truth) files.push_back(&*truth);
  unpack_where_others_are(files);
  std::vector<io::Rename> renames;
  for (const std::string& text : args.renames) renames.push_back(io::parse_rename(text));
  const Diff result = io::diff({.a = a,
                                .b = b,
                                .truth = truth ? &*truth : nullptr,
                                .renames = renames,
                                .bound = args.bound});
  if (args.json)
    print(json(result));
  else
    print(table(result, args.verbose) + names_text("only in A", result.only_in_a, args.verbose) +
          names_text("only in B", result.only_in_b, args.verbose) +
          names_text("without truth", result.without_truth, args.verbose) + summary(result));
  return result.exit();
}

}  // namespace parity::cli
