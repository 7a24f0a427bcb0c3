// parity golden freeze | diff | info. The check of a golden is golden_verify.cpp.
#include "golden/golden.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>

#include "harness/cli/arguments.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/reports.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;
using reports::visible;

const golden::ManifestEntry* entry_of(const std::vector<golden::ManifestEntry>& manifest,
                                      const fs::path& file) {
  const std::string name = file.filename().string();
  const auto found = std::ranges::find_if(
      manifest, [&](const auto& entry) { return fs::path(entry.file).filename() == name; });
  return found == manifest.end() ? nullptr : &*found;
}

std::string ops_of(const std::vector<StoredCase>& cases) {
  std::map<std::string, std::int64_t> ops;
  for (const StoredCase& stored : cases) ++ops[stored.attributes.at("op")];
  std::vector<std::string> words;
  for (const auto& [op, n] : ops) words.push_back(fmt::format("{} ({})", op, n));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string attribute(const std::vector<StoredCase>& cases, const std::string& name) {
  for (const StoredCase& stored : cases)
    if (const auto found = stored.attributes.find(name); found != stored.attributes.end())
      return found->second;
  return "";
}

}  // namespace

int golden_freeze(const Arguments& args) {
  const fs::path file = args.file;
  if (fs::exists(file) && !args.force)
    throw UsageError(fmt::format("{}: exists; --force replaces it", file.string()));
  golden::FreezeOptions options{.file = file, .contiguous = args.contiguous};
  const Lane lane = lane_of(args, Lane::Smoke);
  if (args.only.empty() && args.kernel.empty() && args.device.empty())
    options.cases = select_cases(args, lane);
  else  // cases by the kernels that take them
    for (const Subject& subject : select(args, lane)) options.cases.push_back(subject.problem);
  if (options.cases.empty()) throw UsageError("no case to freeze");
  const RunRecord run = describe_run(args.command, Lane::Smoke, args.seed);
  options.provenance = run.compiler;
  options.provenance["commit"] = run.commit;
  options.provenance["command"] = run.command;
  for (const auto& [name, value] : run.flags) options.provenance["flags." + name] = value;
  golden::freeze(options);
  print(fmt::format("{}: {}, {}\n", file.string(),
                    reports::count_of(static_cast<std::int64_t>(options.cases.size()), "case"),
                    reports::bytes_of(static_cast<std::int64_t>(fs::file_size(file)))));
  return 0;
}

// After a file from elsewhere was added: own files are entered when they are frozen.
int golden_manifest(const Arguments& args) {
  const fs::path folder = golden_folder();
  golden::write_manifest(folder);
  const std::vector<golden::ManifestEntry> entries = golden::read_manifest(folder);
  if (args.json) {
    reports::JsonWriter out;
    out.begin_object().field("schema", 1).key("files").begin_array();
    for (const golden::ManifestEntry& entry : entries)
      out.begin_object().field("file", entry.file).field("sha256", entry.sha256).end_object();
    print(out.end_array().field("exit", 0).end_object().text() + "\n");
    return 0;
  }
  std::string text;
  for (const golden::ManifestEntry& entry : entries)
    text += fmt::format("{}  {}\n", entry.sha256, entry.file);
  print(text);
  return 0;
}

int golden_info(const Arguments& args) {
  const fs::path folder = golden_folder();
  const auto manifest = fs::exists(folder / "MANIFEST.json") ? golden::read_manifest(folder)
                                                             : std::vector<golden::ManifestEntry>{};
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("files").begin_array();
  std::string text;
  for (const std::string& name : args.names) {
    const std::vector<StoredCase> cases = golden::stored_cases(name);
    const golden::ManifestEntry* entry = entry_of(manifest, name);
    const std::string family(golden::name(golden::family_of(cases)));
    out.begin_object()
        .field("file", name)
        .field("family", family)
        .field("bytes", static_cast<std::int64_t>(fs::file_size(name)));
    out.field("source", attribute(cases, "source"))
        .field("sha256", entry ? entry->sha256 : "")
        .key("cases")
        .begin_array();
    text += fmt::format("{}\n  {}, {}, {}\n  ops      {}\n", name, family,
                        reports::count_of(static_cast<std::int64_t>(cases.size()), "case"),
                        reports::bytes_of(static_cast<std::int64_t>(fs::file_size(name))),
                        visible(ops_of(cases)));
    for (const char* key :
         {"source", "source_version", "license", "compute_dtype", "commit", "note"})
      if (const std::string value = attribute(cases, key); !value.empty())
        text += fmt::format("  {:<8} {}\n", key, visible(value));
    text += fmt::format("  sha256   {}\n", entry ? entry->sha256 : "not in a manifest");
    for (const StoredCase& stored : cases) {
      out.begin_object().field("name", stored.name).field("op", stored.attributes.at("op"));
      out.field("attributes", stored.attributes).field("tensors", stored.paths).end_object();
      if (args.verbose)
        text += fmt::format("    {:<40} {}\n", visible(stored.name),
                            visible(stored.attributes.at("op")));
    }
    out.end_array().end_object();
  }
  print(args.json ? out.end_array().end_object().text() + "\n" : text);
  return 0;
}

int golden_diff(const Arguments& args) {
  const std::vector<CaseRecord> records = golden::diff(args.names.at(0), args.names.at(1));
  int exit = records.empty() ? 4 : 0;
  std::vector<std::string> only_a, only_b;
  std::string first, text;
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("tensors").begin_array();
  for (const CaseRecord& record : records) {
    if (record.status != "pass") exit = 1;
    if (record.tensors.empty())
      (record.reason.ends_with("older file") ? only_a : only_b).push_back(record.id);
    if (record.status != "pass" || args.verbose)
      text +=
          fmt::format("{:<6} {}  {}\n", record.status, visible(record.id), visible(record.reason));
    for (const TensorRecord& tensor : record.tensors) {
      const std::string name = record.id + "/" + tensor.name;
      const bool equal = tensor.pattern == "equal";
      if (tensor.pattern == "only in the older file")
        only_a.push_back(name);
      else if (tensor.pattern == "only in the newer file")
        only_b.push_back(name);
      else
        out.begin_object()
            .field("name", name)
            .field("equal", equal)
            .field("status", tensor.status)
            .key("metrics")
            .raw(reports::to_json(tensor))
            .end_object();
      if (!equal && first.empty())
        first = name + (tensor.worst ? " at " + tensor.worst->letters : "");
      if (!equal && args.verbose)
        text += fmt::format("         {:<40} {}\n", visible(tensor.name), visible(tensor.pattern));
    }
  }
  out.end_array()
      .field("only_in_a", only_a)
      .field("only_in_b", only_b)
      .field("first_difference", first)
      .field("exit", exit);
  std::int64_t moved = 0;
  for (const CaseRecord& record : records)
    moved += std::ranges::any_of(record.tensors,
                                 [](const TensorRecord& t) { return t.pattern != "equal"; });
  text += fmt::format("{} compared, {} moved{}\n",
                      reports::count_of(static_cast<std::int64_t>(records.size()), "case"), moved,
                      first.empty() ? "" : "; first at " + visible(first));
  print(args.json ? out.end_object().text() + "\n" : text);
  return exit;
}

}  // namespace parity::cli
