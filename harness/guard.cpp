#include "harness/guard.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <new>

namespace parity {
namespace {

constexpr std::size_t kAlignment = 64;

std::uint64_t repeat8(std::uint64_t v) { return v * 0x0101010101010101u; }
std::uint64_t repeat16(std::uint64_t v) { return v * 0x0001000100010001u; }
std::uint64_t repeat32(std::uint64_t v) { return v * 0x0000000100000001u; }

// Writes the repeated pattern with the phase of the payload's first byte, at `phase` bytes from it.
void fill(std::span<std::byte> out, std::uint64_t pattern, std::size_t phase = 0) {
  std::array<std::byte, 8> unit{};
  std::memcpy(unit.data(), &pattern, unit.size());
  std::ranges::rotate(unit, unit.begin() + static_cast<std::ptrdiff_t>(phase % 8));
  const std::size_t head = std::min<std::size_t>(out.size(), 8);
  std::memcpy(out.data(), unit.data(), head);
  for (std::size_t done = head; done < out.size();) {
    const std::size_t n = std::min(done, out.size() - done);
    std::memcpy(out.data() + done, out.data(), n);
    done += n;
  }
}

std::byte pattern_byte(std::uint64_t pattern, std::size_t offset) {
  return static_cast<std::byte>(pattern >> (8 * (offset % 8)) & 0xFFu);
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Width of one stored element in bytes; 1 where two share a byte.
std::size_t width(Dtype dtype) { return std::max<std::size_t>(1, bytes_for(dtype, 1)); }

}  // namespace

std::uint64_t poison_pattern(Dtype dtype, int which) {
  const auto pick = [which](std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return which == 0 ? a : which == 1 ? b : c;
  };
  switch (dtype) {
    case Dtype::F64:
      return pick(0x7FFDEAD0BEEFCAFEu, 0x7FFB0BAD0DD0DECAu, 0x7FFCAFE1D0C0FFEEu);
    case Dtype::F32:
    case Dtype::TF32:
      return repeat32(pick(0x7FEDBEADu, 0x7FDBADC3u, 0x7FCC0FE5u));
    case Dtype::BF16:
      return repeat16(pick(0x7FEDu, 0x7FDBu, 0x7FCDu));
    case Dtype::F16:
      return repeat16(pick(0x7EDBu, 0x7FB5u, 0x7E6Du));
    case Dtype::E4M3:
      return repeat8(pick(0x7F, 0xFF, 0x55));  // the two NaNs, then a number
    case Dtype::E5M2:
      return repeat8(pick(0x7D, 0xFE, 0x7F));
    case Dtype::E8M0:
      return repeat8(pick(0xFF, 0x19, 0xA6));  // the NaN, then numbers
    case Dtype::E3M2:
    case Dtype::E2M3:
      return repeat8(pick(0x26, 0x19, 0x3C));  // six bits
    default:
      return repeat8(pick(0x66, 0x99, 0x3C));
  }
}

std::uint64_t canary_pattern(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
      return 0xFFFDC0DEC0DEC0DEu;
    case Dtype::F32:
    case Dtype::TF32:
      return repeat32(0xFFEDC0DEu);
    case Dtype::BF16:
      return repeat16(0xFFDEu);
    case Dtype::F16:
      return repeat16(0xFEDEu);
    case Dtype::E5M2:
      return repeat8(0xFF);
    case Dtype::E2M1:
      return repeat8(0xDE);
    default:
      return repeat8(0xFF);
  }
}

bool poison_is_unmistakable(Dtype dtype) {
  return format(dtype).is_float && format(dtype).bits >= 16;
}

GuardedBuffer::GuardedBuffer(Dtype dtype, std::size_t bytes)
    : dtype_(dtype),
      bytes_(bytes),
      memory_(static_cast<std::byte*>(
          std::aligned_alloc(kAlignment, rounded(bytes + 2 * kCanaryBytes)))) {
  if (!memory_) throw std::bad_alloc();
  repair_canaries();
}

void GuardedBuffer::poison(int which) { fill(payload(), poison_pattern(dtype_, which)); }

void GuardedBuffer::repair_canaries() {
  fill({memory_.get(), kCanaryBytes}, canary_pattern(dtype_));
  fill({memory_.get() + kCanaryBytes + bytes_, kCanaryBytes}, canary_pattern(dtype_), bytes_);
}

std::string GuardedBuffer::broken_canary() const {
  const std::uint64_t pattern = canary_pattern(dtype_);
  const std::byte* start = memory_.get() + kCanaryBytes;
  for (std::size_t i = 0; i < kCanaryBytes; ++i)
    if (start[bytes_ + i] != pattern_byte(pattern, bytes_ + i))
      return fmt::format("byte {} past the end (offset {} of {} bytes)", i, bytes_ + i, bytes_);
  for (std::size_t i = 1; i <= kCanaryBytes; ++i)
    if (*(start - i) != pattern_byte(pattern, kCanaryBytes - i))
      return fmt::format("byte {} before the start (offset -{} of {} bytes)", i, i, bytes_);
  return "";
}

Unwritten::Unwritten(const TensorSpec& spec, std::span<const std::byte> after, int which,
                     std::span<const std::uint8_t> ignore)
    : spec_(&spec) {
  const std::uint64_t pattern = poison_pattern(spec.dtype, which);
  if (poison_is_unmistakable(spec.dtype)) {
    const std::size_t w = width(spec.dtype);
    for (std::size_t i = 0; i + w <= after.size(); i += w)
      if (std::memcmp(after.data() + i, &pattern, w) == 0)
        for (std::size_t b = 0; b < w; ++b) suspects_.push_back({i + b, 0xFF});
    drop_ignored(ignore);
    return;
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto same = static_cast<std::uint8_t>(after[i] ^ pattern_byte(pattern, i));
    if (same == 0)
      suspects_.push_back({i, 0xFF});
    else if (spec.dtype == Dtype::E2M1 && (same & 0x0Fu) == 0)
      suspects_.push_back({i, 0x0F});
    else if (spec.dtype == Dtype::E2M1 && (same & 0xF0u) == 0)
      suspects_.push_back({i, 0xF0});
  }
  drop_ignored(ignore);
}

void Unwritten::drop_ignored(std::span<const std::uint8_t> ignore) {
  if (ignore.empty()) return;
  const auto open = [&](std::size_t element) {
    return element >= ignore.size() || ignore[element] != 0;
  };
  std::erase_if(suspects_, [&](Suspect& s) {
    if (spec_->dtype != Dtype::E2M1) return open(s.offset / width(spec_->dtype));
    if (open(2 * s.offset)) s.mask &= 0xF0u;
    if (open(2 * s.offset + 1)) s.mask &= 0x0Fu;
    return s.mask == 0;
  });
}

void Unwritten::narrow(std::span<const std::byte> after, int which) {
  const std::uint64_t pattern = poison_pattern(spec_->dtype, which);
  std::vector<Suspect> left;
  for (Suspect s : suspects_) {
    const auto different =
        static_cast<std::uint8_t>(after[s.offset] ^ pattern_byte(pattern, s.offset));
    if (spec_->dtype == Dtype::E2M1) {
      if ((different & 0x0Fu) != 0) s.mask &= 0xF0u;
      if ((different & 0xF0u) != 0) s.mask &= 0x0Fu;
      if (s.mask != 0) left.push_back(s);
    } else if (different == 0) {
      left.push_back(s);
    }
  }
  suspects_ = std::move(left);
}

std::int64_t Unwritten::bytes() const { return static_cast<std::int64_t>(suspects_.size()); }

std::string Unwritten::sentence() const {
  if (suspects_.empty()) return "";
  return fmt::format("{} '{}': {} {} never written, the first at {}", name(spec_->role),
                     spec_->name, bytes(), bytes() == 1 ? "byte was" : "bytes were",
                     place(*spec_, suspects_.front().offset));
}

std::ptrdiff_t first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::size_t n = std::min(a.size(), b.size());
  if (n > 0 && std::memcmp(a.data(), b.data(), n) != 0)
    return std::ranges::mismatch(a, b).in1 - a.begin();
  return a.size() == b.size() ? -1 : static_cast<std::ptrdiff_t>(n);
}

std::string place(const TensorSpec& spec, std::size_t byte) {
  const auto element =
      static_cast<std::int64_t>(spec.dtype == Dtype::E2M1 ? byte * 2 : byte / width(spec.dtype));
  const std::string where = element < elements(spec.dims) ? letters(spec.dims, element) : "";
  return where.empty() ? fmt::format("byte {}", byte) : fmt::format("byte {} ({})", byte, where);
}

}  // namespace parity
