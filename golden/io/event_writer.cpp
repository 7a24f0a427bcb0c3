#include "golden/io/event_writer.hpp"

#include <bit>
#include <fmt/format.h>

#include "golden/io/bytes.hpp"
#include "golden/io/crc32c.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

// Fields of protocol buffers; the messages are those of log_events.cpp.
std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7F) | 0x80);
  return text + static_cast<char>(value);
}

std::string with_key(int number, int wire) {
  return varint(static_cast<std::uint64_t>(number << 3 | wire));
}

std::string bytes_field(int number, const std::string& bytes) {
  return with_key(number, 2) + varint(bytes.size()) + bytes;
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder, double time) {
  std::filesystem::create_directories(folder);
  path_ = (folder / fmt::format("events.out.tfevents.{:010.0f}.parity", time)).string();
  out_.open(path_, std::ios::binary);
  if (!out_) throw UsageError(path_ + ": cannot be written");
  std::string message = with_key(1, 1);
  put_little_endian(message, std::bit_cast<std::uint64_t>(time), 8);
  record(message + bytes_field(3, "brain.Event:2"));
}

void EventWriter::write(std::int64_t step, double time,
                        std::span<const std::pair<std::string, double>> scalars) {
  std::string message = with_key(1, 1), summary;
  put_little_endian(message, std::bit_cast<std::uint64_t>(time), 8);
  for (const auto& [tag, value] : scalars) {
    std::string number = with_key(2, 5);
    put_little_endian(number, std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
    summary += bytes_field(1, bytes_field(1, tag) + number);
  }
  message += with_key(2, 0) + varint(static_cast<std::uint64_t>(step));
  record(message + bytes_field(5, summary));
}

void EventWriter::record(const std::string& message) {
  std::string head;
  put_little_endian(head, message.size(), 8);
  put_little_endian(head, masked_crc32c(std::as_bytes(std::span(head))), 4);
  std::string foot;
  put_little_endian(foot, masked_crc32c(std::as_bytes(std::span(message))), 4);
  out_ << head << message << foot << std::flush;
  if (!out_) throw UsageError(path_ + ": cannot be written");
}

}  // namespace parity::io
