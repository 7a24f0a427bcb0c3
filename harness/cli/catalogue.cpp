#include "harness/cli/catalogue.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/failure.hpp"
#include "harness/source_path.hpp"
#include "harness/walk.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

template <class List>
std::vector<std::string> names(const List& list) {
  std::vector<std::string> words;
  for (const auto& item : list) words.emplace_back(name(item));
  return words;
}

std::vector<FaultInfo> faults_of(const std::vector<FaultDef>& defs, std::string_view owner) {
  std::vector<FaultInfo> faults;
  for (const FaultDef& def : defs)
    faults.push_back({fmt::format("{}!{}", owner, def.id), std::string(def.id),
                      std::string(def.what), std::string(def.unsupported)});
  return faults;
}

// Lanes that contain a case of this lane.
std::vector<std::string> lanes_with(Lane lane) {
  if (lane == Lane::Smoke) return {"smoke", "full", "long"};
  if (lane == Lane::Full) return {"full", "long"};
  return {"long"};
}

// A case without gradients says nothing about a backward.
bool judges(const OpDef& op, const Case& problem, Direction direction) {
  return std::ranges::any_of(op.outputs(problem),
                             [&](const TensorSpec& spec) { return answers(spec.role, direction); });
}

KernelInfo info_of(const KernelDef& def, const OpDef* op, const std::vector<Case>& cases) {
  KernelInfo info{.name = std::string(def.name),
                  .op = std::string(def.op),
                  .what = std::string(def.what),
                  .file = std::string(in_repository(def.where.file_name())),
                  .needs = std::string(def.needs),
                  .environment = std::string(def.environment),
                  .contract = describe(def.contract),
                  .dtypes = names(def.contract.dtypes),
                  .takes = {{"smoke", 0}, {"full", 0}, {"long", 0}},
                  .faults = faults_of(def.faults, def.name)};
  if (def.forward) info.directions.emplace_back("forward");
  if (def.backward) info.directions.emplace_back("backward");
  for (const Variant& variant : def.variants)
    info.variants.push_back({variant.options.str(), std::string(name(variant.lane))});
  const Options first = def.variants.empty() ? Options{} : def.variants.front().options;
  for (const Case& problem : cases) {
    if (problem.op != def.op || (problem.set && !glob_match(problem.set->kernels, def.name)))
      continue;
    const std::string why = candidate_of(def, first, problem).unsupported;
    if (!why.empty()) {
      ++info.refuses[why];
      continue;
    }
    for (const std::string& lane : lanes_with(problem.lane)) ++info.takes[lane];
    for (const Direction direction : {Direction::Forward, Direction::Backward}) {
      if (!op || !op->outputs || !judges(*op, problem, direction)) continue;
      const std::string key = fmt::format("{} {}", name(direction), name(problem.dtype));
      ++info.taken[key];
      if (problem.check == Check::Exact) ++info.exact[key];
    }
  }
  return info;
}

OpInfo info_of(const OpDef& def, const std::vector<Case>& cases) {
  OpInfo info{.name = std::string(def.name),
              .what = std::string(def.what),
              .kind = def.kind == OpKind::Op ? "op" : "composite",
              .directions = names(def.directions),
              .sources = {def.sources.begin(), def.sources.end()},
              .cases = {{"smoke", 0}, {"full", 0}, {"long", 0}},
              .faults = faults_of(def.faults, fmt::format("{}.base", def.name))};
  std::set<std::string> dtypes;
  for (const Case& problem : cases) {
    if (problem.op != def.name) continue;
    for (const std::string& lane : lanes_with(problem.lane)) ++info.cases[lane];
    if (problem.check == Check::Exact) ++info.exact_probes;
    dtypes.emplace(name(problem.dtype));
  }
  info.dtypes.assign(dtypes.begin(), dtypes.end());
  return info;
}

template <class Info>
void merge(std::vector<Info>& into, std::vector<Info>&& more) {
  for (Info& info : more)
    if (std::ranges::find(into, info.name, &Info::name) == into.end())
      into.push_back(std::move(info));
  std::ranges::sort(into, {}, &Info::name);
}

}  // namespace

std::string_view word(Rounding mode) {
  switch (mode) {
    case Rounding::NearestEven:
      return "rounded";
    case Rounding::TowardZero:
      return "truncated";
    case Rounding::Up:
      return "rounded up";
    case Rounding::Stochastic:
      return "rounded stochastically";
  }
  return "";
}

std::string describe(const Contract& contract) {
  std::string text = contract.name.empty() ? "" : contract.name + ": ";
  text += fmt::format("accumulates in {}", name(contract.accumulate));
  if (contract.chunk) text += fmt::format(", chunk {}", contract.chunk);
  for (const RoundingPoint& point : contract.roundings)
    text += fmt::format(", {} {} to {}", point.where, word(point.mode), name(point.to));
  text += fmt::format("; base is {}", name(contract.fidelity));
  text += contract.deterministic ? "; deterministic" : "; not deterministic";
  for (std::size_t i = 0; i < contract.invariant.size(); ++i)
    text += fmt::format("{}{}", i ? ", " : "; bit-equal whatever the ", contract.invariant[i]);
  return text;
}

