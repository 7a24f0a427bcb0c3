#include "harness/cli/planted.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "harness/cli/catalogue.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::cli {
namespace {

// By name, of kernels that are loaded and of those that are not: what their code calls the fault.
std::string known_as(const Candidate& candidate, const std::string& fault,
                     std::set<std::string>& known) {
  std::string found;
  const auto look = [&](std::string_view id, std::string_view alias) {
    known.emplace(id);
    if (fault == id || (!alias.empty() && fault == alias)) found = id;
  };
  if (candidate.kernel)
    for (const FaultDef& def : candidate.kernel->faults) look(def.id, def.alias);
  else if (const KernelInfo* elsewhere = unloaded(candidate.name))
    for (const FaultInfo& info : elsewhere->faults) look(info.fault, "");
  return found;
}

}  // namespace

void plant(std::vector<Subject>& subjects, const std::string& fault) {
  std::set<std::string> known;
  for (Subject& subject : subjects) {
    subject.command += " --fault " + fault;
    std::vector<Candidate> faulty;
    for (const Candidate& candidate : subject.candidates) {
      const std::string id = known_as(candidate, fault, known);
      if (id.empty()) continue;
      if (candidate.kernel)
        faulty.push_back(candidate_of(*candidate.kernel, candidate.options, subject.problem, id));
      else
        faulty.emplace_back(candidate).fault = id;
    }
    subject.candidates = std::move(faulty);
  }
  std::erase_if(subjects, [](const Subject& subject) { return subject.candidates.empty(); });
  if (!subjects.empty()) return;
  const std::vector<std::string> ids(known.begin(), known.end());
  const std::string near = nearest(fault, ids);
  throw UsageError(fmt::format(
      "--fault {}: no kernel of these cases has it; {}", fault,
      ids.empty() ? "they have none"
                  : fmt::format("{}they have {}",
                                near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                fmt::join(ids, ", "))));
}

}  // namespace parity::cli
