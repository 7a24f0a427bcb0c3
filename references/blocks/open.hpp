// What a choice within the noise leaves open: everything of that token, and every sum over tokens
// that it enters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "harness/bound.hpp"

namespace parity::net {

// f32 beside narrow storage.
inline Dtype wide_of(Dtype storage) { return storage == Dtype::F64 ? Dtype::F64 : Dtype::F32; }

// open[t] = 1: token t may be routed otherwise. Tensors whose first axis is that of the tokens
// ("T") have its rows left open, the others are left open whole; `settled` do not depend on the
// choice.
void leave_open(Expected&, const std::vector<std::uint8_t>& open,
                std::initializer_list<std::string_view> settled);

}  // namespace parity::net
