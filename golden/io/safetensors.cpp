// .safetensors: eight bytes of length, a JSON header, and the tensors without gaps
// (https://github.com/huggingface/safetensors, README, "Format"). A checkpoint in shards has an
// index beside them: {"weight_map": {tensor: file}}.
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "golden/io/bytes.hpp"
#include "golden/io/tensor_file.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

using nlohmann::json;

constexpr std::int64_t kLongestHeader = 100'000'000;  // bytes; the limit of the format's own reader
constexpr std::size_t kDeepest = 4;                   // levels; a header has three
constexpr std::size_t kHighestRank = 32;

struct Name {
  const char* stored;
  Dtype dtype;
};
constexpr Name kNames[] = {
    {"F64", Dtype::F64},      {"F32", Dtype::F32},      {"F16", Dtype::F16},
    {"BF16", Dtype::BF16},    {"F8_E4M3", Dtype::E4M3}, {"F8_E5M2", Dtype::E5M2},
    {"F8_E8M0", Dtype::E8M0}, {"F4", Dtype::E2M1},      {"I64", Dtype::I64},
    {"I32", Dtype::I32},      {"I16", Dtype::I16},      {"I8", Dtype::I8},
    {"U8", Dtype::U8},        {"BOOL", Dtype::Bool},    {"U64", Dtype::I64},
    {"U32", Dtype::I32},      {"U16", Dtype::I16}};

// Accepts JSON in which no key of an object stands twice and nothing is nested deeper than it may
// be. (A parser with a callback would look at every value of an object again for each one in it.)
class Strict : public nlohmann::json_sax<json> {
 public:
  explicit Strict(const std::string& file) : file_(file) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return descend(); }
  bool start_array(std::size_t) override { return descend(); }
  bool end_object() override { return ascend(); }
  bool end_array() override { return ascend(); }
  bool key(string_t& key) override {
    if (!keys_[depth_ - 1].insert(key).second)
      throw UsageError(file_ + ": '" + key + "' is there twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw UsageError(file_ + ": its header is no JSON (" + error.what() + ")");
  }

 private:
  bool descend() {
    if (depth_ == kDeepest) throw UsageError(file_ + ": its header is nested too deeply");
    keys_[depth_++].clear();
    return true;
  }
  bool ascend() {
    --depth_;
    return true;
  }

  const std::string& file_;
  std::size_t depth_ = 0;
  std::array<std::unordered_set<std::string>, kDeepest> keys_ = {};
};

json parse(const std::string& text, const std::string& file) {
  Strict strict(file);
  json::sax_parse(text, &strict);
  return json::parse(text);
}

std::int64_t whole(const json& number, const std::string& where) {
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > (std::uint64_t{1} << 62))
    throw UsageError(where + ": " + number.dump().substr(0, 40) + " is no size or offset");
  return number.get<std::int64_t>();
}

struct Entry {
  TensorInfo info = {};
  std::int64_t begin = 0, end = 0;  // below the header
};

const json& member(const json& object, const char* key, const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end()) throw UsageError(where + ": has no " + key);
  return *it;
}

Entry entry_of(const std::string& name, const json& header, const std::string& where) {
  if (!header.is_object()) throw UsageError(where + ": is no object");
  Entry entry{.info = {.name = name}};
  const json& dtype = member(header, "dtype", where);
  const std::string stored = dtype.is_string() ? dtype.get<std::string>() : dtype.dump();
  const auto known = std::ranges::find(kNames, stored, &Name::stored);
  if (known == std::end(kNames))
    throw UsageError(where + ": dtype '" + stored.substr(0, 40) + "' is not known");
  entry.info.dtype = known->dtype;
  entry.info.stored = stored;
  const json& shape = member(header, "shape", where);
  if (!shape.is_array() || shape.size() > kHighestRank)
    throw UsageError(where + ": its shape is no list of at most 32 extents");
  for (const json& extent : shape) entry.info.shape.push_back(whole(extent, where));
  measure(entry.info, where);
  const json& offsets = member(header, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2)
    throw UsageError(where + ": its data_offsets are no pair");
  entry.begin = whole(offsets[0], where);
  entry.end = whole(offsets[1], where);
  if (entry.end < entry.begin || entry.end - entry.begin != entry.info.bytes)
    throw UsageError(where + ": its offsets hold " + std::to_string(entry.end - entry.begin) +
                     " bytes, shape and dtype need " + std::to_string(entry.info.bytes));
  return entry;
}

// Tensors lie one behind the other, from the header to the end of the file.
void check_places(const std::vector<Entry>& entries, std::int64_t data, const std::string& file) {
  std::int64_t at = 0;
  for (const Entry& entry : entries) {
    const std::string where = file + ": '" + entry.info.name + "'";
    if (entry.end > data)
      throw UsageError(where + ": ends at byte " + std::to_string(entry.end) +
                       " of the tensors, the file after " + std::to_string(data));
    if (entry.begin < at) throw UsageError(where + ": overlaps the tensor before it");
    if (entry.begin > at)
      throw UsageError(where + ": " + std::to_string(entry.begin - at) +
                       " bytes before it belong to no tensor");
    at = entry.end;
  }
  if (at != data)
    throw UsageError(file + ": its last " + std::to_string(data - at) +
                     " bytes belong to no tensor");
}

