#include "golden/slice.hpp"

#include <charconv>
#include <vector>

#include "harness/failure.hpp"

namespace parity::golden {
namespace {

struct Range {
  std::int64_t begin = 0, end = 0;
  bool index = false;  // its axis goes
};

[[noreturn]] void misfit(std::string_view path) {
  throw GoldenError("'" + std::string(path) +
                    "' names a part that the stored tensor does not have");
}

std::int64_t number(std::string_view text, std::string_view path) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) misfit(path);
  return value;
}

std::vector<Range> ranges_of(std::string_view path) {
  std::vector<Range> ranges;
  const std::size_t open = path.find('[');
  if (open == std::string_view::npos) return ranges;
  if (path.back() != ']') misfit(path);
  std::string_view rest = path.substr(open + 1, path.size() - open - 2);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) {
      const std::int64_t at = number(item, path);
      ranges.push_back({at, at + 1, true});
    } else {
      ranges.push_back({number(item.substr(0, colon), path), number(item.substr(colon + 1), path)});
    }
  }
  return ranges;
}

}  // namespace

std::string_view whole_path(std::string_view path) { return path.substr(0, path.find('[')); }

Tensor part_of(Tensor whole, std::string_view path) {
  const std::vector<Range> ranges = ranges_of(path);
  if (ranges.empty()) return whole;
  std::vector<Dim>& dims = whole.spec.dims;
  if (ranges.size() > dims.size()) misfit(path);
  // Innermost axis first, so that what lies behind an axis is dense already.
  for (std::size_t axis = ranges.size(); axis-- > 0;) {
    const Range& range = ranges[axis];
    if (range.begin < 0 || range.begin > range.end || range.end > dims[axis].extent) misfit(path);
    std::int64_t outer = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= dims[i].extent;
    const auto total = static_cast<std::int64_t>(whole.bytes.size());
    const std::int64_t slab = outer == 0 || dims[axis].extent == 0 ? 0 : total / outer;
    const std::int64_t step = dims[axis].extent == 0 ? 0 : slab / dims[axis].extent;
    std::vector<std::byte> kept;
    for (std::int64_t o = 0; o < outer; ++o) {
      const auto from = whole.bytes.begin() + o * slab;
      kept.insert(kept.end(), from + range.begin * step, from + range.end * step);
    }
    whole.bytes = std::move(kept);
    dims[axis].extent = range.end - range.begin;
  }
  for (std::size_t axis = ranges.size(); axis-- > 0;)
    if (ranges[axis].index) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return whole;
}

}  // namespace parity::golden
