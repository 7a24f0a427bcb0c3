#include "harness/record.hpp"

#include <algorithm>
#include <array>

#include "harness/failure.hpp"

namespace parity {
namespace {

constexpr std::array<std::string_view, 6> kStatuses = {"pass",        "fail",  "unproven",
                                                       "unsupported", "error", "waived"};
constexpr std::array<std::string_view, 12> kViews = {
    "accounting", "finiteness", "exact", "discrete", "determinism", "bound",
    "grid",       "bias",       "slice", "floor",    "ratio",       ""};

}  // namespace

std::string_view name(Status status) { return kStatuses.at(static_cast<std::size_t>(status)); }
std::string_view name(View view) { return kViews.at(static_cast<std::size_t>(view)); }

Status parse_status(std::string_view text) {
  const auto it = std::ranges::find(kStatuses, text);
  if (it == kStatuses.end()) throw UsageError("no status '" + std::string(text) + "'");
  return static_cast<Status>(it - kStatuses.begin());
}

View parse_view(std::string_view text) {
  const auto it = std::ranges::find(kViews, text);
  if (it == kViews.end()) throw UsageError("no view '" + std::string(text) + "'");
  return static_cast<View>(it - kViews.begin());
}

int worse_exit(int a, int b) {
  constexpr std::array<int, 6> kBySeverity = {2, 5, 1, 3, 4, 0};
  for (const int code : kBySeverity)
    if (a == code || b == code) return code;
  return 2;  // an unknown code is a fault of the harness
}

}  // namespace parity
