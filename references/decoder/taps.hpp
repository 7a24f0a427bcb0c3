// What the passes of a decoder have in common: positions, intermediates as "tap/layer<i>.<what>",
// experts without a token.
#pragma once

#include <string>

#include "references/blocks/decoder.hpp"
#include "references/blocks/rope.hpp"

namespace parity::net {

template <class T>
Turns<T> turns_of(Run<T>&, const Decoder&);
template <class T>
void put_taps(Run<T>&, const DecoderForward<T>&, const std::string& at);
template <class T>
void put_tap_gradients(Run<T>&, const DecoderForward<T>&, const DecoderGradients<T>&,
                       const std::string& at);
// An expert without a token: a gradient of zero, unless the source's loop never reaches it
// (empty=none).
template <class T>
void settle_empty(Run<T>&, const DecoderForward<T>&);

}  // namespace parity::net
