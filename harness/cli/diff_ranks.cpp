#include "harness/cli/diff_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "golden/io/diff.hpp"
#include "golden/io/sharded.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/dist/order.hpp"
#include "harness/failure.hpp"
#include "harness/numeric/ulp.hpp"
#include "reports/json_writer.hpp"

namespace parity::cli {
namespace {

bool by_ranks = false;

const MoreOptions diff_has{
    "diff",
    {{.names = "--ranks",
      .to = &by_ranks,
      .what = "A and B are sharded runs: folders of rank_0.*, rank_1.*, ... (or one file), put "
              "together by placement"}}};

constexpr std::string_view kLocal = "local/";  // a rank's whole gradient before the reduction

struct Row {
  std::string name = {}, placement_a = {}, placement_b = {}, trouble = {}, order = {};
  std::int64_t elements = 0, differing = 0;
  double max_ulp = 0;
  std::string first = {};                  // where the first difference lies
  std::vector<std::int64_t> by_rank = {};  // differing elements of each rank's part in A
};

std::vector<std::int64_t> shape_of(const Tensor& t) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : t.spec.dims) shape.push_back(dim.extent);
  return shape;
}

int owner(const io::Merged& a, std::int64_t row) {
  for (std::size_t r = 0; r + 1 < a.begins.size(); ++r)
    if (row >= a.begins[r] && row < a.begins[r + 1]) return static_cast<int>(r);
  return 0;
}

void compare(const io::Merged& a, const io::Merged& b, std::size_t ranks, Row& row) {
  row.elements = a.whole.elements();
  row.by_rank.assign(ranks, 0);
  if (shape_of(a.whole) != shape_of(b.whole) || a.whole.spec.dtype != b.whole.spec.dtype) {
    row.trouble = "A and B have it in different shapes or dtypes";
    return;
  }
  const Dtype dtype = a.whole.spec.dtype;
  for (std::int64_t i = 0; i < row.elements; ++i) {
    const std::uint64_t x = load_code(dtype, a.whole.bytes.data(), i);
    const std::uint64_t y = load_code(dtype, b.whole.bytes.data(), i);
    if (x == y || (std::isnan(decode(dtype, x)) && std::isnan(decode(dtype, y)))) continue;
    const std::vector<std::int64_t> at = coordinates(a.whole.spec.dims, i);
    const int rank = a.begins.empty() ? 0 : owner(a, at[static_cast<std::size_t>(a.dim)]);
    if (row.differing++ == 0)
      row.first = fmt::format("rank {}, [{}]: {} where B has {}", rank, fmt::join(at, ","),
                              decode(dtype, x), decode(dtype, y));
    ++row.by_rank[static_cast<std::size_t>(rank)];
    row.max_ulp = std::max(row.max_ulp, static_cast<double>(ulp_distance(dtype, x, y)));
  }
}

// Where both runs left their ranks' gradients before the reduction: does the order of the sum alone
// make A's bits?
std::string attribute(const io::RankFiles& a, const io::Merged& merged, const std::string& name) {
  std::vector<std::vector<float>> parts;
  for (const io::TensorFile& file : a.ranks) {
    const std::size_t* at = file.find(std::string(kLocal) + name);
    if (at == nullptr) return {};
    std::vector<float> values;
    for (const double x : file.read(*at).widened()) values.push_back(static_cast<float>(x));
    parts.push_back(std::move(values));
  }
  std::vector<float> observed;
  for (const double x : merged.whole.widened()) observed.push_back(static_cast<float>(x));
  const Dtype wire = merged.whole.spec.dtype;
  for (const double by : {static_cast<double>(parts.size()), 1.0}) {
    const dist::Explained found = dist::explained_elements(parts, wire, by, observed);
    if (found.unexplained == 0)
      return fmt::format("reduction order explains all bits ({})", found.orders);
  }
  const dist::Explained found =
      dist::explained_elements(parts, wire, static_cast<double>(parts.size()), observed);
  return fmt::format("no order of reduction makes {} of its elements, the first {}",
                     found.unexplained, found.first);
}

std::string trace_difference(const io::RankFiles& run) {
  for (std::size_t r = 1; r < run.traces.size(); ++r) {
    const std::vector<std::string>&first = run.traces[0], &own = run.traces[r];
    for (std::size_t i = 0; i < std::max(first.size(), own.size()); ++i) {
      const std::string x = i < first.size() ? first[i] : "nothing more";
      const std::string y = i < own.size() ? own[i] : "nothing more";
      if (x != y)
        return fmt::format("trace of {}, call {}: rank {} calls '{}', rank 0 '{}'\n",
                           run.path.string(), i + 1, r, y, x);
    }
  }
  return {};
}

