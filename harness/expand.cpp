#include <algorithm>
#include <map>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

Lane widest(Lane lane) { return lane == Lane::Sweep ? Lane::Full : lane; }

bool refused(const Registry& registry, const Case& problem) {
  const OpDef* op = registry.op(problem.op);
  return op && op->refuses && !op->refuses(problem).empty();
}

void expand_set(const Registry& registry, const CaseSet& set, std::uint64_t seed_shift,
                std::map<std::string, Case>& cases) {
  for (const Sizes& sizes : set.sizes)
    for (const Dtype dtype : set.dtypes)
      for (const Fill& fill : set.fills)
        for (const Options& options : set.options)
          for (const std::uint64_t seed : set.seeds) {
            Case c{.op = std::string(set.op),
                   .sizes = sizes,
                   .dtype = dtype,
                   .fill = std::string(fill.name),
                   .options = options,
                   .seed = seed + seed_shift,
                   .check = fill.exact && set.check == Check::Parity ? Check::Exact : set.check,
                   .lane = set.lane,
                   .set = &set};
            if (refused(registry, c)) continue;
            // A set of a lower lane keeps the case; the same case may be declared for another
            // check.
            cases.emplace(std::string(name(c.check)) + " " + c.id(), std::move(c));
          }
}

}  // namespace

std::vector<Case> expand(const Registry& registry, Lane lane, std::uint64_t seed_shift) {
  std::map<std::string, Case> by_key;
  for (int level = 0; level <= static_cast<int>(widest(lane)); ++level)
    for (const CaseSet& set : registry.case_sets)
      if (static_cast<int>(set.lane) == level)
        expand_set(registry, set, lane == Lane::Sweep ? seed_shift : 0, by_key);
  std::vector<Case> cases;
  for (auto& [key, c] : by_key) cases.push_back(std::move(c));
  std::ranges::sort(cases, {}, [](const Case& c) { return std::pair(c.id(), c.check); });
  return cases;
}

Case resolve(const Registry& registry, const ParsedId& parsed) {
  const Case& wanted = parsed.problem;
  registry.op_or_throw(wanted.op);
  const std::string id = wanted.id();
  for (const Case& declared : expand(registry, Lane::Long))
    if (declared.id() == id) return declared;
  std::vector<std::string> known;
  for (const CaseSet& set : registry.case_sets) {
    if (set.op != wanted.op) continue;
    for (const Fill& fill : set.fills) {
      known.emplace_back(fill.name);
      if (fill.name != wanted.fill) continue;
      Case single = wanted;
      single.set = &set;
      single.check = fill.exact ? Check::Exact : set.check;
      const OpDef& op = registry.op_or_throw(wanted.op);
      if (op.refuses)
        if (const std::string why = op.refuses(single); !why.empty())
          throw UsageError("id '" + id + "': " + why);
      return single;
    }
  }
  const std::string near = nearest(wanted.fill, known);
  throw UsageError("id '" + id + "': op '" + wanted.op + "' has no fill '" + wanted.fill + "'" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

}  // namespace parity
