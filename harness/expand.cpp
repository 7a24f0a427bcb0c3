#include <algorithm>
#include <map>

#include "harness/failure.hpp"
#include "harness/reduced.hpp"
#include "harness/text.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

Lane widest(Lane lane) { return lane == Lane::Sweep ? Lane::Full : lane; }

bool refused(const Registry& registry, const Case& problem) {
  const OpDef* op = registry.op(problem.op);
  return op && op->refuses && !op->refuses(problem).empty();
}

// The same case may be declared for another check. An id costs more than all else here, so it is
// made once.
using ById = std::map<std::pair<std::string, Check>, Case>;

void expand_set(const Registry& registry, const CaseSet& set, std::uint64_t seed_shift,
                ById& cases) {
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
            std::pair key(c.id(), c.check);
            cases.try_emplace(std::move(key),
                              std::move(c));  // a set of a lower lane keeps the case
          }
}

// Of one op, or of all where none is named.
ById expand_sets(const Registry& registry, Lane lane, std::uint64_t seed_shift,
                 std::string_view op) {
  ById cases;
  for (int level = 0; level <= static_cast<int>(widest(lane)); ++level)
    for (const CaseSet& set : registry.case_sets)
      if (static_cast<int>(set.lane) == level && (op.empty() || set.op == op))
        expand_set(registry, set, lane == Lane::Sweep ? seed_shift : 0, cases);
  return cases;
}

}  // namespace

std::vector<Case> expand(const Registry& registry, Lane lane, std::uint64_t seed_shift) {
  std::vector<Case> cases;
  for (auto& [key, c] : expand_sets(registry, lane, seed_shift, "")) cases.push_back(std::move(c));
  return cases;
}

Case resolve(const Registry& registry, const ParsedId& parsed) {
  const Case& wanted = parsed.problem;
  registry.op_or_throw(wanted.op);
  const std::string id = wanted.id();
  const ById declared = expand_sets(registry, Lane::Long, 0, wanted.op);
  if (const auto it = declared.lower_bound({id, Check{}});
      it != declared.end() && it->first.first == id)
    return it->second;
  const std::string drawn_by = ReducedFill::parse(wanted.fill).fill;
  std::vector<std::string> known;
  for (const CaseSet& set : registry.case_sets) {
    if (set.op != wanted.op) continue;
    for (const Fill& fill : set.fills) {
      known.emplace_back(fill.name);
      if (fill.name != drawn_by) continue;
      Case single = wanted;
      single.set = &set;
      // What is exact of a fill may not be once its values are changed.
      single.check = fill.exact && drawn_by == wanted.fill ? Check::Exact : set.check;
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
