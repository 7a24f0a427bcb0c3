// What there is, as plain text and numbers: what this executable registered, and what the libraries
// that are not loaded registered when they were built (registry.json beside the executable). `list`
// and `show` read nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/source.hpp"

namespace parity::cli {

struct FaultInfo {
  std::string id = {};  // of the mutant: "kda.chunked_f32!F-12"
  std::string fault = {}, what = {}, unsupported = {};
};

struct VariantInfo {
  std::string options = {}, lane = {};
};

struct KernelInfo {
  std::string name = {}, op = {}, what = {}, file = {}, needs = {}, environment = {};
  std::string contract = {};  // in a line: name, accumulator, chunk, rounding points, claims
  std::vector<std::string> dtypes = {}, directions = {};  // no dtype: any
  std::vector<VariantInfo> variants = {};                 // the first is the default
  std::map<std::string, std::int64_t> takes = {};         // lane -> cases
  std::map<std::string, std::int64_t> refuses = {};       // reason -> cases of all lanes
  // "forward bf16" -> cases, exact probes
  std::map<std::string, std::int64_t> taken = {}, exact = {};
  std::vector<FaultInfo> faults = {};
};

struct OpInfo {
  std::string name = {}, what = {}, kind = {};
  std::vector<std::string> directions = {}, sources = {};
  std::map<std::string, std::int64_t> cases =
      {};  // lane -> cases; full contains smoke, long contains full
  std::int64_t exact_probes = 0;
  std::vector<std::string> dtypes = {};
  std::vector<FaultInfo> faults = {};
};

struct ExplanationInfo {
  std::string op = {}, direction = {}, dtype = {}, kernel = {}, hole = {}, why = {};
};

struct Catalogue {
  std::vector<OpInfo> ops = {};
  std::vector<KernelInfo> kernels = {};
  std::vector<ExplanationInfo> explanations = {};
};

std::string_view word(Rounding);  // "rounded", "truncated", ...
std::string describe(const Contract&);
Catalogue registered();  // by what is loaded here
Catalogue catalogue();   // and by what registry.json adds
std::string to_json(const Catalogue&);
Catalogue parse_catalogue(const std::string& json);  // UsageError if it is none

// Kernels of a library that is not loaded here: the suite's worker loads it and finds them by name.
// Adds those that take a case as candidates of its subject.
void add_unloaded(Subject&, std::string_view kernels);
// For one that an id names: null if there is none.
const KernelInfo* unloaded(std::string_view kernel);
Candidate unloaded_candidate(const KernelInfo&, const Options&);
// Those with faults, as mutants are planned of them; they live as long as the process.
std::vector<KernelDef> unloaded_with_faults();

std::filesystem::path executable();     // of this process
std::filesystem::path golden_folder();  // "golden" here, else beside the sources of the executable;
                                        // empty if there is none

}  // namespace parity::cli
