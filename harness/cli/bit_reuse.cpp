#include "harness/cli/bit_reuse.hpp"

#include <cstring>
#include <unordered_map>
#include <utility>

namespace parity::cli {
namespace {

constexpr std::int64_t kWord = 4;
constexpr std::int64_t kWindow = 16;  // 128 bits: a block of Philox

struct Window {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Window&) const = default;
};
struct Hash {
  std::size_t operator()(const Window& w) const {
    return (w.low ^ w.high >> 29) * 0x9E3779B97F4A7C15 ^ w.high;
  }
};
struct Place {
  std::size_t tensor = 0;
  std::int64_t at = 0;
};

Window window_at(const NamedBits& bits, std::int64_t at) {
  Window w;
  std::memcpy(&w.low, bits.bytes.data() + at, 8);
  std::memcpy(&w.high, bits.bytes.data() + at + 8, 8);
  return w;
}

// Whether this place continues the run.
bool continues(const Reuse& run, const Place& first, const Place& second) {
  const std::int64_t next = run.bytes - kWindow + kWord;
  return run.a == first.tensor && run.b == second.tensor && run.at_a + next == first.at &&
         run.at_b + next == second.at;
}

}  // namespace

std::vector<Reuse> reused(std::span<const NamedBits> list) {
  std::vector<Reuse> runs;
  std::unordered_map<Window, Place, Hash> seen;
  for (std::size_t t = 0; t < list.size(); ++t) {
    bool open = false;  // whether the last run may go on
    for (std::int64_t at = 0; at + kWindow <= std::ssize(list[t].bytes); at += kWord) {
      const auto [known, fresh] = seen.try_emplace(window_at(list[t], at), Place{t, at});
      if (fresh) {
        open = false;
        continue;
      }
      const Place here{t, at};
      if (open && continues(runs.back(), known->second, here)) {
        runs.back().bytes += kWord;
      } else {
        runs.push_back({.a = known->second.tensor,
                        .b = t,
                        .at_a = known->second.at,
                        .at_b = at,
                        .bytes = kWindow});
      }
      open = true;
    }
  }
  return runs;
}

}  // namespace parity::cli
