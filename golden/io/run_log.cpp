#include "golden/io/run_log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "golden/io/bytes.hpp"
#include "golden/io/log_formats.hpp"
#include "harness/failure.hpp"
#include "harness/process.hpp"

namespace parity::io {
namespace {

constexpr std::size_t kMostSegments = std::size_t{1} << 22;  // 128 MiB of them
constexpr std::size_t kSpill = std::size_t{1} << 12;         // values that leave memory at once
std::atomic<std::int64_t> in_memory{0};
std::atomic<std::int64_t> most_in_memory{std::int64_t{1} << 30};

// The one file that all series share, for as long as the process lives.
class SpillFile {
 public:
  std::int64_t append(std::span<const double> values) {
    if (file_.get() < 0) file_ = make();
    auto bytes = std::as_bytes(values);
    const std::int64_t at = size_;
    while (!bytes.empty()) {
      const ssize_t wrote = ::pwrite(file_.get(), bytes.data(), bytes.size(), size_);
      if (wrote <= 0) throw UsageError("the folder of temporary files is full");
      bytes = bytes.subspan(static_cast<std::size_t>(wrote));
      size_ += wrote;
    }
    return at;
  }
  void read(std::int64_t at, std::span<double> values) const {
    auto bytes = std::as_writable_bytes(values);
    while (!bytes.empty()) {
      const ssize_t got = ::pread(file_.get(), bytes.data(), bytes.size(), at);
      if (got <= 0) throw UsageError("the temporary file of logged values cannot be read");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      at += got;
    }
  }

 private:
  static Fd make() {
    const std::string folder = std::filesystem::temp_directory_path().string();
    Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file.get() < 0) {  // a file system without O_TMPFILE
      std::string path = folder + "/parity-log-XXXXXX";
      file = Fd(::mkostemp(path.data(), O_CLOEXEC));
      if (file.get() >= 0) ::unlink(path.c_str());
    }
    if (file.get() < 0) throw UsageError(folder + ": no temporary file can be made there");
    return file;
  }
  Fd file_ = {};
  std::int64_t size_ = 0;
};

SpillFile& spill_file() {
  static SpillFile file;
  return file;
}

// Steps below `limit`.
Segment below(Segment s, std::int64_t limit) {
  if (limit <= s.first)
    s.count = 0;
  else if (limit <= s.last())
    s.count = (limit - 1 - s.first) / s.stride + 1;
  return s;
}

}  // namespace

void set_log_memory(std::int64_t bytes) { most_in_memory = bytes; }

double Resolution::unit(double value) const {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double size = std::abs(value);
  double unit = binary32 ? size * 0x1p-23 : size * 0x1p-52;
  if (digits > 0)
    unit = std::max(unit, std::pow(10.0, std::max<double>(-decimals, std::floor(std::log10(size)) -
                                                                         digits + 1)));
  return unit;
}

void Series::seen(const Resolution& value) {
  resolution_.decimals = std::max(resolution_.decimals, value.decimals);
  resolution_.digits = std::max(resolution_.digits, value.digits);
}

void Series::append(std::int64_t step, double value) {
  if (!std::isfinite(value) && not_finite_++ == 0) first_not_finite_ = step;
  Segment* last = segments_.empty() ? nullptr : &segments_.back();
  if (last && step <= last->last() && restarts_++ == 0) first_restart_ = step;
  if (last && last->count == 1 && step > last->first) {
    last->stride = step - last->first;
    last->count = 2;
  } else if (last && step > last->last() && step - last->last() == last->stride) {
    ++last->count;
  } else {
    if (segments_.size() == kMostSegments)
      throw UsageError(fmt::format("{}: steps come in more than {} pieces", name_, kMostSegments));
    segments_.push_back({.first = step, .count = 1, .at = size_});
  }
  constexpr std::uint64_t kPrime = 0x100000001b3;  // of FNV-1a, a word at a time
  digest_ = (digest_ ^ static_cast<std::uint64_t>(step)) * kPrime;
  digest_ = (digest_ ^ std::bit_cast<std::uint64_t>(value) ^ digest_ >> 32) * kPrime;
  tail_.push_back(value);
  ++size_;
  in_memory += static_cast<std::int64_t>(sizeof value);
  if (tail_.size() >= kSpill && in_memory > most_in_memory) spill();
}

