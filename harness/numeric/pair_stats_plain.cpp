// The definition of the pair statistics, one element after another.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/pair_stats_block.hpp"

namespace parity::pair_detail {
namespace {

template <Dtype kDtype>
constexpr auto storage() {
  constexpr Dtype d = kDtype;
  if constexpr (d == Dtype::F64 || d == Dtype::I64) {
    return std::uint64_t{};
  } else if constexpr (d == Dtype::F32 || d == Dtype::TF32 || d == Dtype::I32) {
    return std::uint32_t{};
  } else if constexpr (d == Dtype::BF16 || d == Dtype::F16 || d == Dtype::I16) {
    return std::uint16_t{};
  } else {
    return std::uint8_t{};
  }
}

template <Dtype kDtype>
std::uint64_t code_at(const std::byte* bytes, std::int64_t index) {
  if constexpr (kDtype == Dtype::E2M1) {
    return (static_cast<unsigned>(bytes[index / 2]) >> (index % 2 == 0 ? 0 : 4)) & 0xFu;
  } else {
    decltype(storage<kDtype>()) code;
    std::memcpy(&code, bytes + index * static_cast<std::int64_t>(sizeof(code)), sizeof(code));
    return code;
  }
}

// What the codes of up to a byte mean.
struct Meaning {
  double value = 0;
  std::int64_t rank = 0;
};
template <Dtype kDtype>
const Meaning& meaning_of(std::uint64_t code) {
  static const auto table = [] {
    std::array<Meaning, 256> all;
    for (std::uint64_t c = 0; c < all.size(); ++c)
      all[c] = {decode(kDtype, c), ulp_rank(kDtype, c)};
    return all;
  }();
  return table[code];
}

template <Dtype kDtype>
double value_of(std::uint64_t code) {
  if constexpr (kDtype == Dtype::F64) {
    return std::bit_cast<double>(code);
  } else if constexpr (kDtype == Dtype::F32 || kDtype == Dtype::TF32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(code)));
  } else if constexpr (kDtype == Dtype::BF16) {
    return static_cast<double>(float_from_bf16(static_cast<std::uint16_t>(code)));
  } else if constexpr (kDtype == Dtype::F16) {
    return static_cast<double>(float_from_f16(static_cast<std::uint16_t>(code)));
  } else if constexpr (sizeof(storage<kDtype>()) == 1) {
    return meaning_of<kDtype>(code).value;
  } else {
    return decode(kDtype, code);
  }
}

template <Dtype kDtype>
std::int64_t rank_of(std::uint64_t code) {
  using Code = decltype(storage<kDtype>());
  if constexpr (sizeof(Code) == 1) {
    return meaning_of<kDtype>(code).rank;
  } else if constexpr (kDtype == Dtype::F64 || kDtype == Dtype::F32 || kDtype == Dtype::BF16 ||
                       kDtype == Dtype::F16) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << (8 * sizeof(Code) - 1);
    const auto magnitude = static_cast<std::int64_t>(code & (kSign - 1));
    return (code & kSign) != 0 ? -magnitude : magnitude;
  } else {
    return ulp_rank(kDtype, code);
  }
}

template <class T>
void count(std::int64_t& counter, T condition) {
  counter += static_cast<std::int64_t>(condition);
}

