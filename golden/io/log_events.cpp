// TensorBoard event files: TFRecord frames (length, masked CRC-32C of it, message, masked CRC-32C
// of that) around Event messages of tensorflow/core/util/event.proto and framework/summary.proto:
//   Event   2: step (int64)   5: Summary { 1: Value { 1: tag  2: simple_value (float)  8:
//   TensorProto } } TensorProto   1: dtype (1 float, 2 double)  4: content  5: float_val  6:
//   double_val
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <unordered_map>

#include "golden/io/crc32c.hpp"
#include "golden/io/log_formats.hpp"
#include "golden/io/protobuf.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::int64_t kHead = 12, kFoot = 4;                 // bytes around a message
constexpr std::int64_t kMostMessage = std::int64_t{1} << 26;  // a larger one (an image) is skipped
constexpr std::size_t kMostTags = 100'000;
constexpr std::int64_t kWindow = std::int64_t{1} << 20;

// Bytes of a file at any offset, read in windows.
class Window {
 public:
  explicit Window(const Bytes& file) : file_(file) {}
  std::span<const std::byte> at(std::int64_t offset, std::int64_t bytes) {
    if (offset < from_ || offset + bytes > from_ + std::ssize(buffer_)) {
      const std::int64_t want = std::min(std::max(bytes, kWindow), file_.size() - offset);
      buffer_.resize(static_cast<std::size_t>(want));
      file_.read(offset, buffer_);
      from_ = offset;
    }
    return std::span(buffer_).subspan(static_cast<std::size_t>(offset - from_),
                                      static_cast<std::size_t>(bytes));
  }

 private:
  const Bytes& file_;
  std::vector<std::byte> buffer_ = {};
  std::int64_t from_ = 0;
};

double float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

std::optional<double> scalar_of(std::span<const std::byte> tensor) {
  Proto message(tensor);
  ProtoField field;
  std::uint64_t dtype = 0;
  std::span<const std::byte> content, floats, doubles;
  std::optional<double> single;
  while (message.next(field)) {
    if (field.number == 1 && field.wire == 0) dtype = field.integer;
    if (field.number == 4 && field.wire == 2) content = field.bytes;
    if (field.number == 5 && field.wire == 2) floats = field.bytes;
    if (field.number == 6 && field.wire == 2) doubles = field.bytes;
    if (field.number == 5 && field.wire == 5) single = float_of(field.integer);
    if (field.number == 6 && field.wire == 1) single = std::bit_cast<double>(field.integer);
  }
  if (!message.ok()) return {};
  if (single) return single;
  if (dtype == 1) {
    const auto& bytes = floats.empty() ? content : floats;
    if (bytes.size() == 4) return float_of(little_endian(bytes, 4));
  }
  if (dtype == 2) {
    const auto& bytes = doubles.empty() ? content : doubles;
    if (bytes.size() == 8) return std::bit_cast<double>(little_endian(bytes, 8));
  }
  return {};
}

// Scalars of one Event into the log.
class Tags {
 public:
  Tags(const LogOptions& options, RunLog& log) : options_(options), log_(log) {
    for (std::size_t i = 0; i < log.series.size(); ++i) series_of_.emplace(log.series[i].name(), i);
    for (const std::string& tag : log.left_out) series_of_.emplace(tag, std::string::npos);
  }

  bool event(std::span<const std::byte> bytes) {
    Proto message(bytes);
    ProtoField field;
    std::int64_t step = 0;
    values_.clear();
    while (message.next(field)) {
      if (field.number == 2 && field.wire == 0) step = static_cast<std::int64_t>(field.integer);
      if (field.number == 5 && field.wire == 2 && !summary(field.bytes)) return false;
    }
    for (const auto& [series, value] : values_) log_.series[series].append(step, value);
    return message.ok();
  }

 private:
  const LogOptions& options_;
  RunLog& log_;
  std::unordered_map<std::string, std::size_t> series_of_ = {};
  std::vector<std::pair<std::size_t, double>> values_ = {};
  std::string tag_ = {};

  bool summary(std::span<const std::byte> bytes) {
    Proto message(bytes);
    ProtoField field;
    while (message.next(field))
      if (field.number == 1 && field.wire == 2 && !value(field.bytes)) return false;
    return message.ok();
  }

  bool value(std::span<const std::byte> bytes) {
    Proto message(bytes);
    ProtoField field;
    std::optional<double> scalar;
    tag_.clear();
    while (message.next(field)) {
      if (field.number == 1 && field.wire == 2)
        tag_.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
      if (field.number == 2 && field.wire == 5) scalar = float_of(field.integer);
      if (field.number == 8 && field.wire == 2) scalar = scalar_of(field.bytes);
    }
    if (!message.ok()) return false;
    if (!scalar) return true;  // a picture, a histogram
    auto it = series_of_.find(tag_);
    if (it == series_of_.end()) {
      if (series_of_.size() == kMostTags) return false;
      const bool wanted = options_.wanted(tag_);
      it = series_of_.emplace(tag_, wanted ? log_.series.size() : std::string::npos).first;
      if (wanted)
        log_.series.emplace_back(tag_);
      else
        log_.left_out.push_back(tag_);
    }
    if (it->second != std::string::npos) values_.emplace_back(it->second, *scalar);
    return true;
  }
};

}  // namespace

bool is_event_file(std::span<const std::byte> head) {
  return head.size() >= kHead && masked_crc32c(head.first(8)) == little_endian(head.subspan(8), 4);
}

void read_events(const Bytes& file, const LogOptions& options, RunLog& log) {
  log.format = "TensorBoard";
  log.step_name = "step";
  Tags tags(options, log);
  Window window(file);
  std::int64_t at = 0;
  const auto refuse = [&](std::string_view what) {
    throw UsageError(fmt::format("{}: the record at byte {} {}", file.name(), at, what));
  };
  while (at < file.size()) {
    const std::int64_t left = file.size() - at;
    std::int64_t length = 0;
    if (left >= kHead) {
      const auto head = window.at(at, kHead);
      if (masked_crc32c(head.first(8)) != little_endian(head.subspan(8), 4))
        refuse("has a length that its checksum denies");
      const std::uint64_t claimed = little_endian(head, 8);
      length =
          claimed > static_cast<std::uint64_t>(left) ? left : static_cast<std::int64_t>(claimed);
    }
    if (left < kHead + length + kFoot) {  // what a run that was killed leaves
      log.remarks.push_back(
          fmt::format("{}: the last record, at byte {}, is cut short: left out", file.name(), at));
      break;
    }
    if (length <= kMostMessage) {
      const auto body = window.at(at + kHead, length + kFoot);
      const auto bytes = body.first(static_cast<std::size_t>(length));
      if (masked_crc32c(bytes) != little_endian(body.last(kFoot), 4))
        refuse("has a message that its checksum denies");
      if (!tags.event(bytes)) refuse("holds no Event message");
    }
    at += kHead + length + kFoot;
  }
}

void read_event_folder(const std::filesystem::path& folder, const LogOptions& options,
                       RunLog& log) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() &&
        entry.path().filename().string().find("tfevents") != std::string::npos)
      files.push_back(entry.path());
  std::ranges::sort(
      files);  // their names begin with the time at which a run, or its restart, began
  if (files.empty())
    throw UsageError(folder.string() + ": is a folder without TensorBoard event files");
  for (const auto& path : files) {
    const Bytes file(path);
    read_events(file, options, log);
  }
}

}  // namespace parity::io
