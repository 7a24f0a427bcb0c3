// Long text made small enough to travel inside a page.
#pragma once

#include <string>
#include <string_view>

namespace parity::reports {

// gzip (RFC 1952) in base64 (RFC 4648): what a browser's DecompressionStream('gzip') takes.
std::string packed(std::string_view text);

}  // namespace parity::reports
