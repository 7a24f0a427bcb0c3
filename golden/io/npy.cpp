// .npy: magic, version, a Python dictionary of three keys, the values
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html); .npz: a .zip of them.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "golden/io/bytes.hpp"
#include "golden/io/tensor_file.hpp"
#include "golden/io/zip.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::uint64_t kLongestHeader = 1 << 16;    // bytes
constexpr std::int64_t kLargestFortran = 1LL << 30;  // bytes that are turned round in memory
constexpr std::size_t kHighestRank = 32;             // numpy's until 2.0, 64 since
constexpr const char* kMetadata = "metadata.json";   // a member of our own, no array

struct Name {
  const char* descr;  // without the byte order
  Dtype dtype;
};
// NumPy has no bfloat16: ml_dtypes stores it as void of two bytes.
constexpr Name kNames[] = {{"f8", Dtype::F64},  {"f4", Dtype::F32}, {"f2", Dtype::F16},
                           {"V2", Dtype::BF16}, {"i8", Dtype::I64}, {"i4", Dtype::I32},
                           {"i2", Dtype::I16},  {"i1", Dtype::I8},  {"u8", Dtype::I64},
                           {"u4", Dtype::I32},  {"u2", Dtype::I16}, {"u1", Dtype::U8},
                           {"b1", Dtype::Bool}};

struct Header {
  TensorInfo info = {};
  bool fortran = false;
  std::int64_t begin = 0;  // of the values
};

// What a header may be: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Dictionary {
 public:
  Dictionary(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  Header parse() {
    Header header;
    std::set<std::string> keys;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      if (!keys.insert(key).second) fail("has the key '" + key + "' twice");
      expect(':');
      if (key == "descr")
        header.info.stored = string();
      else if (key == "fortran_order")
        header.fortran = boolean();
      else if (key == "shape")
        header.info.shape = shape();
      else
        fail("has an unknown key '" + key + "'");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (keys.size() != 3) fail("needs descr, fortran_order and shape");
    skip();
    if (!rest_.empty()) fail("goes on behind its end");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(where_ + ": its header " + what);
  }
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size())); }
  bool accept(char c) {
    skip();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("lacks a '") + c + "' (arrays of records are not read)");
  }
  std::string string() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos || end > 64) fail("holds a string without end");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip();
    for (const auto& [word, truth] : {std::pair("True", true), std::pair("False", false)})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(std::strlen(word));
        return truth;
      }
    fail("says neither True nor False");
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      std::int64_t extent = 0;
      skip();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc{} || extents.size() == kHighestRank) fail("has no proper shape");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      extents.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return extents;
  }

  std::string_view rest_;
  const std::string& where_;
};

using ReadBytes = std::function<void(std::int64_t, std::span<std::byte>)>;

Header header_of(const ReadBytes& read, std::int64_t size, const std::string& where) {
  std::array<std::byte, 12> lead{};
  if (size < 12) throw UsageError(where + ": too short for an .npy");
  read(0, lead);
  if (std::memcmp(lead.data(), "\x93NUMPY", 6) != 0) throw UsageError(where + ": is no .npy");
  const auto version = std::to_integer<int>(lead[6]);
  if (version < 1 || version > 3)
    throw UsageError(where + ": is an .npy of version " + std::to_string(version));
  const std::size_t width = version == 1 ? 2 : 4;
  const std::uint64_t length = little_endian(std::span(lead).subspan(8), width);
  const auto begin = static_cast<std::int64_t>(8 + width + length);
  if (length > kLongestHeader || begin > size)
    throw UsageError(where + ": claims a header of " + std::to_string(length) + " bytes");
  std::string text(length, '\0');
  read(static_cast<std::int64_t>(8 + width), std::as_writable_bytes(std::span(text)));
  Header header = Dictionary(text, where).parse();
  header.begin = begin;
  const std::string& descr = header.info.stored;
  const auto known = descr.size() < 2
                         ? std::end(kNames)
                         : std::ranges::find(kNames, descr.substr(1), [](const Name& name) {
                             return std::string(name.descr);
                           });
  if (known == std::end(kNames))
    throw UsageError(where + ": dtype '" + descr + "' is not read" +
                     (descr.ends_with("V1") ? " (eight-bit floats of ml_dtypes do not say which; "
                                              "store .safetensors)"
                      : descr.find('O') != std::string::npos
                          ? " (Python objects would have to be executed)"
                          : ""));
  if (descr[0] == '>') throw UsageError(where + ": is big-endian");
  if (descr[0] != '<' && descr[0] != '|' && descr[0] != '=')
    throw UsageError(where + ": dtype '" + descr + "' is not read");
  header.info.dtype = known->dtype;
  measure(header.info, where);
  if (header.info.bytes != size - begin)
    throw UsageError(where + ": holds " + std::to_string(size - begin) +
                     " bytes of values, its header needs " + std::to_string(header.info.bytes));
  if (header.fortran && header.info.bytes > kLargestFortran)
    throw UsageError(where + ": is in Fortran order and larger than 1 GiB; store it in C order");
  return header;
}

