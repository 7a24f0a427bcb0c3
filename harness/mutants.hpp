// Which mutants there are, and on which candidates of which cases they are tried.
//   <kernel>!<fault>    a kernel with the fault as its run-time argument
//   <op>.base!<fault>   the op's base with the fault, at the contracts of the op's kernels
//   <chain>!<fault>     the same, on the cases of one quantiser chain
#pragma once

#include <map>
#include <span>
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
// `elsewhere`: kernels of a library that is not loaded here (MutateOptions); must outlive them.
std::vector<Mutant> mutants_of(const Registry&, std::span<const KernelDef> elsewhere = {});

inline constexpr std::string_view kNoCase = "no case of this lane runs it";

// The subjects of a kill table: cases with their clean candidates first and their mutants after
// them.
struct MutationPlan {
  struct Slot {
    bool clean = false;
    std::size_t twin = 0;                   // of a mutant: the clean candidate that must pass
    std::vector<std::size_t> mutants = {};  // whom it kills if it fails
  };
  std::vector<Subject> subjects = {};
  std::vector<std::vector<Slot>> slots = {};  // beside the candidates of each subject
};

// Plans a few cases at a time, so that what is planned stays small: every child is forked with it.
class MutationPlanner {
 public:
  // All cases that will be planned: they share the clean variants that are asked for.
  MutationPlanner(const Registry&, const std::vector<Case>&, const MutateOptions&);
  // With those of the mutants that have no status yet.
  MutationPlan plan(const std::vector<Mutant>&, std::span<const Case>);
  // Why a mutant was in no plan so far; "" = it was.
  std::string never(std::size_t mutant) const;

 private:
  struct Builder;
  void add_kernels(Builder&, const std::vector<Mutant>&, const Case&);
  void add_bases(Builder&, const std::vector<Mutant>&, const Case&, const OpDef&);

  const Registry& registry_;
  std::vector<const KernelDef*> kernels_ = {};         // with those elsewhere
  std::map<std::string, std::int64_t> held_out_ = {};  // per op: variants of each base
  std::map<std::size_t, std::string> why_not_ = {};    // "" = planned
};

}  // namespace parity