template <Dtype kDtype>
BlockSums block(const std::byte* want, const std::byte* got, std::int64_t first, int elements,
                Tally& tally) {
  PairStats& s = tally.stats;
  LaneSums lanes;
  for (int i = 0; i < elements; ++i) {
    const std::uint64_t code_a = code_at<kDtype>(want, first + i);
    const std::uint64_t code_b = code_at<kDtype>(got, first + i);
    const double a = value_of<kDtype>(code_a);
    const double b = value_of<kDtype>(code_b);
    count(s.differing, code_a != code_b);
    count(s.zero_a, a == 0);
    count(s.zero_b, b == 0);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      count(s.nan_a, std::isnan(a));
      count(s.nan_b, std::isnan(b));
      count(s.inf_a, std::isinf(a));
      count(s.inf_b, std::isinf(b));
      count(s.mismatched_nonfinite, !(a == b || (std::isnan(a) && std::isnan(b))));
      continue;
    }
    ++s.finite_pairs;
    count(s.want_zero_got_nonzero, a == 0 && b != 0);

    const double diff = b - a;
    const double abs_diff = std::fabs(diff);
    const int lane = i % kLanes;
    lanes.sq_diff[lane] += diff * diff;
    lanes.sq_a[lane] += a * a;
    lanes.sq_b[lane] += b * b;
    lanes.dot[lane] += a * b;
    lanes.diff[lane] += diff;
    lanes.abs_diff[lane] += abs_diff;
    if (abs_diff > s.max_abs) {
      s.max_abs = abs_diff;
      s.worst_index = first + i;
    }
    if (a != 0) {
      const double relative = abs_diff / std::fabs(a);
      if (relative > s.max_rel) s.max_rel = relative;
    }

    const std::int64_t rank_a = rank_of<kDtype>(code_a);
    const std::int64_t rank_b = rank_of<kDtype>(code_b);
    const bool above = rank_b > rank_a;
    const std::uint64_t distance =
        above ? static_cast<std::uint64_t>(rank_b) - static_cast<std::uint64_t>(rank_a)
              : static_cast<std::uint64_t>(rank_a) - static_cast<std::uint64_t>(rank_b);
    const int bucket = log2_ulp_bucket(distance);
    ++s.log2_ulp_histogram[static_cast<std::size_t>(above ? kUlpCentre + bucket
                                                          : kUlpCentre - bucket)];
    tally.add_ulp(distance);
    constexpr auto kLargest = static_cast<std::uint64_t>(kUlpInfinite - 1);
    const auto bounded = static_cast<std::int64_t>(distance < kLargest ? distance : kLargest);
    if (bounded > s.max_ulp) s.max_ulp = bounded;
  }
  return fold(lanes);
}

}  // namespace

BlockFunction plain_block(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
      return block<Dtype::F64>;
    case Dtype::F32:
      return block<Dtype::F32>;
    case Dtype::TF32:
      return block<Dtype::TF32>;
    case Dtype::BF16:
      return block<Dtype::BF16>;
    case Dtype::F16:
      return block<Dtype::F16>;
    case Dtype::E4M3:
      return block<Dtype::E4M3>;
    case Dtype::E5M2:
      return block<Dtype::E5M2>;
    case Dtype::E8M0:
      return block<Dtype::E8M0>;
    case Dtype::E3M2:
      return block<Dtype::E3M2>;
    case Dtype::E2M3:
      return block<Dtype::E2M3>;
    case Dtype::E2M1:
      return block<Dtype::E2M1>;
    case Dtype::I64:
      return block<Dtype::I64>;
    case Dtype::I32:
      return block<Dtype::I32>;
    case Dtype::I16:
      return block<Dtype::I16>;
    case Dtype::I8:
      return block<Dtype::I8>;
    case Dtype::U8:
      return block<Dtype::U8>;
    case Dtype::Bool:
      return block<Dtype::Bool>;
  }
  return nullptr;
}

void Tally::add_ulp(std::uint64_t distance) {
  ulp_low += distance;
  ulp_high += static_cast<std::uint64_t>(ulp_low < distance);
}

void BitCounter::add(const Ones& ones, std::int64_t weight) {
  const auto count = [weight](const BitVector& vector, std::int64_t(&places)[32]) {
    for (std::uint32_t word : vector.word) {
      for (; word != 0; word &= word - 1) places[std::countr_zero(word)] += weight;
    }
  };
  count(ones.all, all);
  count(ones.above, above);
}

void BitCounter::empty_stages() {
  std::int64_t weight = 1;
  for (Stage& stage : stages) {
    for (int k = 0; k < 3; ++k) add(stage.planes[k], weight << k);
    for (int i = 0; i < stage.size; ++i) add(stage.waiting[i], weight);
    stage = {};
    weight *= 8;
  }
}

BlockSums fold(const LaneSums& lanes) {
  const auto sum = [](const double(&lane)[kLanes]) {
    double work[kLanes];
    for (int i = 0; i < kLanes; ++i) work[i] = lane[i];
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) work[i] += work[i + width];
    }
    return work[0];
  };
  return {.sq_diff = sum(lanes.sq_diff),
          .sq_a = sum(lanes.sq_a),
          .sq_b = sum(lanes.sq_b),
          .dot = sum(lanes.dot),
          .diff = sum(lanes.diff),
          .abs_diff = sum(lanes.abs_diff)};
}

}  // namespace parity::pair_detail
