#include "golden/io/zip.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <zlib.h>

#include "golden/io/tensor_file.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::int64_t kInflation = 1032;        // deflate cannot expand further
constexpr std::int64_t kSlack = 1 << 10;         // bytes
constexpr std::int64_t kLargestList = 64 << 20;  // bytes of a central directory
constexpr std::size_t kBlock = 1 << 18;          // bytes that are inflated or skipped at a time
constexpr std::uint64_t kIn64 = 0xFFFFFFFF;      // "see the zip64 extra field"
constexpr std::int64_t kEndRecord = 22, kLocator = 20, kEnd64 = 56, kLocal = 30, kCentral = 46;

std::uint64_t number(std::string_view text, std::size_t at, std::size_t width) {
  if (at + width > text.size()) throw UsageError("a zip record is cut short");
  return little_endian(std::as_bytes(std::span(text.substr(at, width))), width);
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, members = 0;
};

// The end record lies in the last 64 KiB; a locator before it leads to that of zip64.
Directory directory_of(const Bytes& file) {
  const std::int64_t tail = std::min<std::int64_t>(file.size(), kEndRecord + 0xFFFF);
  const std::string text = file.text(file.size() - tail, tail);
  const std::size_t at = text.rfind("PK\x05\x06");
  if (at == std::string::npos || text.size() - at < static_cast<std::size_t>(kEndRecord))
    throw UsageError(file.name() + ": no .zip, or truncated: it has no end record");
  Directory found{number(text, at + 16, 4), number(text, at + 12, 4), number(text, at + 10, 2)};
  if (found.offset == kIn64 || found.bytes == kIn64 || found.members == 0xFFFF) {
    const std::int64_t locator = file.size() - tail + static_cast<std::int64_t>(at) - kLocator;
    const std::string lead = locator < 0 ? "" : file.text(locator, kLocator);
    const std::uint64_t end = lead.starts_with("PK\x06\x07") ? number(lead, 8, 8) : ~0ULL;
    if (end > static_cast<std::uint64_t>(std::max<std::int64_t>(0, file.size() - kEnd64)))
      throw UsageError(file.name() + ": its zip64 end record is missing");
    const std::string record = file.text(static_cast<std::int64_t>(end), kEnd64);
    if (!record.starts_with("PK\x06\x06"))
      throw UsageError(file.name() + ": its zip64 end record is missing");
    found = {number(record, 48, 8), number(record, 40, 8), number(record, 32, 8)};
  }
  const auto size = static_cast<std::uint64_t>(file.size());
  if (found.offset > size || found.bytes > size - found.offset ||
      found.bytes > static_cast<std::uint64_t>(kLargestList))
    throw UsageError(file.name() + ": its central directory lies beyond the file, or is too long");
  return found;
}

// Fields that say "see zip64" stand in the extra field, in this order.
void read_zip64(std::string_view extra, std::span<std::uint64_t*> fields) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t id = number(extra, at, 2), bytes = number(extra, at + 2, 2);
    at += 4;
    if (id == 1)
      for (std::size_t i = at; std::uint64_t * field : fields)
        if (*field == kIn64) {
          if (i + 8 > at + bytes) throw UsageError("a zip64 field is cut short");
          *field = number(extra, i, 8);
          i += 8;
        }
    at += bytes;
  }
}

