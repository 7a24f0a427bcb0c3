// Hop 6: statistics become a status and a reason. Every gate reads `pass only if value <= limit`,
// so that NaN fails; a tensor or a case of which nothing was judged is `unproven`.
#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "harness/case.hpp"
#include "harness/registry.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

const ViewResult* most_severe(const std::vector<ViewResult>& views) {
  const ViewResult* found = nullptr;
  for (const ViewResult& view : views)
    if (!view.ok && (!found || parse_view(view.view) < parse_view(found->view))) found = &view;
  return found;
}

std::string sentence(const TensorRecord& tensor, const ViewResult& view) {
  std::string text =
      fmt::format("{}: {} {:.4g}, limit {:.4g}", tensor.name, view.view, view.value, view.limit);
  if (!view.detail.empty()) text += " (" + view.detail + ")";
  if (!tensor.pattern.empty()) text += "; " + tensor.pattern;
  return text;
}

std::string accounting_failure(const Accounting& a) {
  std::string text;
  if (!a.inputs_unchanged)
    text = "an input was changed";
  else if (!a.canaries_whole)
    text = "a canary beside a buffer was overwritten";
  else if (!a.saved_unchanged)
    text = "a saved tensor was changed between forward and backward";
  else if (a.unwritten > 0)
    text = fmt::format("{} bytes of the outputs were never written", a.unwritten);
  if (text.empty()) return text;
  for (const std::string& complaint : a.complaints) text += "; " + complaint;
  return text;
}

// Why the case shows nothing; empty where it shows something.
std::string unproven_reason(const CaseRecord& record) {
  if (record.tensors.empty()) return "nothing was compared";
  // A tensor that the definition leaves open altogether (codes under NaN scales) neither proves nor
  // hinders.
  const bool proved = std::ranges::any_of(
      record.tensors, [](const TensorRecord& t) { return t.status == name(Status::Pass); });
  const auto all_open = [&](const TensorRecord& t) {
    return proved && t.elements > 0 && t.open == t.elements;
  };
  for (const TensorRecord& tensor : record.tensors)
    if (!tensor.unproven.empty() && !all_open(tensor)) return tensor.name + ": " + tensor.unproven;
  for (const TensorRecord& tensor : record.tensors)
    if (tensor.status != name(Status::Pass) && !all_open(tensor))
      return tensor.name + ": nothing of it was judged";
  const Accounting& a = record.accounting;
  if (!(a.compared >= a.produced))
    return fmt::format("{} of {} bytes were not compared", a.produced - a.compared, a.produced);
  if (!a.complaints.empty()) return a.complaints.front();
  return {};
}

}  // namespace

void judge_tensor(TensorRecord& tensor) {
  for (ViewResult& view : tensor.views) view.ok = view.value <= view.limit;
  const ViewResult* worst = most_severe(tensor.views);
  tensor.view = worst ? worst->view : "";
  tensor.status = name(worst                                              ? Status::Fail
                       : !tensor.unproven.empty() || tensor.views.empty() ? Status::Unproven
                                                                          : Status::Pass);
}

void judge(CaseRecord& record) {
  if (record.status == name(Status::Error) || record.status == name(Status::Unsupported)) return;
  std::set<View> violated;
  const TensorRecord* guilty = nullptr;
  for (TensorRecord& tensor : record.tensors) {
    judge_tensor(tensor);
    for (const ViewResult& view : tensor.views)
      if (!view.ok) violated.insert(parse_view(view.view));
    if (!tensor.view.empty() && (!guilty || parse_view(tensor.view) < parse_view(guilty->view)))
      guilty = &tensor;
  }
  const std::string accounting = accounting_failure(record.accounting);
  if (!accounting.empty()) violated.insert(View::Accounting);

  record.views.clear();
  for (const View view : violated) record.views.emplace_back(name(view));
  record.view = record.views.empty() ? "" : record.views.front();
  if (!violated.empty()) {
    record.status = name(Status::Fail);
    record.reason =
        !accounting.empty() ? accounting : sentence(*guilty, *most_severe(guilty->views));
    return;
  }
  record.reason = unproven_reason(record);
  record.status = name(record.reason.empty() ? Status::Pass : Status::Unproven);
}

// A waiver covers a failure up to and including the day it expires. Dates are YYYY-MM-DD, so that
// their order is that of the text.
void apply_waivers(CaseRecord& record, std::span<const Waiver> waivers, std::string_view today) {
  if (record.status != name(Status::Fail)) return;
  for (const Waiver& waiver : waivers) {
    if (!glob_match(waiver.id, record.id)) continue;
    const bool complete =
        !waiver.reason.empty() && !waiver.owner.empty() && waiver.expires.size() == 10;
    if (complete && today <= waiver.expires) {
      record.status = name(Status::Waived);
      record.reason =
          fmt::format("waived until {} ({}, {}{}{}): {}", waiver.expires, waiver.reason,
                      waiver.owner, waiver.url.empty() ? "" : ", ", waiver.url, record.reason);
      return;
    }
    record.reason +=
        complete ? fmt::format("; a waiver of {} expired on {}", waiver.owner, waiver.expires)
                 : "; a waiver without reason, owner or expiry is none";
  }
}

}  // namespace parity
