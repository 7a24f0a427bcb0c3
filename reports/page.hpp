// The parts of the page; html.cpp puts them together.
#pragma once

#include <string>
#include <string_view>

#include "reports/reports.hpp"

namespace parity::reports::page {

std::string_view style();   // CSS, light and dark
std::string_view script();  // filter, permalinks, copy buttons, theme

// What links to a record: its id, with direction and check where they are not the usual ones;
// stable between runs.
std::string anchor_of(const CaseRecord&);
std::string link_to(const CaseRecord&);  // "#...", percent-encoded

std::string badge(std::string_view status);
std::string bar(double bound_used);  // share of the bound as a bar and a number

std::string headline(const RunFolder&);
std::string matrix(const RunFolder&);
std::string cases(const RunFolder&,
                  std::size_t room);  // bytes; what does not fit is shown without pictures
std::string kill_table(const RunFolder&);
std::string ledger(const RunFolder&);
std::string environment(const RunFolder&);

// One case opened: `pictures` false leaves out what passing cases of one kernel have in common.
std::string details(const CaseRecord&, bool pictures);

}  // namespace parity::reports::page
