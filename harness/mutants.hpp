// Which mutants there are, and on which candidates of which cases they are tried.
//   <kernel>!<fault>    a kernel with the fault as its run-time argument
//   <op>.base!<fault>   the op's base with the fault, at the contracts of the op's kernels
//   <chain>!<fault>     the same, on the cases of one quantiser chain
#pragma once

#include <string>
#include <vector>

#include "harness/suite.hpp"

namespace parity {

struct Mutant {
  MutantRecord record = {};
  std::string fault = {};  // as the code that is switched knows it, which may be the alias
  const KernelDef* kernel = nullptr;
  const OpDef* op = nullptr;
  const ChainDef* chain = nullptr;
};

// Sorted by id. A fault that is known by two names keeps the one that starts with "A-"; one place
// has it once.
std::vector<Mutant> mutants_of(const Registry&);

inline constexpr std::string_view kNoCase = "no case of this lane runs it";

// The subjects of a kill table: every case with its clean candidates first and its mutants after
// them.
struct MutationPlan {
  struct Slot {
    bool clean = false;
    std::size_t twin = 0;                   // of a mutant: the clean candidate that must pass
    std::vector<std::size_t> mutants = {};  // whom it kills if it fails
  };
  std::vector<Subject> subjects = {};
  std::vector<std::vector<Slot>> slots = {};  // beside the candidates of each subject
  std::vector<std::string> never = {};  // per mutant: why no candidate could run; "" = some could
};
// `mutants` are those that were asked for, `cases` theirs.
MutationPlan plan_mutation(const Registry&, const std::vector<Mutant>& mutants,
                           const std::vector<Case>& cases, const MutateOptions&);

}  // namespace parity
