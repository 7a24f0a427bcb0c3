#include "harness/cli/record_store.hpp"

#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/failure.hpp"
#include "harness/suite.hpp"

namespace parity::cli {

RecordStore::RecordStore() : file_(::memfd_create("parity-records", MFD_CLOEXEC)) {
  if (file_.get() < 0) throw Failure("no anonymous file for the records");
}

void RecordStore::add(const CaseRecord& record) {
  send_frame(file_.get(), {FrameKind::Record, 0, to_wire(record)});
}

std::vector<CaseRecord> RecordStore::all() const {
  std::vector<CaseRecord> records;
  FrameReader reader;
  std::array<char, 1 << 20> chunk{};
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(file_.get(), chunk.data(), chunk.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Failure("the records of this run cannot be read back");
    if (n == 0) break;
    at += n;
    reader.feed({chunk.data(), static_cast<std::size_t>(n)});
    while (const auto frame = reader.next()) records.push_back(from_wire(frame->payload));
  }
  if (!reader.empty()) throw Failure("the records of this run end in the middle of one");
  return records;
}

}  // namespace parity::cli
