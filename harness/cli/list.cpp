// parity list: ops, kernels, cases and goldens. Opens no golden and loads no library.
#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "golden/golden.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/candidates.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/cli/coverage.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/terminal.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

using reports::count_of;

std::vector<golden::ManifestEntry> manifest() {
  const std::filesystem::path folder = golden_folder();
  return std::filesystem::exists(folder / "MANIFEST.json") ? golden::read_manifest(folder)
                                                           : std::vector<golden::ManifestEntry>{};
}

std::vector<const KernelInfo*> kernels_of(const Catalogue& all, const std::string& op) {
  std::vector<const KernelInfo*> list;
  for (const KernelInfo& kernel : all.kernels)
    if (kernel.op == op) list.push_back(&kernel);
  return list;
}

std::vector<FaultInfo> mutants_of(const Catalogue& all, const OpInfo& op) {
  std::vector<FaultInfo> mutants = op.faults;
  for (const KernelInfo* kernel : kernels_of(all, op.name))
    mutants.insert(mutants.end(), kernel->faults.begin(), kernel->faults.end());
  return mutants;
}

// libparity_torch.so is loaded in a worker only; whether it is there was settled when it was built.
std::string why_not(const KernelInfo& kernel) { return missing_capability(kernel.needs); }

std::vector<std::string> variants_of(const KernelInfo& kernel) {
  std::vector<std::string> options;
  for (const VariantInfo& variant : kernel.variants)
    if (!variant.options.empty()) options.push_back(variant.options);
  return options;
}

std::string json(const Catalogue& all) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("ops").begin_array();
  for (const OpInfo& op : all.ops) {
    out.begin_object().field("name", op.name).field("kind", op.kind).field("what", op.what);
    out.field("directions", op.directions)
        .field("sources", op.sources)
        .field("cases", op.cases)
        .key("kernels")
        .begin_array();
    for (const KernelInfo* kernel : kernels_of(all, op.name)) out.value(kernel->name);
    out.end_array().key("mutants").begin_array();
    for (const FaultInfo& mutant : mutants_of(all, op)) {
      out.begin_object()
          .field("id", mutant.id)
          .field("fault", mutant.fault)
          .field("what", mutant.what);
      if (!mutant.unsupported.empty()) out.field("unsupported", mutant.unsupported);
      out.end_object();
    }
    out.end_array().field("exact_probes", op.exact_probes).end_object();
  }
  out.end_array().key("kernels").begin_array();
  for (const KernelInfo& kernel : all.kernels) {
    const std::string why = why_not(kernel);
    out.begin_object()
        .field("name", kernel.name)
        .field("op", kernel.op)
        .field("what", kernel.what)
        .field("file", kernel.file);
    out.field("needs", kernel.needs)
        .field("contract", kernel.contract)
        .field("dtypes", kernel.dtypes);
    out.field("directions", kernel.directions)
        .field("variants", variants_of(kernel))
        .field("cases", kernel.takes);
    out.field("available", why.empty()).field("why_not", why).end_object();
  }
  out.end_array().key("goldens").begin_array();
  for (const golden::ManifestEntry& golden : manifest())
    out.begin_object()
        .field("file", golden.file)
        .field("cases", golden.cases)
        .field("family", golden.family)
        .field("source", golden.source)
        .field("sha256", golden.sha256)
        .end_object();
  return out.end_array().end_object().text() + "\n";
}

std::string overview(const Catalogue& all) {
  std::string text;
  for (const OpInfo& op : all.ops) {
    text += fmt::format("{}  {}\n", op.name, op.what);
    text +=
        fmt::format("    cases    {} smoke, {} full, {} long ({} exact); {}; {}\n",
                    op.cases.at("smoke"), op.cases.at("full"), op.cases.at("long"), op.exact_probes,
                    fmt::join(op.directions, ", "), fmt::join(op.dtypes, ", "));
    for (const KernelInfo* kernel : kernels_of(all, op.name)) {
      const std::string why = why_not(*kernel);
      text += fmt::format("    kernel   {:<28} {:<14} {}{}\n", kernel->name,
                          fmt::format("{}", fmt::join(kernel->dtypes, ",")), kernel->what,
                          why.empty() ? "" : fmt::format("  [not here: {}]", why));
    }
    text += fmt::format("    mutants  {}\n\n", mutants_of(all, op).size());
  }
  const auto goldens = manifest();
  for (const golden::ManifestEntry& golden : goldens)
    text += fmt::format("golden  {:<44} {:<12} {:>9}  {}\n", golden.file, golden.family,
                        count_of(golden.cases, "case"), golden.source);
  text += fmt::format("{}{}, {}, {}\n", goldens.empty() ? "" : "\n",
                      count_of(static_cast<std::int64_t>(all.ops.size()), "op"),
                      count_of(static_cast<std::int64_t>(all.kernels.size()), "kernel"),
                      count_of(static_cast<std::int64_t>(goldens.size()), "golden file"));
  return text;
}

std::string support(const Catalogue& all) {
  std::string text =
      fmt::format("{:<34} {:>6} {:>6} {:>6}  {}\n", "kernel", "smoke", "full", "long", "refuses");
  for (const KernelInfo& kernel : all.kernels) {
    const std::string why = why_not(kernel);
    const auto of = [&](const char* lane) { return why.empty() ? kernel.takes.at(lane) : 0; };
    text +=
        fmt::format("{:<34} {:>6} {:>6} {:>6}  ", kernel.name, of("smoke"), of("full"), of("long"));
    if (!why.empty()) {
      text += fmt::format("everything: {}\n", why);
      continue;
    }
    std::vector<std::string> reasons;
    for (const auto& [reason, cases] : kernel.refuses)
      reasons.push_back(fmt::format("{} ({})", reason, count_of(cases, "case")));
    text += fmt::format("{}\n",
                        reasons.empty() ? "nothing" : fmt::format("{}", fmt::join(reasons, "; ")));
  }
  return text;
}

}  // namespace

int list(const Arguments& args) {
  load_plugins();
  if (!args.names.empty() || !args.only.empty() ||
      !args.from.empty()) {  // ids, as `run` would take them
    std::string text;
    for (const Subject& subject : select(args, lane_of(args, Lane::Smoke)))
      for (const Candidate& candidate : subject.candidates)
        text += print_id(subject.problem, candidate.name, candidate.options) +
                (candidate.unsupported.empty() ? "" : "    # " + candidate.unsupported) + "\n";
    print(text);
    return 0;
  }
  if (args.coverage) {
    const Coverage covered = coverage();
    print(args.json ? coverage_json(covered.rows) : coverage_text(covered.rows));
    return 0;
  }
  const Catalogue all = catalogue();
  if (args.json)
    print(json(all));
  else if (args.support)
    print(support(all));
  else
    print(overview(all));
  return 0;
}

}  // namespace parity::cli
