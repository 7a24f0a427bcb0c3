// A sharded run from elsewhere: a folder with one file a rank (rank_0.safetensors, rank_1.npz,
// ...), put together by placement. A single file is a run of one rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/io/tensor_file.hpp"

namespace parity::io {

struct RankFiles {
  fs::path path = {};
  std::vector<TensorFile> ranks = {};                 // by number, none missing
  std::vector<std::vector<std::string>> traces = {};  // rank_K.trace, lines; empty: none
  std::vector<std::string> names() const;             // of all ranks, in the order of the first
};
RankFiles open_ranks(const fs::path&);

struct Merged {
  Tensor whole = {};
  std::string placement = {};             // "Shard(0)", "Replicate", "Whole" (one rank)
  int dim = 0;                            // that is sharded
  std::vector<std::int64_t> begins = {};  // first row of each rank along it, and the end
  std::string trouble =
      {};  // replicas that are not equal, ranks that lack it; "" where all is well
};
// The ranks' parts of one tensor. With a wanted shape: equal to it, a replica; else the dimension
// along which the parts add up to it, padding at the end left out. Without: replicas where all are
// equal to the bit, else parts along dimension 0.
Merged merge(const RankFiles&, const std::string& name,
             const std::optional<std::vector<std::int64_t>>& shape);

}  // namespace parity::io
