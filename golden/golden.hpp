// Golden files and recordings (HDF5): reading them into subjects of the walk, freezing and checking our own.
// Layouts: golden/README.md (own), interface.md §5 restated there (independent, recordings).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/source.hpp"

namespace parity::golden {

namespace fs = std::filesystem;

enum class Family { Own, Independent, Recording };

// Everything in a file that could be a case; UsageError (exit 2) if it is no HDF5 file or holds no group with an `op`.
std::vector<StoredCase> stored_cases(const fs::path& file);

// The reference judged against stored truth (independent files), one subject a case; candidates: "reference", and
// `kernel` too where it is named.
std::vector<Subject> verify_subjects(const fs::path& file, const std::string& kernel);
// Stored candidates judged against the reference on stored inputs.
std::vector<Subject> recording_subjects(const fs::path& file);

struct FreezeOptions {
  fs::path file = {};
  std::vector<Case> cases = {};
  bool contiguous = false;  // no chunks, no filters: fast to verify
};
void freeze(const FreezeOptions&);  // inputs, truth, scale, floor, provenance, digests; updates the manifest beside it

struct ManifestEntry {
  std::string file = {}, family = {}, source = {}, sha256 = {};
  std::int64_t cases = 0;
};
std::vector<ManifestEntry> read_manifest(const fs::path& golden_dir);
// Empty if the file is as the manifest says (or not in it); else the reason. GoldenError is thrown by callers.
std::string digest_complaint(const fs::path& file);

}  // namespace parity::golden
