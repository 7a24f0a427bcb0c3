// The memory that a kernel is given: 64-byte aligned, 256 bytes of canary on both sides.
//
// Canaries hold NaN in the tensor's own format, so that a read past the end shows in the result,
// and a bit pattern that differs from the poison of outputs, so that copying poison past the end is
// seen too.
//
// Poison is what outputs, saved tensors and workspace hold before a launch. Formats of 16 bits and
// more have a NaN whose payload no computation makes by itself: an element that still holds it was
// never written (or was only added to). The narrow formats and integers have no such pattern: there
// a byte was never written if it holds the poison after each of several launches with different
// poisons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/tensor.hpp"

namespace parity {

inline constexpr std::size_t kCanaryBytes = 256;
inline constexpr int kPoisons = 3;

// Eight bytes that repeat the pattern of one element. `which` < kPoisons.
std::uint64_t poison_pattern(Dtype, int which);
std::uint64_t canary_pattern(Dtype);
// Whether one launch tells a written element from an unwritten one.
bool poison_is_unmistakable(Dtype);

class GuardedBuffer {
 public:
  GuardedBuffer(Dtype dtype, std::size_t bytes);

  std::span<std::byte> payload() { return {memory_.get() + kCanaryBytes, bytes_}; }
  std::span<const std::byte> payload() const { return {memory_.get() + kCanaryBytes, bytes_}; }
  // With the canaries: what is copied to a device and back.
  std::span<std::byte> whole() { return {memory_.get(), bytes_ + 2 * kCanaryBytes}; }
  void poison(int which);
  void repair_canaries();
  // "" while both canaries are whole; else where the nearest broken byte lies: "byte 3 past the end
  // (offset 67 of 64)".
  std::string broken_canary() const;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  Dtype dtype_;
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Bytes of a poisoned output that may never have been written, narrowed down launch by launch.
class Unwritten {
 public:
  // `ignore` marks elements that the definition leaves open; empty: none.
  Unwritten(const TensorSpec& spec, std::span<const std::byte> after, int which,
            std::span<const std::uint8_t> ignore = {});
  // After another launch with another poison: what was written in either is dropped.
  void narrow(std::span<const std::byte> after, int which);
  bool empty() const { return suspects_.empty(); }
  std::int64_t bytes() const;
  std::string sentence()
      const;  // "output 'o': 128 bytes were never written, the first at byte 256 (t=3,d=0)"

 private:
  struct Suspect {
    std::size_t offset = 0;
    std::uint8_t mask = 0xFF;  // one nibble where two codes share a byte
  };
  void drop_ignored(std::span<const std::uint8_t> ignore);

  const TensorSpec* spec_;
  std::vector<Suspect> suspects_ = {};
};

// Offset of the first difference, or -1.
std::ptrdiff_t first_difference(std::span<const std::byte> a, std::span<const std::byte> b);
// "byte 256 (t=3,d=0)" of a tensor.
std::string place(const TensorSpec&, std::size_t byte);

}  // namespace parity
