#include "harness/shape.hpp"

#include <algorithm>
#include <cctype>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity {

std::int64_t elements(const std::vector<Dim>& dims) {
  std::int64_t product = 1;
  for (const Dim& dim : dims) product *= dim.extent;
  return product;
}

std::vector<std::int64_t> coordinates(const std::vector<Dim>& dims, std::int64_t flat) {
  std::vector<std::int64_t> index(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const std::int64_t extent = std::max<std::int64_t>(dims[axis].extent, 1);
    index[axis] = flat % extent;
    flat /= extent;
  }
  return index;
}

std::string letters(const std::vector<Dim>& dims, std::int64_t flat) {
  const std::vector<std::int64_t> index = coordinates(dims, flat);
  std::string text;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis > 0) text += ',';
    for (const char c : dims[axis].name)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    text += '=' + std::to_string(index[axis]);
  }
  return text;
}

Sizes Sizes::parse(std::string_view text) {
  Sizes sizes;
  for (const std::string& part : split(text, ',')) {
    const std::size_t digits = part.find_first_of("0123456789");
    const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
    if (digits == 0 || digits == std::string::npos ||
        !std::ranges::all_of(part.substr(0, digits), is_letter))
      throw UsageError("sizes: '" + part +
                       "' is not a name and an extent, as in 'T128' or 'T3+0+5'");
    Size size{.name = part.substr(0, digits)};
    std::string_view lengths = std::string_view(part).substr(digits);
    const bool packed = lengths.find('+') != std::string_view::npos;
    if (lengths.ends_with('+')) lengths.remove_suffix(1);
    for (const std::string& length : split(lengths, '+')) {
      const std::int64_t value = to_integer(length, "sizes: " + size.name);
      size.parts.push_back(value);
      size.extent += value;
    }
    if (!packed) size.parts.clear();
    if (sizes.find(size.name)) throw UsageError("sizes: '" + size.name + "' is given twice");
    sizes.list_.push_back(std::move(size));
  }
  return sizes;
}

std::string Sizes::str() const {
  std::string text;
  for (const Size& size : list_) {
    if (!text.empty()) text += ',';
    text += size.name;
    if (size.parts.empty()) text += std::to_string(size.extent);
    for (std::size_t i = 0; i < size.parts.size(); ++i)
      text += (i > 0 ? "+" : "") + std::to_string(size.parts[i]);
    if (size.parts.size() == 1) text += "+";  // a packed batch of one sequence stays packed
  }
  return text;
}

const Size* Sizes::find(std::string_view name) const {
  const auto it = std::ranges::find(list_, name, &Size::name);
  return it == list_.end() ? nullptr : &*it;
}

std::int64_t Sizes::operator[](std::string_view name) const {
  const Size* size = find(name);
  if (!size) throw Failure("no size '" + std::string(name) + "' in '" + str() + "'");
  return size->extent;
}

std::int64_t Sizes::get(std::string_view name, std::int64_t otherwise) const {
  const Size* size = find(name);
  return size ? size->extent : otherwise;
}

void Sizes::set(Size size) {
  const auto it = std::ranges::find(list_, size.name, &Size::name);
  if (it == list_.end())
    list_.push_back(std::move(size));
  else
    *it = std::move(size);
}

}  // namespace parity
