#include "harness/cli/coverage.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "harness/environment.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

template <class List>
bool has(const List& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

std::int64_t at(const std::map<std::string, std::int64_t>& counts, const std::string& key) {
  const auto it = counts.find(key);
  return it == counts.end() ? 0 : it->second;
}

std::int64_t shown(const std::vector<FaultInfo>& faults) {
  return std::ranges::count_if(faults, [](const FaultInfo& f) { return f.unsupported.empty(); });
}

// The reason that turns away most cases.
std::string most_refused(const KernelInfo& kernel) {
  const auto most =
      std::ranges::max_element(kernel.refuses, {}, [](const auto& r) { return r.second; });
  return most == kernel.refuses.end() ? "" : most->first;
}

void judge(CoverageRow& row, const KernelInfo& kernel) {
  row.kernel = kernel.name;
  row.cases = at(kernel.taken, row.dtype);
  row.exact_probes = at(kernel.exact, row.dtype);
  row.mutants += shown(kernel.faults);
  if (const std::string why = missing_capability(kernel.needs); !why.empty())
    row.holes.push_back("not here: " + why);
  if (!has(kernel.directions, row.direction))
    row.holes.push_back("the kernel has no " + row.direction);
  if (row.cases == 0) {
    const std::string why = most_refused(kernel);
    row.holes.push_back("no case" + (why.empty() ? "" : ": " + why));
  } else if (row.exact_probes == 0) {
    row.holes.push_back("no exact probe");
  }
}

}  // namespace

std::vector<CoverageRow> coverage(const Catalogue& all) {
  std::vector<CoverageRow> rows;
  for (const OpInfo& op : all.ops) {
    std::vector<std::string> dtypes = op.dtypes;
    for (const KernelInfo& kernel : all.kernels)
      for (const std::string& dtype : kernel.dtypes)
        if (kernel.op == op.name && !has(dtypes, dtype)) dtypes.push_back(dtype);
    for (const std::string& direction : op.directions) {
      if (direction == "both") continue;
      for (const std::string& dtype : dtypes) {
        const std::size_t before = rows.size();
        for (const KernelInfo& kernel : all.kernels) {
          if (kernel.op != op.name || !(kernel.dtypes.empty() || has(kernel.dtypes, dtype)))
            continue;
          CoverageRow& row =
              rows.emplace_back(CoverageRow{.op = op.name, .direction = direction, .dtype = dtype});
          row.mutants = shown(op.faults);
          judge(row, kernel);
        }
        if (rows.size() == before)
          rows.push_back({.op = op.name,
                          .direction = direction,
                          .dtype = dtype,
                          .mutants = shown(op.faults),
                          .holes = {"no kernel takes this dtype"}});
        for (std::size_t i = before; i < rows.size(); ++i)
          if (rows[i].mutants == 0)
            rows[i].holes.emplace_back("no mutant: nothing shows that its gate can fail");
      }
    }
  }
  return rows;
}

std::string coverage_text(const std::vector<CoverageRow>& rows) {
  std::string text =
      fmt::format("{:<17} {:<9} {:<5} {:<30} {:>6} {:>6} {:>8}  {}\n", "op", "direction", "dtype",
                  "kernel", "cases", "exact", "mutants", "holes");
  std::int64_t holed = 0;
  for (const CoverageRow& row : rows) {
    holed += !row.holes.empty();
    text += fmt::format("{:<17} {:<9} {:<5} {:<30} {:>6} {:>6} {:>8}  {}\n", row.op, row.direction,
                        row.dtype, row.kernel.empty() ? "none" : row.kernel, row.cases,
                        row.exact_probes, row.mutants, fmt::join(row.holes, "; "));
  }
  return text + fmt::format("{}, {} with a hole\n",
                            reports::count_of(std::ssize(rows), "combination"), holed);
}

std::string coverage_json(const std::vector<CoverageRow>& rows) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("coverage").begin_array();
  for (const CoverageRow& row : rows)
    out.begin_object()
        .field("op", row.op)
        .field("direction", row.direction)
        .field("dtype", row.dtype)
        .field("kernel", row.kernel)
        .field("cases", row.cases)
        .field("exact_probes", row.exact_probes)
        .field("mutants", row.mutants)
        .field("holes", row.holes)
        .end_object();
  return out.end_array().end_object().text() + "\n";
}

}  // namespace parity::cli
