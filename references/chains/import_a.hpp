// What the stored cases of chain A have beside x.
#pragma once

#include "references/quantize/import.hpp"

namespace parity::quantize {

// inputs/offsets, the row ends of the groups, become the parts of M.
void import_groups(const StoredCase&, ImportedCase&);
// `text`: "1,1,-1,...", or "" for the vector of Transformer Engine and torchao.
void import_signs(const StoredCase&, ImportedCase&, const std::string& text);

}  // namespace parity::quantize
