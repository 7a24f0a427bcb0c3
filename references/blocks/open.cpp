#include "references/blocks/open.hpp"

#include <algorithm>

namespace parity::net {

void leave_open(Expected& expected, const std::vector<std::uint8_t>& open,
                std::initializer_list<std::string_view> settled) {
  if (std::ranges::count(open, std::uint8_t{1}) == 0) return;
  for (ExpectedTensor& tensor : expected.tensors) {
    if (std::ranges::count(settled, std::string_view(tensor.spec.name)) > 0) continue;
    const auto count = static_cast<std::size_t>(elements(tensor.spec.dims));
    const std::vector<Dim>& dims = tensor.spec.dims;
    const bool by_token = !dims.empty() && dims.front().name == "T" &&
                          static_cast<std::size_t>(dims.front().extent) == open.size();
    tensor.ignore.assign(count, 1);
    if (!by_token) continue;
    const std::size_t row = count / open.size();
    for (std::size_t i = 0; i < count; ++i) tensor.ignore[i] = open[i / row];
  }
}

}  // namespace parity::net
