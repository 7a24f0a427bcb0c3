// --dump: what a case was judged on, as a file for other tools (h5py, h5dump, `parity golden
// info`).
#pragma once

#include <filesystem>
#include <string>

#include "harness/record.hpp"
#include "harness/source.hpp"

namespace parity::cli {

struct DumpLimits {
  std::int64_t bytes = 0;  // of the tensors, uncompressed
  double seconds = 60;
};

// Runs the candidate once more in a child process and writes dir/<id with / as __>.h5: inputs,
// truth, base and candidate.
// "" or why there is no dump.
std::string dump_case(const Subject&, const Candidate&, const CaseRecord&, const DumpLimits&,
                      const std::filesystem::path& dir);

std::string dump_name(std::string_view id);  // "a__b.h5"

}  // namespace parity::cli
