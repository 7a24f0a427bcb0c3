// SARIF 2.1.0 (OASIS): failures of kernels that stand in the repository, for code scanning. A rule
// is a view; a code host shows 5000 results of a run, so the worst come first and the rest is left
// to the page.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

#include "harness/build_info.hpp"
#include "reports/json_writer.hpp"
#include "reports/source_place.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kShown = 5000;

double excess_of(const CaseRecord& record) {
  const TensorRecord* tensor = telling_tensor(record);
  const ViewResult* view = tensor ? telling_view(*tensor) : nullptr;
  const double factor = view ? excess(*view) : INFINITY;
  return std::isnan(factor) ? INFINITY : factor;
}

void message(JsonWriter& out, const std::string& text) {
  out.key("message").begin_object().field("text", text).end_object();
}

void result(JsonWriter& out, const CaseRecord& record, const SourcePlace& place) {
  const TensorRecord* tensor = telling_tensor(record);
  out.begin_object().field("ruleId", record.view).field("level", "error");
  message(out, fmt::format("{}: {}. Rerun: {}", record.id,
                           tensor && telling_view(*tensor) ? what_failed(*tensor) : record.reason,
                           record.repro));
  out.key("locations").begin_array().begin_object().key("physicalLocation").begin_object();
  out.key("artifactLocation").begin_object().field("uri", place.file).end_object();
  out.key("region").begin_object().field("startLine", place.line).end_object();
  out.end_object().end_object().end_array();
  out.key("partialFingerprints")
      .begin_object()
      .field("parityRecord/v1", record.id + " " + record.direction + " " + record.check)
      .end_object()
      .end_object();
}

}  // namespace

std::string sarif(const RunFolder& folder) {
  std::vector<std::pair<const CaseRecord*, SourcePlace>> failures;
  std::set<std::string> rules;
  for (const CaseRecord& record : folder.cases)
    if (record.status == "fail" && unexpected(record))
      if (auto place = place_of_kernel(record)) {
        failures.emplace_back(&record, std::move(*place));
        rules.insert(record.view);
      }
  std::ranges::stable_sort(failures, std::ranges::greater{},
                           [](const auto& failure) { return excess_of(*failure.first); });
  if (failures.size() > kShown) failures.resize(kShown);

  JsonWriter out;
  out.begin_object()
      .field("$schema", "https://json.schemastore.org/sarif-2.1.0.json")
      .field("version", "2.1.0");
  out.key("runs").begin_array().begin_object().key("tool").begin_object().key("driver");
  out.begin_object().field("name", "parity").field("version", build_info().version).key("rules");
  out.begin_array();
  for (const std::string& rule : rules) {
    out.begin_object().field("id", rule).key("shortDescription").begin_object();
    out.field("text", "the view '" + rule + "' is violated").end_object().end_object();
  }
  out.end_array().end_object().end_object().key("results").begin_array();
  for (const auto& [record, place] : failures) result(out, *record, place);
  return out.end_array().end_object().end_array().end_object().text() + "\n";
}

}  // namespace parity::reports
