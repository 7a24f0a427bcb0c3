// The pickle of a file of weights. It is read by a machine that knows the opcodes of protocols 2 to
// 5 that weights need (Python, Lib/pickletools.py) and builds nodes; what a pickle calls is
// compared with a short list and never called.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::io {

struct PickleNode {
  enum class Kind { Other, Mark, Int, Text, Global, Tuple, List, Dict, Storage, Tensor };
  Kind kind = Kind::Other;
  std::int64_t number = 0;
  std::string text = {};  // of a global: "module name"; of a storage: its key
  Dtype dtype = Dtype::U8;
  std::vector<PickleNode*> items = {};  // of a dictionary: key, value, key, value, ...
};

struct PickleTree {
  const PickleNode* root = nullptr;
  std::vector<std::unique_ptr<PickleNode>> nodes = {};  // may refer to one another in circles
};

// A tensor's items are its storage, offset, sizes and strides. UsageError, which begins with
// `where`, for anything else than weights.
PickleTree read_pickle(const std::string& bytes, const std::string& where);

inline constexpr std::size_t kMostPickleNodes = 5'000'000;

}  // namespace parity::io
