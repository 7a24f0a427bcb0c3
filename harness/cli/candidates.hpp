// Whom a verb looks at: kernels of the registry or of a plug-in, one with a fault planted, or a
// command of --exec.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/arguments.hpp"
#include "harness/record.hpp"
#include "harness/source.hpp"

namespace parity::cli {

// Makes the kernels of every --plugin known; before anything is selected. Where there is none,
// nothing happens. Returns the flags that repeat it (" --plugin mine.so"), or "".
std::string load_plugins();

// The subjects that the arguments name, with --plugin, --fault and --exec applied. Of a plug-in
// only its own kernels are left, unless others are named.
std::vector<Subject> candidates_of(const Arguments&, Lane);

// The cases that the arguments name with the command of --exec as their candidate (exec.cpp).
std::vector<Subject> command_subjects(const Arguments&, Lane);
// The flags that make that candidate again, after the id.
std::string command_flags(const Arguments&);
// A command's files take time beyond its own.
Arguments with_grace(Arguments);
// What a record of that candidate says beyond what the walk knows.
void amend_command(CaseRecord&, const std::string& verb, const Arguments&);

}  // namespace parity::cli
