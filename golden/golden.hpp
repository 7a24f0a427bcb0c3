// Golden files and recordings (HDF5): reading them into subjects of the walk, freezing and checking
// our own. Layouts: golden/README.md.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record.hpp"
#include "harness/source.hpp"

namespace parity::golden {

namespace fs = std::filesystem;

enum class Family { Own, Independent, Recording };
std::string_view name(Family);

// Everything in a file that could be a case; UsageError (exit 2) if it is no HDF5 file or holds no
// group with an `op`.
std::vector<StoredCase> stored_cases(const fs::path& file);
// Recording: every case holds candidates and no outputs. Own: the root attribute `family` says so.
Family family_of(const std::vector<StoredCase>&);

// The reference judged against stored truth (independent and own files), one subject a case;
// candidates: "reference", and `kernel` too where it is named.
std::vector<Subject> verify_subjects(const fs::path& file, const std::string& kernel);
// Stored candidates judged against the reference on stored inputs: ids op/<file
// stem>:<case>/.../recorded@recording.<label>.
std::vector<Subject> recording_subjects(const fs::path& file);

struct FreezeOptions {
  fs::path file = {};
  std::vector<Case> cases = {};
  bool contiguous = false;                             // no chunks, no filters: fast to verify
  std::map<std::string, std::string> provenance = {};  // compiler, flags, commit, ...
};
// Inputs, truth, scale, noise floor, provenance and digests. Written beside the file, then renamed
// over it; the manifest of its golden folder is brought up to date, where there is one.
void freeze(const FreezeOptions&);

// A case of ours as an own file holds it, found by its id without reading the others.
struct FrozenCase {
  std::string name = {}, commit = {};
};
std::optional<FrozenCase> frozen_case(const fs::path& own_file, const std::string& id);

// One file as golden/MANIFEST.json knows it. Blocks are XXH3-64 digests of consecutive pieces of
// the file, so that a change can be placed; sha256 is its identity.
struct ManifestEntry {
  std::string file = {};  // relative to the manifest
  std::string family = {}, source = {}, sha256 = {};
  std::int64_t cases = 0, bytes = 0, block_bytes = 0;
  std::vector<std::string> blocks = {};
};
std::vector<ManifestEntry> read_manifest(const fs::path& golden_dir);
void write_manifest(const fs::path& golden_dir);  // of every golden below it
bool is_golden(const fs::path& file);             // by its name: .h5, and .json but the manifest

// What a file was found to be whole by.
struct Integrity {
  std::string by = {};  // empty: nothing says what it should be
  std::int64_t digests = 0, bytes = 0;
};
// Every byte against the manifest that covers the file; where none does, every dataset of an own
// file against the digest that it carries. GoldenError (exit 5) names file, dataset and offset of
// what changed, or what is missing.
Integrity check_integrity(const fs::path& file);
// Every file of the manifest is there and whole.
void check_manifest(const fs::path& golden_dir);

// Two files, case by case and tensor by tensor, in noise units: |a - b| over the bound that the
// older one carries.
std::vector<CaseRecord> diff(const fs::path& older, const fs::path& newer);

}  // namespace parity::golden
