// The ledger of bounds, cases/BOUNDS.tsv: how wide the bound of every tensor was when it was last
// agreed on. A bound that has become wider since is a finding of `parity check` until its line says
// why; what was loosened again and again adds up in the column `creep`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/cli/check.hpp"

namespace parity::cli {

// One bound at one case: the coefficients of the inequality (bound.hpp) there.
struct LedgerLine {
  std::string id = {};  // of the case with the kernel whose contract was asked
  std::string tensor = {};
  std::string kind = {};  // exact, proved, estimated
  double value = 0;       // times |x*|
  double companion = 0;   // times m, all terms together
  double spread = 0;      // times sigma; 0: by the rule, or none
  double creep = 1;       // product of all loosenings
  std::string explained = {};
};

// A line for each op, dtype, kernel, check and tensor: at the first case that asks for the bound.
std::vector<LedgerLine> ledger_of(const Registry&);
std::vector<LedgerLine> parse_ledger(const std::string& text);  // UsageError that names the line
std::string print_ledger(const std::vector<LedgerLine>&);

struct LedgerReport {
  std::vector<LedgerLine> lines = {};  // the ledger brought up to date
  std::vector<Finding> loosened = {};
  std::int64_t unknown = 0;  // bounds that the old ledger does not have
};
// The lines of `old` asked again of this registry. With an explanation what became wider is no
// finding: its line takes the explanation. `whole`: this build has every kernel, so that a line of
// one that is not registered goes.
LedgerReport compare_ledger(const Registry&, const std::vector<LedgerLine>& old,
                            const std::string& explanation, bool whole = true);

std::filesystem::path ledger_file();  // of the sources here or beside the executable; "" if none

}  // namespace parity::cli
