#include "harness/cli/train_text.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "harness/numeric/philox.hpp"

namespace parity::cli {
namespace {

constexpr std::int64_t kWords = 256, kFollowers = 8;
constexpr std::array<std::string_view, 16> kSyllables = {"ba", "ko",  "mi",  "ten", "ra",  "so",
                                                         "lu", "ver", "da",  "ni",  "pol", "ga",
                                                         "te", "ru",  "sha", "e"};

std::string word(std::int64_t number) {
  const Rng rng{.seed = 0x776F7264, .stream = static_cast<std::uint64_t>(number)};
  std::string text;
  for (std::int64_t i = 0, n = rng.integer(0, 1, 3); i < n; ++i)
    text += kSyllables[static_cast<std::size_t>(
        rng.integer(static_cast<std::uint64_t>(i + 1), 0, std::ssize(kSyllables) - 1))];
  return text;
}

}  // namespace

std::vector<std::int64_t> made_text(std::uint64_t seed, std::int64_t index, std::int64_t length) {
  const Rng rng = Rng{.seed = seed, .stream = 0x74657874}.split(static_cast<std::uint64_t>(index));
  const std::int64_t end = rng.integer(0, length / 2, 2 * length);  // half of the documents are cut
  std::vector<std::int64_t> tokens;
  std::int64_t now = rng.integer(1, 0, kWords - 1);
  for (std::uint64_t draw = 2; std::ssize(tokens) <= length; ++draw) {
    for (const char c : word(now) + " ")
      if (std::ssize(tokens) <= length)
        tokens.push_back(std::ssize(tokens) < end ? static_cast<unsigned char>(c) : -1);
    // Of the followers the first is the likeliest: the least of two draws.
    const std::int64_t follower = std::min(rng.integer(2 * draw, 0, kFollowers - 1),
                                           rng.integer(2 * draw + 1, 0, kFollowers - 1));
    const Rng next{.seed = 0x666F6C6C, .stream = static_cast<std::uint64_t>(now)};
    now = next.integer(static_cast<std::uint64_t>(follower), 0, kWords - 1);
  }
  return tokens;
}

}  // namespace parity::cli