ZipMember member_of(const Bytes& file, std::string_view record, const Directory& directory) {
  ZipMember member;
  const std::size_t name = number(record, 28, 2), extra = number(record, 30, 2);
  member.name = std::string(record.substr(kCentral, name));
  const std::string where = file.name() + ": '" + member.name.substr(0, 80) + "'";
  if (!is_utf8(member.name) || member.name.find('\0') != std::string::npos)
    throw UsageError(file.name() + ": the name of a member is no UTF-8");
  std::uint64_t size = number(record, 24, 4), packed = number(record, 20, 4),
                local = number(record, 42, 4);
  std::array<std::uint64_t*, 3> fields{&size, &packed, &local};
  read_zip64(record.substr(kCentral + name, extra), fields);
  const std::uint64_t method = number(record, 10, 2);
  if (number(record, 8, 2) & 1) throw UsageError(where + ": is encrypted");
  if (method != 0 && method != 8)
    throw UsageError(where + ": is packed by method " + std::to_string(method) +
                     "; stored and deflate can be read");
  if (local > directory.offset || directory.offset - local < static_cast<std::uint64_t>(kLocal))
    throw UsageError(where + ": lies beyond its file");
  const std::string head = file.text(static_cast<std::int64_t>(local), kLocal);
  if (!head.starts_with("PK\x03\x04")) throw UsageError(where + ": has no header of its own");
  const std::uint64_t begin = local + kLocal + number(head, 26, 2) + number(head, 28, 2);
  if (begin > directory.offset || packed > directory.offset - begin)
    throw UsageError(where + ": is truncated");
  const std::uint64_t most = method == 0 ? packed : packed * kInflation + kSlack;
  if (size > most || (method == 0 && size != packed))
    throw UsageError(where + ": claims " + std::to_string(size) + " bytes and stores " +
                     std::to_string(packed));
  member.deflated = method == 8;
  member.crc = static_cast<std::uint32_t>(number(record, 16, 4));
  member.packed = static_cast<std::int64_t>(packed);
  member.size = static_cast<std::int64_t>(size);
  member.begin = static_cast<std::int64_t>(begin);
  return member;
}

uLong crc_of(uLong crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;  // zlib takes a null pointer for a new sum
  return crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

}  // namespace

std::vector<ZipMember> zip_members(const Bytes& file) try {
  const Directory directory = directory_of(file);
  const std::string text = file.text(static_cast<std::int64_t>(directory.offset),
                                     static_cast<std::int64_t>(directory.bytes));
  std::vector<ZipMember> members;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (!rest.starts_with("PK\x01\x02"))
      throw UsageError(file.name() + ": its central directory is damaged");
    const std::size_t bytes =
        kCentral + number(rest, 28, 2) + number(rest, 30, 2) + number(rest, 32, 2);
    if (bytes > rest.size()) throw UsageError(file.name() + ": its central directory is cut short");
    members.push_back(member_of(file, rest.substr(0, bytes), directory));
    at += bytes;
  }
  if (members.size() != directory.members)
    throw UsageError(file.name() + ": lists " + std::to_string(members.size()) +
                     " members and counts " + std::to_string(directory.members));
  std::vector<const ZipMember*> order;
  for (const ZipMember& member : members) order.push_back(&member);
  std::ranges::sort(order, {}, &ZipMember::begin);
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->begin + order[i - 1]->packed > order[i]->begin)
      throw UsageError(file.name() + ": '" + order[i]->name + "' overlaps '" + order[i - 1]->name +
                       "'");
  return members;
} catch (const std::out_of_range&) {
  throw UsageError(file.name() + ": a zip record is cut short");
}

struct ZipStream::Inflater {
  z_stream stream{};
  std::vector<std::byte> in = std::vector<std::byte>(kBlock);
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Failure("zlib does not start");
  }
  ~Inflater() { inflateEnd(&stream); }
};

ZipStream::ZipStream(std::shared_ptr<const Bytes> file, ZipMember member)
    : file_(std::move(file)), member_(std::move(member)) {
  restart();
}

ZipStream::~ZipStream() = default;

void ZipStream::restart() {
  inflater_ = member_.deflated ? std::make_unique<Inflater>() : nullptr;
  at_ = used_ = 0;
  crc_ = 0;
}