Catalogue registered() {
  const Registry& all = registry();
  const std::vector<Case> cases = expand(all, Lane::Long);
  Catalogue catalogue;
  for (const OpDef& def : all.ops) {
    catalogue.ops.push_back(info_of(def, cases));
    for (const ChainDef& chain : all.chains) {  // the op runs them, their faults are its mutants
      if (all.op_of(chain) != &def) continue;
      std::vector<FaultInfo> faults =
          faults_of(chain.faults, fmt::format("{}.{}", def.name, chain.name));
      std::ranges::move(faults, std::back_inserter(catalogue.ops.back().faults));
    }
  }
  for (const KernelDef& def : all.kernels)
    catalogue.kernels.push_back(info_of(def, all.op(def.op), cases));
  return catalogue;
}

namespace {

// What the build wrote down; nothing where it did not get that far.
Catalogue built() {
  std::ifstream in(executable().parent_path() / "registry.json");
  if (!in) return {};
  std::ostringstream text;
  text << in.rdbuf();
  return parse_catalogue(text.str());
}

// Whether the build wrote it after everything that it describes.
bool built_last() {
  const fs::path folder = executable().parent_path();
  std::error_code failed;
  const auto written = fs::last_write_time(folder / "registry.json", failed);
  if (failed) return false;
  const std::array<fs::path, 3> described = {executable(), folder / "libparity.so",
                                             folder / "libparity_torch.so"};
  return std::ranges::all_of(described, [&](const fs::path& file) {
    std::error_code absent;
    const auto time = fs::last_write_time(file, absent);
    return absent || time <= written;
  });
}

// Kernels that need a process of their own, which this executable does not hold.
const std::vector<KernelInfo>& unloaded_kernels() {
  static const std::vector<KernelInfo> kernels = [] {
    std::vector<KernelInfo> list = built().kernels;
    std::erase_if(list, [](const KernelInfo& k) {
      return k.environment.empty() || registry().kernel(k.name);
    });
    return list;
  }();
  return kernels;
}

}  // namespace

Catalogue catalogue() {
  Catalogue all = built();
  // Expanding every case takes longer than all else: only where the build does not know all.
  const bool knows_all = std::ranges::all_of(registry().kernels, [&](const KernelDef& def) {
    return std::ranges::find(all.kernels, def.name, &KernelInfo::name) != all.kernels.end();
  });
  if (!knows_all || !built_last()) {
    Catalogue here = registered();
    merge(here.ops, std::move(all.ops));
    merge(here.kernels, std::move(all.kernels));
    all = std::move(here);
  }
  for (const Explanation& e : registry().explanations)
    all.explanations.push_back({std::string(e.op), std::string(e.direction), std::string(e.dtype),
                                std::string(e.kernel), std::string(e.hole), std::string(e.why)});
  return all;
}

const KernelInfo* unloaded(std::string_view kernel) {
  const auto found = std::ranges::find(unloaded_kernels(), kernel, &KernelInfo::name);
  return found == unloaded_kernels().end() ? nullptr : &*found;
}

Candidate unloaded_candidate(const KernelInfo& kernel, const Options& options) {
  return {.name = kernel.name,
          .options = options,
          .environment = kernel.environment,
          .backward = std::ranges::count(kernel.directions, "backward") > 0};
}

std::vector<KernelDef> unloaded_with_faults() {
  std::vector<KernelDef> defs;
  for (const KernelInfo& kernel : unloaded_kernels()) {
    if (kernel.faults.empty()) continue;
    KernelDef& def = defs.emplace_back(KernelDef{.op = kernel.op,
                                                 .name = kernel.name,
                                                 .needs = kernel.needs,
                                                 .environment = kernel.environment,
                                                 .variants = {}});
    for (const std::string& dtype : kernel.dtypes)
      def.contract.dtypes.push_back(parse_dtype(dtype));
    for (const VariantInfo& variant : kernel.variants)
      def.variants.push_back({Options::parse(variant.options), parse_lane(variant.lane)});
    if (std::ranges::count(kernel.directions, "backward") > 0)  // that there is one, no more
      def.backward = [](const Launch&) { throw Failure("launched where it is not loaded"); };
    for (const FaultInfo& fault : kernel.faults)
      def.faults.push_back({fault.fault, "", fault.what, fault.unsupported});
  }
  return defs;
}

void add_unloaded(Subject& subject, std::string_view kernels) {
  const Case& problem = subject.problem;
  for (const KernelInfo& kernel : unloaded_kernels()) {
    if (kernel.op != problem.op || !glob_match(kernels, kernel.name)) continue;
    if (problem.set && !glob_match(problem.set->kernels, kernel.name)) continue;
    if (!kernel.dtypes.empty() && !std::ranges::count(kernel.dtypes, name(problem.dtype))) continue;
    for (std::size_t v = 0; v < kernel.variants.size(); ++v)  // as subject_of does
      if (v == 0 || parse_lane(kernel.variants[v].lane) <= problem.lane)
        subject.candidates.push_back(
            unloaded_candidate(kernel, Options::parse(kernel.variants[v].options)));
  }
}

fs::path executable() {
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  return failed ? fs::path() : self;
}

fs::path golden_folder() {
  for (const fs::path& candidate :
       {fs::path("golden"), executable().parent_path().parent_path() / "golden"})
    if (fs::exists(candidate / "MANIFEST.json") || fs::exists(candidate / "independent"))
      return candidate;
  return {};
}

}  // namespace parity::cli