void Series::spill() {
  std::size_t done = 0;
  for (; tail_.size() - done >= kSpill; done += kSpill)
    pieces_.push_back(spill_file().append(std::span(tail_).subspan(done, kSpill)));
  tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(done));
  tail_.shrink_to_fit();
  spilled_ += static_cast<std::int64_t>(done);
  in_memory -= static_cast<std::int64_t>(done * sizeof(double));
}

void Series::read(std::int64_t at, std::span<double> out) const {
  constexpr auto kPiece = static_cast<std::int64_t>(kSpill);
  while (!out.empty()) {
    if (at >= spilled_) {
      std::copy_n(tail_.begin() + (at - spilled_), out.size(), out.begin());
      return;
    }
    const std::int64_t within = at % kPiece;
    const auto n = static_cast<std::size_t>(std::min(kPiece - within, std::ssize(out)));
    spill_file().read(pieces_[static_cast<std::size_t>(at / kPiece)] +
                          within * static_cast<std::int64_t>(sizeof(double)),
                      out.first(n));
    out = out.subspan(n);
    at += static_cast<std::int64_t>(n);
  }
}

std::vector<Segment> Series::kept() const {
  std::vector<Segment> kept;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (auto s = segments_.rbegin(); s != segments_.rend(); ++s) {
    if (const Segment part = below(*s, limit); part.count > 0) kept.push_back(part);
    limit = std::min(limit, s->first);
  }
  std::ranges::reverse(kept);
  return kept;
}

std::vector<Segment> Series::replaced() const {
  std::vector<Segment> replaced;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (auto s = segments_.rbegin(); s != segments_.rend(); ++s) {
    if (const std::int64_t left = below(*s, limit).count; left < s->count)
      replaced.push_back({.first = s->first + left * s->stride,
                          .stride = s->stride,
                          .count = s->count - left,
                          .at = s->at + left});
    limit = std::min(limit, s->first);
  }
  std::ranges::reverse(replaced);
  return replaced;
}

const Series* RunLog::find(std::string_view name) const {
  const auto it = std::ranges::find(series, name, &Series::name);
  return it == series.end() ? nullptr : &*it;
}

RunLog read_log(const std::filesystem::path& path, const LogOptions& options) {
  RunLog log{.path = path.string()};
  if (std::filesystem::is_directory(path)) {
    read_event_folder(path, options, log);
  } else {
    const Bytes file(path);
    std::array<std::byte, 16> head{};
    const auto bytes = std::span(head).first(
        static_cast<std::size_t>(std::min<std::int64_t>(file.size(), std::ssize(head))));
    file.read(0, bytes);
    const auto* text = reinterpret_cast<const char*>(head.data());
    const std::string_view start(text, bytes.size());
    const std::size_t first = start.find_first_not_of(" \t\r\n\xef\xbb\xbf");
    if (file.size() == 0) throw UsageError(log.path + ": is empty");
    if (is_event_file(bytes))
      read_events(file, options, log);
    else if (first != std::string_view::npos && start[first] == '{')
      read_jsonl(file, options, log);
    else
      read_csv(file, options, log);
  }
  std::erase_if(log.series, [](const Series& s) { return s.size() == 0; });
  if (log.series.empty())
    throw UsageError(fmt::format(
        "{}: no loss, grad-norm or other wanted column of numbers{}", log.path,
        log.left_out.empty() ? "" : fmt::format("; it has {}", fmt::join(log.left_out, ", "))));
  return log;
}

}  // namespace parity::io
