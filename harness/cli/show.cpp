// parity show ID: one case as it will be judged: inputs, contract, bound term by term, waiver,
// golden.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "golden/golden.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/bound_text.hpp"
#include "harness/cli/candidates.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "harness/walk.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;
using reports::JsonWriter;
using reports::number;

std::string dims_of(const TensorSpec& spec) {
  std::string text;
  for (const Dim& dim : spec.dims)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", dim.name, dim.extent);
  return text.empty() ? "scalar" : text;
}

const Waiver* waiver_of(const std::string& id) {
  for (const Waiver& waiver : registry().waivers)
    if (glob_match(waiver.id, id)) return &waiver;
  return nullptr;
}

// Where this case is frozen: only own files hold cases of ours.
std::string golden_of(const std::string& id) {
  const fs::path folder = golden_folder();
  if (!fs::exists(folder / "MANIFEST.json")) return "";
  for (const golden::ManifestEntry& entry : golden::read_manifest(folder)) {
    if (entry.family != golden::name(golden::Family::Own)) continue;
    if (const auto frozen = golden::frozen_case(folder / entry.file, id))
      return fmt::format("{}/{}, frozen at commit {}, sha256 {}", entry.file, frozen->name,
                         frozen->commit, entry.sha256);
  }
  return "";
}

// One kernel's view of the case: its contract, whether it takes it, and the bound of each output.
struct View {
  std::string kernel = {}, what = {}, file = {}, takes = {};
  Contract contract = {};
};

std::vector<View> views_of(const Case& problem, const ParsedId& parsed) {
  std::vector<View> views;
  for (const KernelDef& def : registry().kernels) {
    if (def.op != problem.op || (!parsed.kernel.empty() && def.name != parsed.kernel)) continue;
    View view{.kernel = std::string(def.name),
              .what = std::string(def.what),
              .file = def.where.file_name(),
              .contract = def.contract};
    if (const std::size_t at = view.file.rfind("kernels/"); at != std::string::npos)
      view.file = view.file.substr(at);
    if (const auto chunk = parsed.kernel_options.integer("chunk", 0)) view.contract.chunk = chunk;
    view.takes = candidate_of(def, parsed.kernel_options, problem).unsupported;
    views.push_back(std::move(view));
  }
  return views;
}

void put_bound(JsonWriter& out, const Bound& bound, Dtype output) {
  out.begin_object()
      .field("kind", name(bound.kind))
      .field("why", bound.why)
      .field("limit", limit_of(bound))
      .field("f_floor", bound.f_floor);
  out.key("terms").begin_array();
  for (const BoundTermText& term : terms_of(bound, output))
    out.begin_object()
        .field("factor", term.factor)
        .field("of", term.of)
        .field("what", term.what)
        .end_object();
  out.end_array().end_object();
}

std::string bound_text(const Bound& bound, const TensorSpec& spec) {
  std::string text = fmt::format("  {} ({}, {}): {} bound\n", spec.name, name(spec.role),
                                 name(spec.dtype), name(bound.kind));
  const char* lead = "allowed =";
  for (const BoundTermText& term : terms_of(bound, spec.dtype)) {
    text +=
        fmt::format("      {:>9} {:>9} {:<6} {}\n", lead, number(term.factor), term.of, term.what);
    lead = "+";
  }
  return text + fmt::format("      holds if {}\n      because {}\n", limit_of(bound), bound.why);
}

}  // namespace

