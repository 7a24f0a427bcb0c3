// golden/MANIFEST.json: what every golden file was when it was accepted.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "golden/digest.hpp"
#include "golden/golden.hpp"
#include "golden/h5.hpp"
#include "golden/own.hpp"
#include "harness/failure.hpp"

namespace parity::golden {
namespace {

using nlohmann::json;

constexpr std::string_view kManifest = "MANIFEST.json";
constexpr std::size_t kBlock = 4 << 10;  // bytes; of files above 64 MiB: 1 MiB
constexpr std::size_t kLargeBlock = 1 << 20;
constexpr std::size_t kMostNamed = 4;  // datasets named of a block that holds several

// The golden folder that covers a file: the nearest folder above it with a manifest. Empty: none.
fs::path covering_folder(const fs::path& file) {
  fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  for (int up = 0; up < 3 && !folder.empty(); ++up, folder = folder.parent_path())
    if (fs::exists(folder / kManifest)) return folder;
  return {};
}

std::string distinct_sources(const std::vector<StoredCase>& cases) {
  std::set<std::string> packages;
  for (const StoredCase& c : cases) {
    const auto it = c.attributes.find("source");
    if (it == c.attributes.end()) continue;
    // "package version function": the first two words tell where it comes from.
    const std::size_t first = it->second.find(' ');
    const std::size_t second = first == std::string::npos ? first : it->second.find(' ', first + 1);
    packages.insert(it->second.substr(0, second));
  }
  std::string text;
  for (const std::string& package : packages) text += (text.empty() ? "" : "; ") + package;
  return text;
}

ManifestEntry describe(const fs::path& folder, const fs::path& file) {
  const MappedFile mapped(file);
  const std::vector<StoredCase> cases = stored_cases(file);
  const std::size_t block = mapped.bytes().size() > (64u << 20) ? kLargeBlock : kBlock;
  return {.file = fs::relative(file, folder).generic_string(),
          .family = std::string(name(family_of(cases))),
          .source = distinct_sources(cases),
          .sha256 = sha256_hex(mapped.bytes()),
          .cases = static_cast<std::int64_t>(cases.size()),
          .bytes = static_cast<std::int64_t>(mapped.bytes().size()),
          .block_bytes = static_cast<std::int64_t>(block),
          .blocks = block_digests(mapped.bytes(), block)};
}

// The datasets whose data lie in this range.
std::string datasets_in(const h5::File& file, std::uint64_t begin, std::uint64_t end) {
  std::string names;
  std::size_t count = 0;
  for (const std::string& path : file.datasets("/")) {
    const h5::DatasetInfo info = file.info("/" + path);
    const bool inside = std::ranges::any_of(info.pieces, [&](const auto& piece) {
      return piece.first < end && begin < piece.first + piece.second;
    });
    if (inside && ++count <= kMostNamed) names += (names.empty() ? "" : " or ") + ("/" + path);
  }
  if (count > kMostNamed) names += " or " + std::to_string(count - kMostNamed) + " more";
  return names.empty() ? "the file's structure" : names;
}

std::string place(const fs::path& file, std::uint64_t begin, std::uint64_t end) {
  std::string where = "bytes " + std::to_string(begin) + " to " + std::to_string(end);
  try {
    where += ", " + datasets_in(h5::File(file), begin, end);
  } catch (const UsageError&) {
    where += ", and HDF5 cannot open it any more";
  }
  return where;
}

void compare_with(const ManifestEntry& entry, const fs::path& file) {
  const MappedFile mapped(file);
  const auto bytes = static_cast<std::int64_t>(mapped.bytes().size());
  if (bytes != entry.bytes)
    throw GoldenError(file.string() + ": " + std::to_string(bytes) + " bytes, not the " +
                      std::to_string(entry.bytes) +
                      " of the manifest (truncated or replaced at offset " +
                      std::to_string(std::min(bytes, entry.bytes)) + ")");
  const auto block = static_cast<std::size_t>(entry.block_bytes);
  const std::vector<std::string> digests = block_digests(mapped.bytes(), block);
  for (std::size_t i = 0; i < digests.size(); ++i)
    if (i >= entry.blocks.size() || digests[i] != entry.blocks[i])
      throw GoldenError(file.string() + ": differs from the manifest in " +
                        place(file, i * block, std::min((i + 1) * block, mapped.bytes().size())));
}

}  // namespace

bool is_golden(const fs::path& file) {
  const fs::path suffix = file.extension();
  return suffix == ".h5" || (suffix == ".json" && file.filename() != kManifest);
}

std::vector<ManifestEntry> read_manifest(const fs::path& golden_dir) {
  std::ifstream in(golden_dir / kManifest);
  if (!in) throw GoldenError((golden_dir / kManifest).string() + ": missing");
  std::vector<ManifestEntry> entries;
  try {
    const json manifest = json::parse(in);
    for (const json& item : manifest.at("files"))
      entries.push_back({.file = item.at("file"),
                         .family = item.at("family"),
                         .source = item.at("source"),
                         .sha256 = item.at("sha256"),
                         .cases = item.at("cases"),
                         .bytes = item.at("bytes"),
                         .block_bytes = item.at("block_bytes"),
                         .blocks = item.at("blocks")});
  } catch (const json::exception& error) {
    throw GoldenError((golden_dir / kManifest).string() + ": " + error.what());
  }
  for (const ManifestEntry& entry : entries)
    if (entry.block_bytes < 4096)
      throw GoldenError((golden_dir / kManifest).string() + ": blocks of " + entry.file);
  return entries;
}

void write_manifest(const fs::path& golden_dir) {
  json files = json::array();
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(golden_dir))
    if (is_golden(entry.path())) paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    const ManifestEntry entry = describe(golden_dir, path);
    files.push_back({{"file", entry.file},
                     {"family", entry.family},
                     {"source", entry.source},
                     {"sha256", entry.sha256},
                     {"cases", entry.cases},
                     {"bytes", entry.bytes},
                     {"block_bytes", entry.block_bytes},
                     {"blocks", entry.blocks}});
  }
  const fs::path temporary = golden_dir / "MANIFEST.json.tmp";
  std::ofstream(temporary) << json{{"schema", 1}, {"digest", "XXH3-64"}, {"files", files}}.dump(1)
                           << '\n';
  fs::rename(temporary, golden_dir / kManifest);
}

Integrity check_integrity(const fs::path& file) {
  if (!fs::exists(file)) throw GoldenError(file.string() + ": missing");
  if (const fs::path folder = covering_folder(file); !folder.empty()) {
    const std::string relative = fs::relative(fs::absolute(file), folder).generic_string();
    const std::vector<ManifestEntry> entries = read_manifest(folder);
    const auto it = std::ranges::find(entries, relative, &ManifestEntry::file);
    if (it != entries.end()) {
      compare_with(*it, file);
      return {.by = "the manifest",
              .digests = static_cast<std::int64_t>(it->blocks.size()),
              .bytes = it->bytes};
    }
  }
  if (file.extension() == ".json") return {};
  const h5::Attributes root = h5::File(file).attributes("/");
  const auto family = root.find("family");
  if (family != root.end() && family->second == "own") return check_dataset_digests(file);
  return {};
}

void check_manifest(const fs::path& golden_dir) {
  for (const ManifestEntry& entry : read_manifest(golden_dir)) {
    if (!fs::exists(golden_dir / entry.file))
      throw GoldenError((golden_dir / entry.file).string() + ": missing (the manifest names it)");
    compare_with(entry, golden_dir / entry.file);
  }
}

}  // namespace parity::golden