void ZipStream::next(std::span<std::byte> out) {
  if (!inflater_) {
    file_->read(member_.begin + at_, out);
  } else {
    z_stream& z = inflater_->stream;
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    while (z.avail_out > 0) {
      if (z.avail_in == 0) {
        const auto n = std::min<std::int64_t>(kBlock, member_.packed - used_);
        if (n == 0) throw UsageError(where() + ": ends before its size");
        file_->read(member_.begin + used_,
                    std::span(inflater_->in).first(static_cast<std::size_t>(n)));
        used_ += n;
        z.next_in = reinterpret_cast<Bytef*>(inflater_->in.data());
        z.avail_in = static_cast<uInt>(n);
      }
      const int got = inflate(&z, Z_NO_FLUSH);
      if (got == Z_STREAM_END && z.avail_out > 0)
        throw UsageError(where() + ": ends before its size");
      if (got != Z_OK && got != Z_STREAM_END) throw UsageError(where() + ": its data is damaged");
    }
  }
  crc_ = static_cast<std::uint32_t>(crc_of(crc_, out));
  at_ += static_cast<std::int64_t>(out.size());
  if (at_ == member_.size && crc_ != member_.crc)
    throw UsageError(where() + ": its checksum disagrees");
}

void ZipStream::read(std::int64_t offset, std::span<std::byte> out) {
  if (offset < 0 || offset > member_.size ||
      static_cast<std::int64_t>(out.size()) > member_.size - offset)
    throw UsageError(where() + ": ends at byte " + std::to_string(member_.size));
  if (offset < at_) restart();
  if (at_ < offset) {
    std::vector<std::byte> skipped(kBlock);
    while (at_ < offset)
      next(std::span(skipped).first(
          static_cast<std::size_t>(std::min<std::int64_t>(kBlock, offset - at_))));
  }
  constexpr std::size_t kMost = 1u << 30;  // zlib counts in 32 bits
  for (; !out.empty(); out = out.subspan(std::min(kMost, out.size())))
    next(out.first(std::min(kMost, out.size())));
}

struct ZipWriter::Out {
  std::filesystem::path path;
  std::ofstream file;
  std::string directory = {};
  std::uint64_t at = 0, members = 0;
};

ZipWriter::ZipWriter(const std::filesystem::path& path)
    : out_(new Out{path, std::ofstream(path, std::ios::binary)}) {}

ZipWriter::~ZipWriter() = default;

void ZipWriter::member(const std::string& name, std::string_view head,
                       std::span<const std::byte> body) {
  const std::uint64_t size = head.size() + body.size();
  if (out_->at + size + out_->directory.size() + name.size() + 1024 > kIn64 ||
      out_->members + 1 >= 0xFFFF)
    throw UsageError(out_->path.string() + ": larger than 4 GiB; write .safetensors or .h5");
  const uLong crc = crc_of(crc_of(0, std::as_bytes(std::span(head))), body);
  std::string fields;                        // shared by both headers
  put_little_endian(fields, 20, 2);          // version needed: 2.0
  put_little_endian(fields, 0x800, 2);       // names are UTF-8
  put_little_endian(fields, 0, 2);           // stored
  put_little_endian(fields, 0x00210000, 4);  // 1980-01-01, so that equal content is equal bytes
  put_little_endian(fields, crc, 4);
  put_little_endian(fields, size, 4);
  put_little_endian(fields, size, 4);
  put_little_endian(fields, name.size(), 2);
  put_little_endian(fields, 0, 2);
  out_->file << "PK\x03\x04" << fields << name << head;
  out_->file.write(reinterpret_cast<const char*>(body.data()),
                   static_cast<std::streamsize>(body.size()));
  out_->directory += "PK\x01\x02";
  put_little_endian(out_->directory, 20, 2);
  out_->directory += fields;
  put_little_endian(out_->directory, 0, 10);  // comment, disk, attributes
  put_little_endian(out_->directory, out_->at, 4);
  out_->directory += name;
  out_->at += static_cast<std::uint64_t>(kLocal) + name.size() + size;
  ++out_->members;
}

void ZipWriter::close() {
  std::string end = "PK\x05\x06";
  put_little_endian(end, 0, 4);
  put_little_endian(end, out_->members, 2);
  put_little_endian(end, out_->members, 2);
  put_little_endian(end, out_->directory.size(), 4);
  put_little_endian(end, out_->at, 4);
  put_little_endian(end, 0, 2);
  out_->file << out_->directory << end;
  if (!out_->file.flush()) throw UsageError(out_->path.string() + ": cannot be written");
}

}  // namespace parity::io