int show(const Arguments& args) {
  load_plugins();
  if (!args.checkpoint.empty()) return show_checkpoint(args);
  if (!args.model.empty()) throw UsageError("--model: says what a --checkpoint is compared with");
  if (args.names.size() != 1)
    throw UsageError("parity show: id is required, one, or --checkpoint PATH");
  const std::string& id = args.names.front();
  if (id.find_first_of("*?") != std::string::npos)
    throw UsageError(fmt::format("'{}' is a glob: `parity list '{}'` has the ids", id, id));
  const ParsedId parsed = parse_id(id);
  if (!parsed.problem.recorded.empty())
    throw UsageError(
        fmt::format("'{}' is a stored case: `parity golden info FILE -v` describes its file", id));
  const Case problem = resolve(registry(), parsed);
  const OpDef& op = registry().op_or_throw(problem.op);
  std::vector<View> views = views_of(problem, parsed);
  if (views.empty()) {  // a kernel of a library that is not loaded: what the build wrote down of it
    if (const KernelInfo* kernel = unloaded(parsed.kernel))
      throw UsageError(fmt::format("{} ({}) runs in a process of its own ({}); its contract: {}",
                                   kernel->name, kernel->file, kernel->environment,
                                   kernel->contract));
    if (!parsed.kernel.empty())
      throw UsageError(
          fmt::format("no kernel '{}'; `parity list` shows what there is", parsed.kernel));
  }
  const auto fill = [&]() -> const Fill* {
    if (!problem.set) return nullptr;
    const auto found = std::ranges::find(problem.set->fills, problem.fill, &Fill::name);
    return found == problem.set->fills.end() ? nullptr : &*found;
  }();
  const Waiver* waiver = waiver_of(id);
  const std::string golden = golden_of(problem.id());
  const std::string repro = fmt::format("parity run '{}'", id);

  JsonWriter out;
  out.begin_object()
      .field("schema", 1)
      .field("id", id)
      .field("op", op.name)
      .field("formula", op.what);
  out.field("check", name(problem.check))
      .field("lane", name(problem.lane))
      .field("fill", problem.fill)
      .field("fill_what", fill ? fill->what : "");
  std::string text = fmt::format("{}\n\nop        {}: {}\n", id, op.name, op.what);
  for (const std::string_view source : op.sources) text += fmt::format("source    {}\n", source);
  if (problem.set)
    text += fmt::format("case set  {} ({} lane, {} check)\n", problem.set->what, name(problem.lane),
                        name(problem.check));
  text +=
      fmt::format("fill      {}{}\n", problem.fill, fill ? fmt::format(": {}", fill->what) : "");
  out.key("inputs").begin_array();
  for (const TensorSpec& spec : op.inputs(problem)) {
    text +=
        fmt::format("{:<9} {:<24} {:<9} {}\n", spec.role == Role::Cotangent ? "cotangent" : "input",
                    spec.name, name(spec.dtype), dims_of(spec));
    out.begin_object()
        .field("name", spec.name)
        .field("role", name(spec.role))
        .field("dtype", name(spec.dtype))
        .field("dims", dims_of(spec))
        .end_object();
  }
  out.end_array().key("kernels").begin_array();
  for (const View& view : views) {
    text += fmt::format("\nkernel    {}: {}\n          {}\ncontract  {}\ntakes it  {}\n",
                        view.kernel, view.what, view.file, describe(view.contract),
                        view.takes.empty() ? "yes" : "no: " + view.takes);
    out.begin_object()
        .field("name", view.kernel)
        .field("what", view.what)
        .field("file", view.file)
        .field("contract", describe(view.contract));
    out.field("takes", view.takes.empty())
        .field("why_not", view.takes)
        .key("outputs")
        .begin_array();
    for (const TensorSpec& spec : op.outputs(problem)) {
      const Bound bound = registry().bound_of(problem, view.contract, spec);
      if (view.takes.empty()) text += bound_text(bound, spec);
      out.begin_object()
          .field("name", spec.name)
          .field("role", name(spec.role))
          .field("dtype", name(spec.dtype))
          .field("dims", dims_of(spec))
          .key("bound");
      put_bound(out, bound, spec.dtype);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().key("waiver");
  if (waiver)
    out.begin_object()
        .field("id", waiver->id)
        .field("reason", waiver->reason)
        .field("owner", waiver->owner)
        .field("expires", waiver->expires)
        .end_object();
  else
    out.null();
  out.field("golden", golden).field("repro", repro).end_object();
  text += fmt::format("\nwaiver    {}\ngolden    {}\nrepro     {}\n",
                      waiver ? fmt::format("{} ({}, {}, until {})", waiver->reason, waiver->owner,
                                           waiver->url, waiver->expires)
                             : "none",
                      golden.empty() ? "not frozen" : golden, repro);
  print(args.json ? out.text() + "\n" : text);
  return 0;
}

}  // namespace parity::cli
