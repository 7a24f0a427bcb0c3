// The wire format of protocol buffers, read in place: field by field, nothing is allocated.
// (protobuf.dev/programming-guides/encoding)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace parity::io {

struct ProtoField {
  std::uint32_t number = 0;
  int wire = 0;               // 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes
  std::uint64_t integer = 0;  // of wires 0, 1, 5
  std::span<const std::byte> bytes = {};  // of wire 2
};

class Proto {
 public:
  explicit Proto(std::span<const std::byte> bytes) : left_(bytes) {}
  // False at the end, and where the bytes are no message (then ok() is false).
  bool next(ProtoField&);
  bool ok() const { return ok_; }

 private:
  bool varint(std::uint64_t&);
  bool take(std::uint64_t n, std::span<const std::byte>&);
  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace parity::io
