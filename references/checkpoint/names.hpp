// State-dict names of the released checkpoint, which are the ones in use here, and those of
// torchtitan. Both ways, without loss: to and back is the same name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "references/checkpoint/inventory.hpp"

namespace parity::checkpoint {

// One tensor there is part `part` of `parts` equal runs of rows of one here: the vision tower's
// fused wqkv is three there. The name is without "language_model.".
struct ReleasedName {
  std::string name = {};
  int part = 0, parts = 1;
  bool operator==(const ReleasedName&) const = default;
};

// "self_attn.g_proj" and "self_attn.o_proj" stand for different things in KDA and in MLA layers, so
// the sizes are needed. With or without "language_model."; packed experts go by their ".weight".
// Empty: no such name in such a model.
std::vector<std::string> torchtitan_names(const ModelSizes&, std::string_view released);
std::optional<ReleasedName> released_name(std::string_view torchtitan);

bool is_torchtitan(std::string_view name);

}  // namespace parity::checkpoint