// Column-major to row-major.
std::vector<std::byte> turned(const TensorInfo& info, std::span<const std::byte> columns) {
  std::vector<std::byte> rows(columns.size());
  const std::size_t rank = info.shape.size();
  const auto width = static_cast<std::size_t>(bytes_for(info.dtype, 1));
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t flat = 0; flat < info.elements; ++flat) {
    std::int64_t from = 0;
    for (std::size_t d = rank; d-- > 0;) from = from * info.shape[d] + index[d];
    std::memcpy(&rows[static_cast<std::size_t>(flat) * width],
                &columns[static_cast<std::size_t>(from) * width], width);
    for (std::size_t d = rank; d-- > 0;) {
      if (++index[d] < info.shape[d]) break;
      index[d] = 0;
    }
  }
  return rows;
}

// Reads one array; what is in Fortran order is turned round once and kept while it is read.
class Array {
 public:
  Array(Header header, ReadBytes read) : header_(std::move(header)), read_(std::move(read)) {}
  void read(std::int64_t first, std::span<std::byte> out) {
    if (!header_.fortran) return read_(header_.begin + first, out);
    if (rows_.empty()) {
      std::vector<std::byte> columns(static_cast<std::size_t>(header_.info.bytes));
      read_(header_.begin, columns);
      rows_ = turned(header_.info, columns);
    }
    std::ranges::copy(std::span(rows_).subspan(static_cast<std::size_t>(first), out.size()),
                      out.begin());
  }

 private:
  Header header_;
  ReadBytes read_;
  std::vector<std::byte> rows_ = {};
};

std::string npy_head(const TensorSpec& spec) {
  std::string_view descr = "|u1";  // codes without a name in NumPy, by the byte
  for (const Name& name : kNames)
    if (name.dtype == spec.dtype) {
      descr = name.descr;
      break;
    }
  if (spec.dtype == Dtype::TF32) descr = "f4";
  std::string shape;
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    const bool packed = spec.dtype == Dtype::E2M1 && i + 1 == spec.dims.size();
    shape += std::to_string(packed ? spec.dims[i].extent / 2 : spec.dims[i].extent) + ", ";
  }
  const std::string order = descr[0] == '|' ? "" : descr.ends_with('1') ? "|" : "<";
  std::string dictionary = "{'descr': '" + order + std::string(descr) +
                           "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t kAlign = 64, kLead = 10;
  dictionary.resize((dictionary.size() + 1 + kLead + kAlign - 1) / kAlign * kAlign - kLead - 1,
                    ' ');
  std::string head("\x93NUMPY\x01\x00", 8);
  put_little_endian(head, dictionary.size() + 1, 2);
  return head + dictionary + '\n';
}

}  // namespace

TensorFile open_npy(const fs::path& path) {
  auto file = std::make_shared<const Bytes>(path);
  ReadBytes read = [file](std::int64_t at, std::span<std::byte> out) { file->read(at, out); };
  Header header = header_of(read, file->size(), path.string());
  TensorInfo info = header.info;
  info.name = "array";
  auto array = std::make_shared<Array>(std::move(header), std::move(read));
  return {path,
          {std::move(info)},
          {},
          [array](std::size_t, std::int64_t first, std::span<std::byte> out) {
            array->read(first, out);
          }};
}

TensorFile open_npz(const fs::path& path) {
  constexpr std::int64_t kMostMetadata = 1 << 24;  // bytes
  auto file = std::make_shared<const Bytes>(path);
  std::vector<TensorInfo> tensors;
  std::vector<ZipMember> members;
  Metadata metadata;
  for (ZipMember& member : zip_members(*file)) {
    const std::string where = path.string() + ": '" + member.name + "'";
    ZipStream stream(file, member);
    if (member.name == kMetadata && member.size <= kMostMetadata) {
      std::string text(static_cast<std::size_t>(member.size), '\0');
      stream.read(0, std::as_writable_bytes(std::span(text)));
      const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (json.is_object())
        for (const auto& [key, value] : json.items())
          if (value.is_string()) metadata[key] = value.get<std::string>();
    }
    if (!member.name.ends_with(".npy")) continue;
    Header header =
        header_of([&](std::int64_t at, std::span<std::byte> out) { stream.read(at, out); },
                  member.size, where);
    header.info.name = member.name.substr(0, member.name.size() - 4);
    tensors.push_back(std::move(header.info));
    members.push_back(std::move(member));
  }
  // One array is open at a time.
  struct Opened {
    std::size_t tensor = SIZE_MAX;
    std::unique_ptr<Array> array = {};
  };
  auto opened = std::make_shared<Opened>();
  return {path, std::move(tensors), std::move(metadata),
          [file, members = std::move(members), opened](std::size_t tensor, std::int64_t first,
                                                       std::span<std::byte> out) {
            if (opened->tensor != tensor) {
              auto stream = std::make_shared<ZipStream>(file, members[tensor]);
              ReadBytes read = [stream](std::int64_t at, std::span<std::byte> part) {
                stream->read(at, part);
              };
              Header header = header_of(read, members[tensor].size, members[tensor].name);
              opened->array = std::make_unique<Array>(std::move(header), std::move(read));
              opened->tensor = tensor;
            }
            opened->array->read(first, out);
          }};
}

void write_npz(const fs::path& path, const Tensors& tensors, const Metadata& metadata) {
  ZipWriter zip(path);
  if (!metadata.empty()) zip.member(kMetadata, nlohmann::json(metadata).dump(), {});
  for (const Tensor& tensor : tensors.list())
    zip.member(tensor.spec.name + ".npy", npy_head(tensor.spec), tensor.bytes);
  zip.close();
}

}  // namespace parity::io
