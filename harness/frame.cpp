// Messages between the processes of a suite, over a pipe.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "harness/failure.hpp"
#include "harness/process.hpp"

namespace parity {
namespace {

struct Header {
  std::uint32_t magic = 0;
  std::uint32_t kind = 0;
  std::uint32_t index = 0;
  std::uint32_t unused = 0;
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;
};
constexpr std::uint32_t kMagic = 0x50415249;  // "PARI"
constexpr std::uint64_t kLongest = 1u << 30;

// FNV-1a over the payload, eight bytes at a time, seeded with the rest of the header.
std::uint64_t checksum(const Header& h, std::string_view payload) {
  constexpr std::uint64_t kPrime = 0x100000001B3u;
  std::uint64_t sum = 0xCBF29CE484222325u;
  const auto mix = [&](std::uint64_t word) {
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 29;
  };
  mix(h.kind), mix(h.index), mix(h.length);
  for (std::size_t i = 0; i < payload.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, payload.data() + i, std::min<std::size_t>(8, payload.size() - i));
    mix(word);
  }
  return sum;
}

void write_all(int fd, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Failure(std::string("writing to a pipe: ") + std::strerror(errno));
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

}  // namespace

void send_frame(int fd, const Frame& frame) {
  Header h{.magic = kMagic,
           .kind = static_cast<std::uint32_t>(frame.kind),
           .index = frame.index,
           .length = frame.payload.size()};
  h.checksum = checksum(h, frame.payload);
  std::string bytes(sizeof h, '\0');
  std::memcpy(bytes.data(), &h, sizeof h);
  bytes += frame.payload;
  write_all(fd, bytes.data(), bytes.size());
}

bool holds_frame(std::string_view bytes) {
  Header h;
  if (std::memcmp(bytes.data(), &kMagic, std::min(bytes.size(), sizeof kMagic)) != 0) return true;
  if (bytes.size() < sizeof h) return false;
  std::memcpy(&h, bytes.data(), sizeof h);
  return h.length > kLongest || bytes.size() - sizeof h >= h.length;
}

std::optional<Frame> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  if (!holds_frame(rest)) return std::nullopt;
  Header h;
  if (rest.size() < sizeof h) throw Failure("something that is no message");
  std::memcpy(&h, rest.data(), sizeof h);
  if (h.magic != kMagic) throw Failure("something that is no message");
  if (h.kind > static_cast<std::uint32_t>(FrameKind::Skipped) || h.length > kLongest)
    throw Failure("a damaged message");
  Frame frame{static_cast<FrameKind>(h.kind), h.index,
              std::string(rest.substr(sizeof h, h.length))};
  if (checksum(h, frame.payload) != h.checksum) throw Failure("a damaged message");
  at_ += sizeof h + h.length;
  if (at_ == buffer_.size()) buffer_.clear(), at_ = 0;
  return frame;
}

}  // namespace parity
