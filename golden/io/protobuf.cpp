#include "golden/io/protobuf.hpp"

#include "golden/io/bytes.hpp"

namespace parity::io {

bool Proto::varint(std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !left_.empty(); shift += 7) {
    const auto b = std::to_integer<std::uint64_t>(left_.front());
    left_ = left_.subspan(1);
    value |= (b & 0x7F) << shift;
    if (b < 0x80) return true;
  }
  return false;
}

bool Proto::take(std::uint64_t n, std::span<const std::byte>& bytes) {
  if (n > left_.size()) return false;
  bytes = left_.first(static_cast<std::size_t>(n));
  left_ = left_.subspan(static_cast<std::size_t>(n));
  return true;
}

bool Proto::next(ProtoField& field) {
  if (left_.empty() || !ok_) return false;
  std::uint64_t key = 0, length = 0;
  ok_ = varint(key) && key >> 3 != 0 && key >> 3 <= 0x1FFFFFFF;
  if (!ok_) return false;
  field = {.number = static_cast<std::uint32_t>(key >> 3), .wire = static_cast<int>(key & 7)};
  std::span<const std::byte> bytes;
  switch (field.wire) {
    case 0:
      return ok_ = varint(field.integer);
    case 1:
    case 5:
      ok_ = take(field.wire == 1 ? 8 : 4, bytes);
      if (ok_) field.integer = little_endian(bytes, bytes.size());
      return ok_;
    case 2:
      return ok_ = varint(length) && take(length, field.bytes);
    default:
      return ok_ = false;
  }
}

}  // namespace parity::io
