#include "reports/words.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/json_writer.hpp"

namespace parity::reports {
namespace {

std::string plain(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double magnitude = std::abs(value);
  if (value != 0 && (magnitude < 1e-3 || magnitude >= 1e6))
    return fmt::format("{:.{}e}", value, digits - 1);
  return fmt::format("{:.{}g}", value, magnitude >= std::pow(10.0, digits) ? 6 : digits);
}

// Rank of severity: that of record.hpp's View, by its word.
int severity(std::string_view view) {
  return view.empty() ? static_cast<int>(View::None) : static_cast<int>(parse_view(view));
}

}  // namespace

std::string number(double value) { return plain(value, 3); }
std::string precise(double value) { return plain(value, 7); }

std::string times(double factor) { return plain(factor, 4) + "x"; }

std::string count_of(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string duration(double ms) {
  if (ms < 1000) return fmt::format("{:.0f} ms", ms);
  if (ms < 120e3) return fmt::format("{:.1f} s", ms / 1e3);
  const auto seconds = static_cast<std::int64_t>(ms / 1e3);
  return fmt::format("{} min {} s", seconds / 60, seconds % 60);
}

std::string bytes_of(std::int64_t n) {
  if (n < 1024) return count_of(n, "byte");
  double value = static_cast<double>(n);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string shape_of(const TensorRecord& tensor) {
  return tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape, "x"));
}

std::string headroom(double bound_used) {
  if (bound_used == 0) return "exact";
  if (!(bound_used < 1)) return "none";
  const double factor = 1 / bound_used;
  return factor >= 1000 ? ">1000x" : fmt::format("{:.{}f}x", factor, factor < 10 ? 1 : 0);
}

std::string short_commit(std::string_view commit) {
  const std::size_t dash = commit.find_first_of("-+");
  return fmt::format("{}{}", commit.substr(0, std::min<std::size_t>(12, dash)),
                     dash == std::string_view::npos ? "" : commit.substr(dash));
}

std::string escaped(std::string_view text) {
  const std::string valid = valid_utf8(text);
  std::string out;
  out.reserve(valid.size() + valid.size() / 8);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const char c = valid[i];
    const auto code = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7F)
      out += '?';
    else if (valid.compare(i, 3, "\xEF\xBF\xBE") == 0 || valid.compare(i, 3, "\xEF\xBF\xBF") == 0)
      out += '?', i += 2;
    else
      out += c;
  }
  return out;
}

std::string visible(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return out;
}

Counts counts_of(const std::vector<CaseRecord>& records) {
  Tally tally;
  for (const CaseRecord& record : records) tally.add(record);
  return tally.counts();
}

std::string exit_meaning(const RunFolder& folder) {
  const bool proven =
      !folder.mutation || (folder.mutation->survived == 0 && folder.mutation->false_alarms == 0);
  if (folder.exit == 4 && !proven)
    return fmt::format("the gate itself is not proven: {} survived, {}",
                       count_of(folder.mutation->survived, "mutant"),
                       count_of(folder.mutation->false_alarms, "false alarm"));
  switch (folder.exit) {
    case 0:
      return "every case that could run agrees with the truth within its bound";
    case 1:
      return "a kernel disagrees with the truth";
    case 2:
      return "the command or the harness is at fault, not the kernels";
    case 3:
      return "a case did not finish: crash, timeout, memory or a lost device";
    case 4:
      return "something was not proven: nothing ran, a case proves nothing, or bytes were not "
             "compared";
    case 5:
      return "a golden is missing or was tampered with";
    default:
      return fmt::format("unknown exit {}", folder.exit);
  }
}

bool unexpected(const CaseRecord& record) {
  if (record.status == "fail") return record.expected != "fail";
  return record.status == "error" || record.status == "unproven";
}

const ViewResult* telling_view(const TensorRecord& tensor) {
  const ViewResult* telling = nullptr;
  for (const ViewResult& view : tensor.views)
    if (!view.ok && (!telling || severity(view.view) < severity(telling->view))) telling = &view;
  return telling;
}

const TensorRecord* telling_tensor(const CaseRecord& record) {
  const auto rank = [](const TensorRecord& tensor) {
    const ViewResult* view = telling_view(tensor);
    const double used = std::isnan(tensor.bound_used) ? INFINITY : tensor.bound_used;
    return std::pair(view ? severity(view->view) : static_cast<int>(View::None), -used);
  };
  const auto first = std::ranges::min_element(record.tensors, {}, rank);
  return first == record.tensors.end() ? nullptr : &*first;
}

double max_bound_used(const CaseRecord& record) {
  double used = 0;
  for (const TensorRecord& tensor : record.tensors) {
    if (std::isnan(tensor.bound_used)) return tensor.bound_used;
    used = std::max(used, tensor.bound_used);
  }
  return used;
}

double excess(const ViewResult& view) {
  if (view.limit > 0 || std::isnan(view.value)) return view.value / view.limit;
  return view.value > view.limit ? INFINITY : 1;
}

std::string place_of(const TensorRecord& tensor, const ViewResult& view) {
  const std::size_t colon = view.detail.find(':');
  if (view.view == "slice" && colon != std::string::npos) return view.detail.substr(0, colon);
  const bool by_element = view.view == "bound" || view.view == "finiteness" ||
                          view.view == "exact" || view.view == "discrete";
  return by_element && tensor.worst ? tensor.worst->letters : "";
}

std::string what_failed(const TensorRecord& tensor) {
  const ViewResult* view = telling_view(tensor);
  if (!view) return fmt::format("{}: every view holds", tensor.name);
  std::string text = fmt::format("{}: {} is {}, allowed {}", tensor.name, view->view,
                                 number(view->value), number(view->limit));
  if (!view->detail.empty()) text += fmt::format(" ({})", view->detail);
  if (tensor.mismatches > 0)
    text += fmt::format("; {} of {} elements over the bound", tensor.mismatches, tensor.elements);
  return text;
}

std::string where_failed(const TensorRecord& tensor) {
  std::string text =
      tensor.worst
          ? "worst at " + (tensor.worst->letters.empty() ? "the scalar" : tensor.worst->letters)
          : "";
  if (!tensor.pattern.empty()) text += (text.empty() ? "" : "; ") + tensor.pattern;
  return text;
}

std::vector<Reason> reasons_of(const std::vector<CaseRecord>& records, Status status) {
  std::map<std::string, std::int64_t> tally;
  for (const CaseRecord& record : records)
    if (record.status == name(status))
      ++tally[record.reason.empty() ? "no reason recorded" : record.reason];
  std::vector<Reason> reasons;
  for (const auto& [text, cases] : tally) reasons.push_back({text, cases});
  std::ranges::stable_sort(reasons, std::ranges::greater{}, &Reason::cases);
  return reasons;
}

}  // namespace parity::reports
