// One disagreement, expanded: what (view, value, bound and where the bound comes from), where, the
// ten worst points, the line that reruns it.
#include <algorithm>
#include <fmt/format.h>

#include "reports/gradients.hpp"
#include "reports/reports.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kPoints = 10;
constexpr std::size_t kWhy = 200;  // bytes of a derivation

std::string labelled(std::string_view label, std::string_view text) {
  return fmt::format("    {:<9}{}\n", label, visible(text));
}

std::string points(const TensorRecord& tensor) {
  std::size_t letters = 5;
  const std::size_t shown = std::min(kPoints, tensor.worst_points.size());
  for (std::size_t i = 0; i < shown; ++i)
    letters = std::max(letters, tensor.worst_points[i].letters.size());
  std::string text = fmt::format("    {:<9}{:<{}} {:>14} {:>14} {:>14} {:>9} {:>9}\n", "points", "",
                                 letters, "truth", "base", "candidate", "ulp", "r");
  for (std::size_t i = 0; i < shown; ++i) {
    const WorstPoint& point = tensor.worst_points[i];
    text += fmt::format("    {:<9}{:<{}} {:>14} {:>14} {:>14} {:>9} {:>9}\n", "",
                        visible(point.letters), letters, precise(point.truth),
                        point.base ? precise(*point.base) : "-", precise(point.candidate),
                        number(point.ulp), number(point.bound_used));
  }
  return text;
}

}  // namespace

std::string console_failure(const CaseRecord& record, const ConsoleStyle& style) {
  std::string text = console_row(record, style);
  const TensorRecord* tensor = telling_tensor(record);
  const ViewResult* view = tensor ? telling_view(*tensor) : nullptr;
  if (!view) {  // the whole case: a crash, accounting, nothing compared; without tensors the row
                // has said it
    if (!record.reason.empty() && !record.tensors.empty()) text += labelled("what", record.reason);
    for (const std::string& complaint : record.accounting.complaints)
      text += labelled("", complaint);
  } else {
    text += labelled("what", what_failed(*tensor));
    const std::string why = fmt::format("{}: {}", tensor->bound_kind, tensor->bound_why);
    text += labelled(
        "bound", style.verbose || why.size() <= kWhy ? why : why.substr(0, kWhy) + "... (-v: all)");
    if (tensor->bound_that_would_pass > 1)
      text += labelled(
          "", fmt::format("one {}x as wide would pass; the base itself uses {} of it",
                          number(tensor->bound_that_would_pass), number(tensor->base_bound_used)));
    if (record.views.size() > 1)
      text += labelled("views", fmt::format("violated: {}", fmt::join(record.views, ", ")));
    std::vector<std::string> others;
    for (const TensorRecord& other : record.tensors)
      if (&other != tensor && other.status == "fail")
        others.push_back(fmt::format("{} ({})", other.name, other.view));
    if (!others.empty()) text += labelled("also", fmt::format("{}", fmt::join(others, ", ")));
    if (const std::string where = where_failed(*tensor); !where.empty())
      text += labelled("where", where);
    if (const std::string astray = sentence(first_astray(record)); !astray.empty())
      text += labelled("astray", astray);
    if (!tensor->worst_points.empty()) text += points(*tensor);
  }
  if (!record.contract.empty()) text += labelled("contract", record.contract);
  text += labelled("repro", record.repro);
  // What a file recorded cannot be launched again; of a crash there is nothing to compare.
  constexpr std::string_view kRun = "parity run ";
  const bool values = record.check == name(Check::Parity) || record.check == name(Check::Exact);
  if (view && values && record.repro.starts_with(kRun) &&
      !record.repro.starts_with("parity run --recording"))
    text += labelled("why", "parity explain " + record.repro.substr(kRun.size()));
  return text;
}

}  // namespace parity::reports
