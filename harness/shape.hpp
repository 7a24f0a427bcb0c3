// Extents by name.
//   Sizes   what an id prints: "B2,T3+0+1021,HV8"; a size written with '+' is a packed batch of
//   sequences Dim     one axis of one tensor: its letter and its extent
//
// Letters: B batch, T query positions, S key positions, H query (or key) heads, HV value heads, G
// kv heads, D head dim or model width, K key dim, V value dim or vocabulary, C channels, F
// feed-forward, E experts, L layers, N rows or sequences, W taps of a convolution, R ranks; M N K
// for a GEMM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parity {

struct Dim {
  std::string name = {};
  std::int64_t extent = 0;
  bool operator==(const Dim&) const = default;
};

// Number of elements; the empty product is 1 (a scalar).
std::int64_t elements(const std::vector<Dim>& dims);

// Coordinates of a flat row-major index: "b=0,t=63,h=1,v=17".
std::string letters(const std::vector<Dim>& dims, std::int64_t flat);
std::vector<std::int64_t> coordinates(const std::vector<Dim>& dims, std::int64_t flat);

struct Size {
  std::string name = {};
  std::int64_t extent = 0;               // the sum of parts
  std::vector<std::int64_t> parts = {};  // lengths of packed sequences; empty: not packed
  bool operator==(const Size&) const = default;
};

class Sizes {
 public:
  Sizes() = default;
  Sizes(std::initializer_list<Size> list) : list_(list) {}
  // "B2,T3+0+1021,HV8". Throws Failure naming the part that cannot be read.
  static Sizes parse(std::string_view text);
  std::string str() const;

  std::int64_t operator[](std::string_view name) const;  // throws Failure if absent
  std::int64_t get(std::string_view name, std::int64_t otherwise) const;
  const Size* find(std::string_view name) const;
  void set(Size size);  // replaces or appends
  const std::vector<Size>& list() const { return list_; }
  bool operator==(const Sizes&) const = default;

 private:
  std::vector<Size> list_ = {};
};

}  // namespace parity
