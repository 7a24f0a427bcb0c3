// GitHub's workflow commands, for `cat annotations.txt` in a step. Ten errors and ten warnings of a
// step are shown and the rest dropped in silence, so a line stands for a kernel: how many of its
// cases, and the worst of them.
#include <algorithm>
#include <fmt/format.h>

#include "reports/json_writer.hpp"
#include "reports/source_place.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kOfAKind = 10;

// Percent, and what ends a line or a property, are told as URLs tell them.
std::string told(std::string_view raw, bool property) {
  std::string out;
  for (const char c : valid_utf8(raw)) {
    if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

struct Group {
  const CaseRecord* first = nullptr;  // in the order of the records, which is by id
  std::int64_t cases = 0;
};

std::string line(const char* kind, const Group& group, std::string_view verb) {
  const CaseRecord& record = *group.first;
  const TensorRecord* tensor = telling_tensor(record);
  const bool judged = record.status == "fail" && tensor && telling_view(*tensor);
  std::string properties;
  if (const auto place = place_of_kernel(record))
    properties = fmt::format("file={},line={},", told(place->file, true), place->line);
  const std::string name = record.kernel.empty() ? record.op : record.kernel;
  return fmt::format(
      "::{} {}title={}::{}\n", kind, properties,
      told(fmt::format("{}: {} {}", name, count_of(group.cases, "case"), verb), true),
      told(fmt::format("{}\n{}", judged ? what_failed(*tensor) : record.reason, record.repro),
           false));
}

std::string lines(const std::vector<CaseRecord>& records, Status status, const char* kind,
                  std::string_view verb) {
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const CaseRecord& record : records) {
    if (record.status != name(status) || !unexpected(record)) continue;
    Group& group = groups[{record.op, record.kernel}];
    if (group.cases++ == 0) group.first = &record;
  }
  std::vector<Group> order;
  for (const auto& [key, group] : groups) order.push_back(group);
  std::ranges::stable_sort(order, std::ranges::greater{}, &Group::cases);
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kOfAKind); ++i)
    text += line(kind, order[i], verb);
  return text;
}

}  // namespace

std::string annotations(const RunFolder& folder) {
  std::string text;
  for (const Complaint& complaint : folder.complaints)
    text += fmt::format("::error title=parity::{}\n", told(complaint.text, false));
  return text + lines(folder.cases, Status::Fail, "error", "wrong") +
         lines(folder.cases, Status::Error, "error", "not finished") +
         lines(folder.cases, Status::Unproven, "warning", "not proven");
}

}  // namespace parity::reports
