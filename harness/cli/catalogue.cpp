#include "harness/cli/catalogue.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/failure.hpp"
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

KernelInfo info_of(const KernelDef& def, const std::vector<Case>& cases) {
  KernelInfo info{.name = std::string(def.name),
                  .op = std::string(def.op),
                  .what = std::string(def.what),
                  .file = def.where.file_name(),
                  .needs = std::string(def.needs),
                  .environment = std::string(def.environment),
                  .contract = describe(def.contract),
                  .dtypes = names(def.contract.dtypes),
                  .takes = {{"smoke", 0}, {"full", 0}, {"long", 0}},
                  .faults = faults_of(def.faults, def.name)};
  // Below the root of the sources, wherever they were compiled.
  if (const std::size_t at = info.file.rfind("kernels/"); at != std::string::npos)
    info.file = info.file.substr(at);
  if (def.forward) info.directions.emplace_back("forward");
  if (def.backward) info.directions.emplace_back("backward");
  for (const Variant& variant : def.variants)
    if (!variant.options.empty()) info.variants.push_back(variant.options.str());
  const Options first = def.variants.empty() ? Options{} : def.variants.front().options;
  for (const Case& problem : cases) {
    if (problem.op != def.op || (problem.set && !glob_match(problem.set->kernels, def.name)))
      continue;
    std::string why = std::ranges::count(def.contract.dtypes, problem.dtype)
                          ? ""
                          : fmt::format("does not take {}", name(problem.dtype));
    if (why.empty() && def.refuses) why = def.refuses(problem, first);
    if (!why.empty()) {
      ++info.refuses[why];
      continue;
    }
    for (const std::string& lane : lanes_with(problem.lane)) ++info.takes[lane];
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
    if (def.name != "quantize") continue;
    for (const ChainDef& chain :
         all.chains) {  // the op runs them all, their faults are its mutants
      std::vector<FaultInfo> faults =
          faults_of(chain.faults, fmt::format("quantize.{}", chain.name));
      std::ranges::move(faults, std::back_inserter(catalogue.ops.back().faults));
    }
  }
  for (const KernelDef& def : all.kernels) catalogue.kernels.push_back(info_of(def, cases));
  return catalogue;
}

Catalogue catalogue() {
  Catalogue all = registered();
  const fs::path file = executable().parent_path() / "registry.json";
  std::ifstream in(file);
  if (!in) return all;
  std::ostringstream text;
  text << in.rdbuf();
  Catalogue built = parse_catalogue(text.str());
  merge(all.ops, std::move(built.ops));
  merge(all.kernels, std::move(built.kernels));
  return all;
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
