// The parts of the page; html.cpp puts them together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/reports.hpp"

namespace parity::reports::page {

std::string_view style();   // CSS, light and dark
std::string_view script();  // filter, permalinks, copy buttons, theme

// What links to a record: its id, with direction and check where they are not the usual ones;
// stable between runs.
std::string anchor_of(const CaseRecord&);
std::string link_to(const CaseRecord&);  // "#...", percent-encoded

std::string badge(std::string_view status);
std::string bar(double share);                     // share of a limit as a bar and a number
std::string of_base(std::optional<double> value);  // a dash where there was no base to compare with

// A table, row by row. Cells are HTML. The first character of a title may say what its column
// holds: '#' numbers, '$' a name in one line, '@' an id that may wrap.
class Table {
 public:
  explicit Table(std::vector<std::string_view> titles);
  void row(const std::vector<std::string>& cells);
  bool empty() const { return rows_.empty(); }
  std::string html() const;

 private:
  std::string titles_ = {}, rows_ = {};
  std::vector<std::string_view> classes_ = {};
};

std::string headline(const RunFolder&);
std::string matrix(const RunFolder&);

// The list of cases. What does not pass stands in the page as it is; groups of what passes, which
// are long and alike, are packed: their boxes say data-part="N", for part N of `packed`, which the
// script unpacks and sets in when a group is opened, filtered or linked to.
struct Cases {
  std::string html = {};
  std::string packed = {};  // parts, each after the other with kPartEnd between them
};
inline constexpr char kPartEnd = '\x1e';  // stands in no text: `escaped` replaces it
Cases cases(const RunFolder&);

std::string kill_table(const RunFolder&);
std::string ledger(const RunFolder&);
std::string environment(const RunFolder&);

// One case opened: `pictures` false leaves out what passing cases of one kernel have in common.
// `layers`: its waterfall, or nothing.
std::string details(const CaseRecord&, bool pictures, const std::string& layers = "");

}  // namespace parity::reports::page
