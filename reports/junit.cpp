// JUnit XML: a suite for each op, one testcase a record. `unsupported` and `waived` are skipped
// with their reason; `unproven` and `error` are errors; a damaged recording that fails as it should
// is a pass that says so.
#include <fmt/format.h>

#include "reports/reports.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

struct Tallies {
  std::int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

double seconds_of(const CaseRecord& record) {
  const Times& t = record.time_ms;
  return (t.generate + t.reference + t.base + t.kernel + t.compare) / 1e3;
}

bool failed_as_expected(const CaseRecord& record) {
  return record.status == "fail" && record.expected == "fail";
}

void add(Tallies& tallies, const CaseRecord& record) {
  ++tallies.tests;
  tallies.seconds += seconds_of(record);
  if (failed_as_expected(record)) return;
  if (record.status == "fail")
    ++tallies.failures;
  else if (record.status == "error" || record.status == "unproven")
    ++tallies.errors;
  else if (record.status == "unsupported" || record.status == "waived")
    ++tallies.skipped;
}

std::string attributes(const Tallies& tallies) {
  return fmt::format(R"(tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3f}")",
                     tallies.tests, tallies.failures, tallies.errors, tallies.skipped,
                     tallies.seconds);
}

std::string property(std::string_view name, std::string_view value) {
  return fmt::format("        <property name=\"{}\" value=\"{}\"/>\n", name, escaped(value));
}

std::string properties(const CaseRecord& record) {
  std::string text;
  if (!record.views.empty())
    text += property("views", fmt::format("{}", fmt::join(record.views, ",")));
  for (const TensorRecord& tensor : record.tensors) {
    text += property(escaped(tensor.name) + ".bound_used", number(tensor.bound_used));
    text += property(escaped(tensor.name) + ".rel_l2", number(tensor.rel_l2));
  }
  return text.empty() ? "" : "      <properties>\n" + text + "      </properties>\n";
}

// What went wrong, if anything did: the element that makes a test runner count it.
std::string outcome(const CaseRecord& record) {
  if (record.status == "pass" || failed_as_expected(record)) return "";
  const auto element = [&](const char* name, std::string_view type) {
    return fmt::format("      <{} type=\"{}\" message=\"{}\">{}</{}>\n", name, escaped(type),
                       escaped(record.reason),
                       record.status == "fail" ? escaped(console_failure(record, {})) : "", name);
  };
  if (record.status == "fail") return element("failure", record.view);
  if (record.status == "error") return element("error", record.error_kind);
  if (record.status == "unproven") return element("error", "unproven");
  return fmt::format("      <skipped message=\"{}: {}\"/>\n", record.status,
                     escaped(record.reason));
}

std::string testcase(const CaseRecord& record) {
  std::string name = record.id;
  if (!record.direction.empty() && record.direction != "both") name += " " + record.direction;
  if (!record.check.empty() && record.check != "parity") name += " " + record.check;
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n",
                                 escaped(record.kernel), escaped(name), seconds_of(record));
  text += properties(record) + outcome(record);
  const std::string note =
      failed_as_expected(record) ? "fails, as this damaged candidate must\n" : "";
  return text + fmt::format("      <system-out>{}{}</system-out>\n    </testcase>\n", note,
                            escaped(record.repro));
}

}  // namespace

std::string junit(const RunFolder& folder) {
  std::map<std::string, std::vector<const CaseRecord*>> suites;
  Tallies all;
  for (const CaseRecord& record : folder.cases) {
    suites[record.op].push_back(&record);
    add(all, record);
  }
  std::string body;
  if (!folder.complaints.empty()) {  // no case was judged: the whole file was refused
    const auto n = static_cast<std::int64_t>(folder.complaints.size());
    all.tests += n, all.errors += n;
    body += fmt::format(
        "  <testsuite name=\"files\" tests=\"{}\" failures=\"0\" errors=\"{}\" skipped=\"0\" "
        "time=\"0.000\">\n",
        n, n);
    for (const Complaint& complaint : folder.complaints)
      body += fmt::format(
          "    <testcase classname=\"golden\" name=\"{0}\" time=\"0.000\"><error type=\"exit {1}\" "
          "message=\"{0}\"/></testcase>\n",
          escaped(complaint.text), complaint.exit);
    body += "  </testsuite>\n";
  }
  for (const auto& [op, records] : suites) {
    Tallies tallies;
    for (const CaseRecord* record : records) add(tallies, *record);
    body += fmt::format("  <testsuite name=\"{}\" {} timestamp=\"{}\">\n", escaped(op),
                        attributes(tallies), escaped(folder.run.started));
    for (const CaseRecord* record : records) body += testcase(*record);
    body += "  </testsuite>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"parity\" "
      "{}>\n{}</testsuites>\n",
      attributes(all), body);
}

}  // namespace parity::reports
