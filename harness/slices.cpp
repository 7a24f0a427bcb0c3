#include "harness/slices.hpp"

#include <cctype>
#include <utility>

namespace parity {
namespace {

constexpr std::int64_t kBlocks[] = {16, 64};

std::string letter(const Dim& dim) {
  std::string text = dim.name;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::int64_t lines_of(const Slicing& s, const Grain& g) {
  return s.over_columns ? g.columns : g.rows;
}

void finish(Slicing& s, const Grain& g) {
  const std::int64_t blocks = (s.extent + s.block - 1) / s.block;
  const std::int64_t lines = lines_of(s, g);
  s.count = s.apart ? lines / s.extent * blocks : blocks;
  const std::int64_t share = s.apart ? s.block : lines / s.extent * s.block;
  s.elements = share * (s.over_columns ? g.rows : g.columns);
}

std::string span_text(const Dim& dim, std::int64_t first, std::int64_t size) {
  const std::int64_t last = std::min(first + size, dim.extent) - 1;
  std::string text = letter(dim) + "=" + std::to_string(first);
  return last > first ? text + ".." + std::to_string(last) : text;
}

}  // namespace

Grain grain(const std::vector<Dim>& dims) {
  Grain g;
  if (dims.empty()) return g;
  g.columns = dims.back().extent;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) g.rows *= dims[i].extent;
  return g;
}

std::vector<Slicing> slicings(const std::vector<Dim>& dims) {
  std::vector<Slicing> list;
  if (dims.empty() || elements(dims) == 0) return list;
  const Grain g = grain(dims);
  const auto add = [&](Slicing s) {
    finish(s, g);
    if (s.count > 1) list.push_back(std::move(s));
  };
  std::int64_t stride = g.rows;
  int long_axes = 0;
  std::string names;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    stride /= dims[i].extent;
    if (dims[i].extent == 1) continue;
    ++long_axes;
    names += (names.empty() ? "" : ",") + letter(dims[i]);
    add({.axis = letter(dims[i]), .stride = stride, .extent = dims[i].extent});
  }
  if (long_axes > 1) add({.axis = names, .stride = 1, .extent = g.rows});
  stride = g.rows;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    stride /= dims[i].extent;
    for (const std::int64_t block : kBlocks) {
      if (dims[i].extent <= block) continue;
      std::string text = letter(dims[i]) + "/" + std::to_string(block);
      for (std::size_t j = 0; j + 1 < dims.size(); ++j)
        if (j != i && dims[j].extent > 1) text += "," + letter(dims[j]);
      add({.axis = text,
           .stride = stride,
           .extent = dims[i].extent,
           .block = block,
           .apart = true});
    }
  }
  const Dim& last = dims.back();
  add({.axis = letter(last), .over_columns = true, .extent = g.columns});
  for (const std::int64_t block : kBlocks)
    if (g.columns > block)
      add({.axis = letter(last) + "/" + std::to_string(block),
           .over_columns = true,
           .extent = g.columns,
           .block = block});
  return list;
}

std::string describe(const Slicing& s, const std::vector<Dim>& dims, std::int64_t region) {
  if (s.over_columns) return span_text(dims.back(), region * s.block, s.block);
  if (s.extent == grain(dims).rows && s.block == 1 && !s.apart && s.stride == 1) {
    std::vector<Dim> leading(dims.begin(), dims.end() - 1);
    std::erase_if(leading, [](const Dim& d) { return d.extent == 1; });
    return letters(leading, region);
  }
  std::int64_t line = region * s.block * s.stride;  // its first
  if (s.apart) {
    const std::int64_t blocks = (s.extent + s.block - 1) / s.block;
    const std::int64_t outer = region / s.stride / blocks, at = region / s.stride % blocks;
    line = (outer * s.extent + at * s.block) * s.stride + region % s.stride;
  }
  std::string text;
  std::int64_t stride = grain(dims).rows;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    stride /= dims[i].extent;
    const bool mine = stride == s.stride && dims[i].extent == s.extent;
    if (dims[i].extent == 1 || (!mine && !s.apart)) continue;
    const std::int64_t at = line / stride % dims[i].extent;
    text += (text.empty() ? "" : ",") + span_text(dims[i], at, mine ? s.block : 1);
  }
  return text;
}

std::vector<double> gather(const Slicing& s, const std::vector<double>& by_row,
                           const std::vector<double>& by_column) {
  const std::vector<double>& lines = s.over_columns ? by_column : by_row;
  std::vector<double> sums(static_cast<std::size_t>(s.count));
  for (std::size_t i = 0; i < lines.size(); ++i)
    sums[static_cast<std::size_t>(s.region(static_cast<std::int64_t>(i)))] += lines[i];
  return sums;
}

std::vector<double> population(const Slicing& s, const Grain& g) {
  const std::int64_t lines = lines_of(s, g);
  std::vector<double> counts(static_cast<std::size_t>(s.count));
  const auto each = static_cast<double>(s.over_columns ? g.rows : g.columns);
  for (std::int64_t i = 0; i < lines; ++i) counts[static_cast<std::size_t>(s.region(i))] += each;
  return counts;
}

}  // namespace parity
