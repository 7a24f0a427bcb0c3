#include "harness/cli/coverage.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

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

// Whether it takes any case of this dtype.
bool runs(const KernelInfo& kernel, const std::string& dtype) {
  return std::ranges::any_of(kernel.taken, [&](const auto& taken) {
    return taken.second > 0 && taken.first.ends_with(" " + dtype);
  });
}

void judge(CoverageRow& row, const KernelInfo& kernel) {
  const std::string key = row.direction + " " + row.dtype;
  row.kernel = kernel.name;
  row.cases = at(kernel.taken, key);
  row.exact_probes = at(kernel.exact, key);
  std::string missing = missing_capability(kernel.needs);
  if (!kernel.environment.empty() && torch_library_path().empty())
    missing = "this build has no libparity_torch.so";
  if (!missing.empty())
    row.explained.push_back("not here: " + missing);
  else if (runs(kernel, row.dtype))  // a fault that never runs shows nothing
    row.mutants += shown(kernel.faults);
  if (!has(kernel.directions, row.direction)) {
    row.holes.push_back("the kernel has no " + row.direction);
    row.cases = row.exact_probes = 0;
  } else if (!missing.empty()) {
    return;  // it takes no case here; which it takes is seen where it runs
  } else if (row.cases == 0) {
    const std::string why = most_refused(kernel);
    row.holes.push_back("no case" + (why.empty() ? "" : ": " + why));
  } else if (row.exact_probes == 0) {
    row.holes.emplace_back("no exact probe");
  }
}

constexpr const char* kNoKernel = "no kernel takes this dtype";

// Rows of one op, with every hole.
std::vector<CoverageRow> rows_of(const OpInfo& op, const std::vector<KernelInfo>& kernels) {
  std::vector<CoverageRow> rows;
  std::vector<std::string> dtypes = op.dtypes;
  for (const KernelInfo& kernel : kernels)
    for (const std::string& dtype : kernel.dtypes)
      if (kernel.op == op.name && !has(dtypes, dtype)) dtypes.push_back(dtype);
  for (const std::string& direction : op.directions) {
    if (direction == "both") continue;
    for (const std::string& dtype : dtypes) {
      const std::size_t before = rows.size();
      const CoverageRow blank{
          .op = op.name, .direction = direction, .dtype = dtype, .mutants = shown(op.faults)};
      for (const KernelInfo& kernel : kernels)
        if (kernel.op == op.name && (kernel.dtypes.empty() || has(kernel.dtypes, dtype)))
          judge(rows.emplace_back(blank), kernel);
      if (rows.size() == before) rows.emplace_back(blank).holes.emplace_back(kNoKernel);
      for (std::size_t i = before; i < rows.size(); ++i)
        if (rows[i].mutants == 0 && (rows[i].kernel.empty() || rows[i].cases > 0))
          rows[i].holes.emplace_back("no mutant: nothing shows that its gate can fail");
    }
  }
  return rows;
}

bool explains(const ExplanationInfo& e, const CoverageRow& row, const std::string& hole) {
  return e.op == row.op && glob_match(e.direction, row.direction) &&
         glob_match(e.dtype, row.dtype) && glob_match(e.kernel, row.kernel) &&
         glob_match(e.hole, hole);
}

}  // namespace

Coverage coverage(const Catalogue& all, const std::string& why_no_torch) {
  Coverage result;
  std::vector<bool> used(all.explanations.size());
  for (const OpInfo& op : all.ops)
    for (CoverageRow& row : rows_of(op, all.kernels)) {
      for (const std::string& hole : std::exchange(row.holes, {})) {
        std::string why = hole == kNoKernel ? why_no_torch : "";
        for (std::size_t i = 0; i < used.size(); ++i)
          if (explains(all.explanations[i], row, hole)) {
            used[i] = true;
            why = all.explanations[i].why;
          }
        if (why.empty())
          row.holes.push_back(hole);
        else
          row.explained.push_back(fmt::format("{}: {}", hole, why));
      }
      result.rows.push_back(std::move(row));
    }
  const bool no_gpu_kernels = std::ranges::none_of(
      all.kernels, [](const KernelInfo& k) { return k.needs.starts_with("sm_"); });
  for (std::size_t i = 0; i < used.size(); ++i) {
    const bool of_cuda = all.explanations[i].kernel.find("cuda") != std::string::npos;
    if (!used[i] && why_no_torch.empty() && !(of_cuda && no_gpu_kernels))
      result.idle.push_back(all.explanations[i]);
  }
  return result;
}

Coverage coverage() {
  return coverage(catalogue(), torch_library_path().empty() ? "this build has no LibTorch" : "");
}

std::vector<Finding> findings_of(const Coverage& all) {
  std::vector<Finding> findings;
  for (const CoverageRow& row : all.rows)
    for (const std::string& hole : row.holes)
      findings.push_back(
          {"coverage",
           fmt::format("{} {} {} {}: {}, and nothing explains why", row.op, row.direction,
                       row.dtype, row.kernel.empty() ? "(no kernel)" : row.kernel, hole)});
  for (const ExplanationInfo& e : all.idle)
    findings.push_back({"coverage", fmt::format("explanation of '{}' at {} {} {} {} explains no "
                                                "hole that there is",
                                                e.hole, e.op, e.direction, e.dtype, e.kernel)});
  return findings;
}

std::string coverage_text(const std::vector<CoverageRow>& rows) {
  std::string text =
      fmt::format("{:<17} {:<9} {:<5} {:<30} {:>6} {:>6} {:>8}  {}\n", "op", "direction", "dtype",
                  "kernel", "cases", "exact", "mutants", "holes");
  std::int64_t holed = 0, explained = 0;
  for (const CoverageRow& row : rows) {
    holed += !row.holes.empty();
    explained += row.holes.empty() && !row.explained.empty();
    std::vector<std::string> words = row.holes;
    for (const std::string& why : row.explained) words.push_back("explained: " + why);
    text += fmt::format("{:<17} {:<9} {:<5} {:<30} {:>6} {:>6} {:>8}  {}\n", row.op, row.direction,
                        row.dtype, row.kernel.empty() ? "none" : row.kernel, row.cases,
                        row.exact_probes, row.mutants, fmt::join(words, "; "));
  }
  const std::int64_t all = std::ssize(rows);
  return text + fmt::format("{}, {} complete, {} explained, {} with a hole\n",
                            reports::count_of(all, "combination"), all - explained - holed,
                            explained, holed);
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
        .field("explained", row.explained)
        .end_object();
  return out.end_array().end_object().text() + "\n";
}

}  // namespace parity::cli
