// The hops of one case, in order; each is one file. Hops 1, 2, 3, 3b, 5 and 6 are pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/noise.hpp"
#include "harness/record.hpp"
#include "harness/source.hpp"

namespace parity {

// 1 named (expand.cpp). Cases of all case sets up to `lane`, sorted by id; each id once. Sweep
// rotates the seeds by `seed_shift`. A case that its op refuses is not declared.
std::vector<Case> expand(const Registry&, Lane lane, std::uint64_t seed_shift = 0);
// The case that an id names: declared, or any single one whose fill is known to the op. UsageError
// if neither.
Case resolve(const Registry&, const ParsedId&);

// 2 generated (generate.cpp). Bits depend on (seed, tensor number, index) alone, not on `threads`.
Tensors generate(const Case&, const OpDef&, int threads);

// 3b base (base.cpp). Base and K variants at a contract; K follows the check and the cost of the
// case.
Base run_base(const OpDef&, const Case&, const Contract&, const Tensors& inputs, bool gradients);
inline constexpr int kVariants = 8;
// 3c measured (noise.cpp). What the variants say about the noise of every float output; once per
// case, before candidates.
void measure_noise(Base&, const Expected&);
Noise measure_noise(const Base&, const ExpectedTensor&);

// 5 compared (compare.cpp). Every statistic of tolerance.md §6 of one tensor; no verdict.
struct Comparison {
  const ExpectedTensor& expected;
  const Base* base = nullptr;  // null: only the bound is judged (golden verify)
  const Tensor& observed;
  Bound bound = {};
  Fidelity fidelity = Fidelity::Faithful;
  double spread = 0;    // RMS by which launches of a kernel differ that claims no determinism
  bool exact = false;   // exact probe or discrete output: equality
  bool details = true;  // profiles, heatmaps, histogram, scatter for the page
};
TensorRecord compare(const Comparison&);

// 6 judged (judge.cpp). Fills views, status and view of a tensor from its statistics; then of the
// whole record.
void judge_tensor(TensorRecord&);
void judge(CaseRecord&);  // from tensors and accounting; a status that is set already (error,
                          // unsupported) stays
void apply_waivers(CaseRecord&, std::span<const Waiver>, std::string_view today);

// Which trivial candidates (tolerance.md §7) pass where they must not: reasons, empty if the case
// proves something.
std::vector<std::string> vacuity(const Subject&, const OpDef*, const Contract&,
                                 const Tensors& inputs, const Expected&, const Base&);

// The walk of one candidate on a subject whose truth is known (run_case.cpp). Never throws: trouble
// is Status::Error. Its determinism claims enter the views of each tensor as "determinism" before
// judge(record) looks at them.
struct Known {
  const Tensors& inputs;
  const Expected& expected;
  const Base& base;
  std::vector<std::string> vacuous = {};
  Times times = {};
};
struct WalkOptions {
  int repeat = 1;       // launches; from 2 on the results are compared bit for bit
  bool details = true;  // profiles and histograms for the page
  bool waive = true;    // known failures become `waived`
};
CaseRecord run_case(const Subject&, const Candidate&, const Known&, const WalkOptions& = {});
// The record of a candidate before anything ran: the parts of its id, contract, repro.
CaseRecord blank_record(const Subject&, const Candidate&);

}  // namespace parity
