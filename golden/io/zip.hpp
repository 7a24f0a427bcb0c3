// Members of a .zip, read as streams: stored or deflated, also beyond 4 GiB (APPNOTE.TXT 6.3.10,
// §4.3 to §4.5). The only file room that includes zlib.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "golden/io/bytes.hpp"

namespace parity::io {

struct ZipMember {
  std::string name = {};
  bool deflated = false;
  std::uint32_t crc = 0;
  std::int64_t packed = 0, size = 0;  // bytes
  std::int64_t begin = 0;             // of its data in the file
};

// The central directory, checked against the file: members overlap neither it nor one another, none
// is encrypted, and none claims more than deflate can expand to.
std::vector<ZipMember> zip_members(const Bytes&);

// One member. Reading on is fast, reading back starts again; at its end the checksum is compared.
class ZipStream {
 public:
  ZipStream(std::shared_ptr<const Bytes> file, ZipMember member);
  ~ZipStream();
  ZipStream(const ZipStream&) = delete;
  ZipStream& operator=(const ZipStream&) = delete;
  void read(std::int64_t offset, std::span<std::byte> out);

 private:
  struct Inflater;
  void restart();
  void next(std::span<std::byte> out);  // the bytes that follow
  std::string where() const { return file_->name() + ": '" + member_.name + "'"; }

  std::shared_ptr<const Bytes> file_;
  ZipMember member_;
  std::unique_ptr<Inflater> inflater_;
  std::int64_t at_ = 0;    // of the member's bytes
  std::int64_t used_ = 0;  // of its packed bytes
  std::uint32_t crc_ = 0;
};

// A new archive of stored members, each written at once. Archives end below 4 GiB.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path&);
  ~ZipWriter();
  void member(const std::string& name, std::string_view head, std::span<const std::byte> body);
  void close();

 private:
  struct Out;
  std::unique_ptr<Out> out_;
};

}  // namespace parity::io
