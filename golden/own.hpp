// Our own goldens: the layout of an independent one (inputs/, cotangents/, outputs/, grads/ hold
// what they hold there), and besides scale/<path>, the attribute `floor` of each result, digests,
// and the case's id, by which it is found again.
#pragma once

#include <string>

#include "golden/golden.hpp"
#include "harness/registry.hpp"

namespace parity::golden {

// The case that the id names, with the stored inputs. Not generated again: the stored bits count.
ImportedCase import_own(const StoredCase& stored, const OpDef& op, const std::string& id);

// Closes the file that stored cases were last read from in this process: a child that is forked
// with it open would first copy and free all that the library holds of it.
void close_read_file();

// Every dataset against the digest that it carries; GoldenError where one differs or carries none.
Integrity check_dataset_digests(const fs::path& file);

}  // namespace parity::golden