const char* stored_name(Dtype dtype) {
  const auto known = std::ranges::find(kNames, dtype, &Name::dtype);
  if (known != std::end(kNames)) return known->stored;
  return dtype == Dtype::TF32 ? "F32" : "U8";  // six-bit codes take a byte each
}

}  // namespace

TensorFile open_safetensors(const fs::path& path) {
  auto file = std::make_shared<const Bytes>(path);
  if (file->size() < 8) throw UsageError(path.string() + ": too short for a .safetensors file");
  std::array<std::byte, 8> length{};
  file->read(0, length);
  const std::uint64_t claimed = little_endian(length, 8);
  if (claimed > static_cast<std::uint64_t>(std::min(kLongestHeader, file->size() - 8)))
    throw UsageError(path.string() + ": claims a header of " + std::to_string(claimed) +
                     " bytes (the file has " + std::to_string(file->size()) +
                     ", a header at most " + std::to_string(kLongestHeader) + ")");
  const auto header_bytes = static_cast<std::int64_t>(claimed);
  const json header = parse(file->text(8, header_bytes), path.string());
  if (!header.is_object()) throw UsageError(path.string() + ": its header is no JSON object");
  std::vector<Entry> entries;
  Metadata metadata;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.push_back(entry_of(name, value, path.string() + ": '" + name + "'"));
      continue;
    }
    if (!value.is_object()) throw UsageError(path.string() + ": its __metadata__ is no object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        throw UsageError(path.string() + ": metadata '" + key + "' is no string");
      metadata[key] = text.get<std::string>();
    }
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_places(entries, file->size() - 8 - header_bytes, path.string());
  std::vector<TensorInfo> tensors;
  std::vector<std::int64_t> begins;
  for (Entry& entry : entries) {
    begins.push_back(8 + header_bytes + entry.begin);
    tensors.push_back(std::move(entry.info));
  }
  return {path, std::move(tensors), std::move(metadata),
          [file, begins = std::move(begins)](std::size_t tensor, std::int64_t first,
                                             std::span<std::byte> out) {
            file->read(begins[tensor] + first, out);
          }};
}

TensorFile open_sharded(const fs::path& index) {
  const Bytes file(index);
  if (file.size() > kLongestHeader)
    throw UsageError(index.string() + ": longer than " + std::to_string(kLongestHeader) + " bytes");
  const json header = parse(file.text(0, file.size()), index.string());
  if (!header.is_object()) throw UsageError(index.string() + ": is no JSON object");
  const json& map = member(header, "weight_map", index.string());
  if (!map.is_object()) throw UsageError(index.string() + ": its weight_map is no object");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map.items()) {
    const std::string text = shard.is_string() ? shard.get<std::string>() : "";
    if (!text.ends_with(".safetensors") || text.find('/') != std::string::npos)
      throw UsageError(index.string() + ": '" + name + "' lies in no .safetensors beside it");
    shards.insert(text);
  }
  std::vector<TensorFile> files;
  std::size_t held = 0;
  for (const std::string& shard : shards) {
    files.push_back(open_safetensors(index.parent_path() / shard));
    held += files.back().tensors().size();
    for (const TensorInfo& tensor : files.back().tensors())
      if (const auto it = map.find(tensor.name);
          it == map.end() || it->get_ref<const std::string&>() != shard)
        throw UsageError(index.string() + ": " + shard + " holds '" + tensor.name +
                         "', which the index does not place there");
  }
  if (held != map.size()) {
    std::set<std::string> names;
    for (const TensorFile& shard : files)
      for (const TensorInfo& tensor : shard.tensors()) names.insert(tensor.name);
    for (const auto& [name, shard] : map.items())
      if (!names.contains(name))
        throw UsageError(index.string() + ": '" + name + "' is not in " + shard.get<std::string>());
  }
  const std::vector<std::string> prefixes(files.size());
  return joined(index, std::move(files), prefixes);
}

void write_safetensors(const fs::path& path, const Tensors& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t at = 0;
  for (const Tensor& tensor : tensors.list()) {
    std::vector<std::int64_t> shape;
    for (const Dim& dim : tensor.spec.dims) shape.push_back(dim.extent);
    header[tensor.spec.name] = {{"dtype", stored_name(tensor.spec.dtype)},
                                {"shape", shape},
                                {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors begin at a multiple of eight
  std::string length;
  put_little_endian(length, text.size(), 8);
  std::ofstream out(path, std::ios::binary);
  out << length << text;
  for (const Tensor& tensor : tensors.list())
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  if (!out.flush()) throw UsageError(path.string() + ": cannot be written");
}

}  // namespace parity::io
