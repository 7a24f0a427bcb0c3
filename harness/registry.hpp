// Everything that registered itself, sorted by name before anyone reads it, so that link order
// never shows.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity {

// One evaluation of an op at a contract.
//   variation  0: the base itself. 1..K: harmless variants (another order of reduction, another
//   block, stochastic rounding
//              at the declared points), each drawn from `seed`
//   fault      a fault of OpDef::faults switched on (a mutant of the reference), else empty
struct BaseRequest {
  const Case& problem;
  const Contract& contract;
  const Tensors& inputs;
  int variation = 0;
  std::uint64_t seed = 0;
  std::string_view fault = {};
  bool gradients = true;
};

// A case as a file from elsewhere holds it: attributes (the case's own over those of the groups
// above) as text, and datasets by path below the case: "inputs/q", "outputs/o", "grads/q",
// "cotangents/o", "candidates/<label>/outputs/o".
struct StoredCase {
  std::string file = {};
  std::string name = {};
  std::string group = {};  // name of the group above, "" at the root: a quantiser's chain
  std::map<std::string, std::string> attributes = {};
  std::vector<std::string> paths = {};
  std::map<std::string, std::map<std::string, std::string>> path_attributes = {};
  std::function<Tensor(const std::string& path)> read = {};
};

// The same case in the op's own terms. `results` are renamed to the op's outputs; everything else
// is in `unmapped`.
struct ImportedCase {
  Case problem = {};
  Tensors inputs = {};
  std::map<std::string, std::string> results =
      {};                        // output name -> path below the case (or below a candidate)
  std::string unsupported = {};  // an option that the reference does not know
};

// How the outputs of two launches must relate bit for bit, in the terms of one op ("split": [0,T1)
// then [T1,T) with the carried state is one run).
struct BitDifference {
  std::string tensor = {};
  std::int64_t differing = 0;
  std::int64_t first = -1;
  std::string detail = {};
};
using RunKernel = std::function<Tensors(const Case&, const Tensors& inputs,
                                        const Options& kernel_options, int threads)>;
struct Invariant {
  std::string_view name = {};  // a word that contracts claim: "batch", "split", "chunk", "causal"
  std::string_view what = {};
  std::string (*applies)(const Case&, const Options&) = nullptr;  // "" = yes, else why not
  std::vector<BitDifference> (*differences)(const Case&, const Tensors& inputs, const Options&,
                                            const RunKernel&) = nullptr;
};

enum class OpKind : std::uint8_t { Op, Composite };

struct OpDef {
  std::string_view name = {};
  std::string_view what = {};  // the formula, in a line
  OpKind kind = OpKind::Op;
  std::vector<Direction> directions = {Direction::Forward};
  std::vector<std::string_view> sources = {};  // where the formula comes from
  std::vector<TensorSpec> (*inputs)(const Case&) =
      nullptr;  // cotangents last, where the case has a backward
  std::vector<TensorSpec> (*outputs)(const Case&) = nullptr;  // outputs, states, then gradients
  // Fills a tensor that follows from the sizes (cu_seqlens of a packed batch) and says whether it
  // did.
  bool (*derive)(const Case&, Tensor&) = nullptr;
  // Sets the inputs that follow from the others, once those are drawn (the truth's intermediates,
  // where layers run by themselves).
  void (*complete)(const Case&, Tensors&) = nullptr;
  std::string (*refuses)(const Case&) = nullptr;  // why the op has no such case; "" = it has
  // Truth and magnitude companion in fp64 on the exact stored values; gradients only where asked
  // for.
  Expected (*reference)(const Case&, const Tensors& inputs, bool gradients) = nullptr;
  Evaluation (*base)(const BaseRequest&) = nullptr;
  Contract (*contract)(const Case&, const std::map<std::string, std::string>& attributes) =
      nullptr;  // of a recording
  ImportedCase (*import)(const StoredCase&) = nullptr;
  // Wrong answers that a loose bound would accept, beyond zeros, copies, means and other seeds: by
  // output name.
  std::vector<std::pair<std::string, Evaluation>> (*trivial)(const Case&,
                                                             const Tensors& inputs) = nullptr;
  std::vector<FaultDef> faults = {};  // of the base: each becomes the mutant <op>.base!<id>
  std::vector<Invariant> invariants = {};
  std::source_location where = std::source_location::current();
};

// One public chain of low-precision arithmetic: a quantiser, a fake quantiser, a quantised linear.
// Cases name it as their option `chain`; the op that they belong to runs it.
struct ChainDef {
  std::string_view name = {};
  std::string_view what = {};
  Expected (*quantize)(const Case&, const Tensors& inputs, std::string_view fault) = nullptr;
  std::vector<TensorSpec> (*outputs)(const Case&) = nullptr;
  std::vector<std::string_view> groups = {};  // golden groups that it explains
  std::vector<FaultDef> faults = {};
  std::vector<TensorSpec> (*inputs)(const Case&) = nullptr;  // null: the op's own (x)
  // Adds to a stored case what only this chain knows: options by its attributes, inputs beside x.
  void (*import)(const StoredCase&, ImportedCase&) = nullptr;
  std::source_location where = std::source_location::current();
};

// A known failure: reported apart, never hidden. Must name an owner and an expiry (YYYY-MM-DD).
struct Waiver {
  std::string_view id = {};  // glob
  std::string_view reason = {};
  std::string_view url = {};
  std::string_view owner = {};
  std::string_view expires = {};
};

// Why coverage has a hole that stays: mathematics has no exact probe there, a kernel is forward
// only by design. `list --coverage` prints it with the hole; one that explains none is a finding.
struct Explanation {
  std::string_view op = {};
  std::string_view direction = "*", dtype = "*", kernel = "*";  // globs
  std::string_view hole = "no exact probe";                     // as coverage words it; a glob
  std::string_view why = {};                                    // one sentence
};

class Registry {
 public:
  std::vector<OpDef> ops = {};
  std::vector<KernelDef> kernels = {};
  std::vector<CaseSet> case_sets = {};
  std::vector<BoundDef> bounds = {};
  std::vector<ChainDef> chains = {};
  std::vector<Waiver> waivers = {};
  std::vector<Explanation> explanations = {};

  const OpDef* op(std::string_view name) const;           // null if unknown
  const OpDef& op_or_throw(std::string_view name) const;  // UsageError with the nearest spelling
  const KernelDef* kernel(std::string_view name) const;
  const ChainDef* chain(std::string_view name) const;
  const ChainDef* chain_of_group(std::string_view golden_group) const;
  const OpDef* op_of(const ChainDef&) const;  // whose cases name it; null where none does
  Bound bound_of(const Case&, const Contract&,
                 const TensorSpec&) const;  // the set's, else the op's
};

const Registry& registry();  // sorts on first use after a registration; not thread safe before that

// Why `needs` ("avx512", "sm_90", ...) is not available on this machine; "" = it is.
std::string missing_capability(std::string_view needs);

}  // namespace parity
