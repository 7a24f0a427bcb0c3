// The text that `parity train` learns: sentences of a small language that is made here, as bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace parity::cli {

// Tokens of sequence `index` under a seed, length + 1 of them; a document that ends early is
// followed by -1. A word is followed by one of eight that depend on it, so that there is something
// to learn.
std::vector<std::int64_t> made_text(std::uint64_t seed, std::int64_t index, std::int64_t length);

}  // namespace parity::cli
