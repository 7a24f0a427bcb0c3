// Pictures and page of `parity drift`.
#pragma once

#include <string>
#include <vector>

#include "reports/drawing.hpp"
#include "reports/drift.hpp"

namespace parity::reports {

Drawing drift_figure(const DriftReport&, std::size_t column);  // of the judgement
// The loss, then what decided; indices into the judgement's columns.
std::vector<std::size_t> telling_columns(const DriftReport&);
std::string drift_page(const DriftReport&, const std::string& command);  // HTML, one file

}  // namespace parity::reports