std::string cells(const Row& row) {
  std::string text;
  for (const std::int64_t n : row.by_rank)
    text += fmt::format(" {:>6}", n == 0 ? "=" : fmt::to_string(n));
  return text;
}

std::string json(const std::vector<Row>& rows, const std::string& traces, int exit) {
  reports::JsonWriter w;
  w.begin_object().key("schema").value(1).key("tensors").begin_array();
  for (const Row& row : rows) {
    w.begin_object().key("name").value(row.name).key("placement_a").value(row.placement_a);
    w.key("placement_b").value(row.placement_b).key("elements").value(row.elements);
    w.key("differing").value(row.differing).key("max_ulp").value(row.max_ulp);
    w.key("first").value(row.first).key("trouble").value(row.trouble).key("order").value(row.order);
    w.key("by_rank").begin_array();
    for (const std::int64_t n : row.by_rank) w.value(n);
    w.end_array().end_object();
  }
  w.end_array().key("traces").value(traces).key("exit").value(exit).end_object();
  return w.text() + "\n";
}

}  // namespace

std::optional<int> diff_ranks(const Arguments& args) {
  if (!by_ranks) return {};
  const io::RankFiles a = io::open_ranks(args.names.at(0)), b = io::open_ranks(args.names.at(1));
  std::vector<io::Rename> renames;
  for (const std::string& text : args.renames) renames.push_back(io::parse_rename(text));
  const std::vector<std::string> names_b = b.names();
  std::vector<Row> rows;
  std::size_t common = 0, wrong = 0;
  for (const std::string& name : a.names()) {
    if (name.starts_with(kLocal)) continue;
    Row row{.name = io::renamed(renames, name)};
    if (std::ranges::find(names_b, row.name) == names_b.end()) {
      row.trouble = "only in A";
    } else {
      ++common;
      // One file has whole tensors: the other's parts are put together to their shapes.
      std::optional<std::vector<std::int64_t>> shape;
      io::Merged mb = io::merge(b, row.name, {});
      if (b.ranks.size() == 1) shape = shape_of(mb.whole);
      const io::Merged ma = io::merge(a, name, shape);
      if (a.ranks.size() == 1 && b.ranks.size() > 1)
        mb = io::merge(b, row.name, shape_of(ma.whole));
      row.placement_a = ma.placement;
      row.placement_b = mb.placement;
      row.trouble = !ma.trouble.empty()   ? "A: " + ma.trouble
                    : !mb.trouble.empty() ? "B: " + mb.trouble
                                          : "";
      if (!ma.whole.bytes.empty() && !mb.whole.bytes.empty()) compare(ma, mb, a.ranks.size(), row);
      if (row.differing > 0) row.order = attribute(a, ma, name);
    }
    wrong += row.differing > 0 || !row.trouble.empty() ? 1u : 0u;
    rows.push_back(std::move(row));
  }
  for (const std::string& name : names_b)
    if (!name.starts_with(kLocal) && std::ranges::find(rows, name, &Row::name) == rows.end()) {
      rows.push_back({.name = name, .trouble = "only in B"});
      ++wrong;
    }
  const std::string traces = trace_difference(a) + trace_difference(b);
  const int exit = common == 0 ? 4 : wrong > 0 || !traces.empty() ? 1 : 0;
  if (args.json) {
    print(json(rows, traces, exit));
    return exit;
  }
  std::size_t width = 9;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("{:<{}}  {:<10} {:<10} differing elements by rank of A (= none)\n",
                                 "tensor", width, "A", "B");
  for (const Row& row : rows) {
    if (row.differing == 0 && row.trouble.empty() && !args.verbose && rows.size() > 40) continue;
    text += fmt::format("{:<{}}  {:<10} {:<10}{}\n", row.name, width, row.placement_a,
                        row.placement_b, cells(row));
    if (row.differing > 0)
      text += fmt::format("    {} of {} elements, up to {:.0f} ulp; first {}\n", row.differing,
                          row.elements, row.max_ulp, row.first);
    for (const std::string& more : {row.order, row.trouble})
      if (!more.empty()) text += "    " + more + "\n";
  }
  text += traces;
  text += fmt::format("{} ranks against {}: {} tensors equal to the bit, {} not\n", a.ranks.size(),
                      b.ranks.size(), rows.size() - wrong, wrong);
  print(text);
  return exit;
}

}  // namespace parity::cli
