// A dense row-major array of one evaluation: [rows..., width]. Nothing more than its numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace parity::net {

template <class T>
struct Array {
  std::vector<std::int64_t> shape = {};
  std::vector<T> data = {};

  Array() = default;
  explicit Array(std::vector<std::int64_t> extents) : shape(std::move(extents)) {
    data.resize(static_cast<std::size_t>(count()));
  }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }
  std::int64_t width() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const { return width() == 0 ? 0 : count() / width(); }
  std::span<T> row(std::int64_t r) {
    const auto w = static_cast<std::size_t>(width());
    return std::span(data).subspan(static_cast<std::size_t>(r) * w, w);
  }
  std::span<const T> row(std::int64_t r) const {
    const auto w = static_cast<std::size_t>(width());
    return std::span(data).subspan(static_cast<std::size_t>(r) * w, w);
  }
  T& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  const T& operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
  // The same numbers under other extents, whose product must be the same.
  Array as(std::vector<std::int64_t> extents) const {
    Array other;
    other.shape = std::move(extents);
    other.data = data;
    return other;
  }
};

}  // namespace parity::net
