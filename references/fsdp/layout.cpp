#include "references/fsdp/layout.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "harness/failure.hpp"

namespace parity::fsdp {
namespace {

struct Module {
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children = {};
  std::vector<std::size_t> own = {};

  Module& child(const std::string& name) {
    for (auto& [known, module] : children)
      if (known == name) return *module;
    children.emplace_back(name, std::make_unique<Module>());
    return *children.back().second;
  }
  void visit(std::vector<std::size_t>& order) const {
    for (const auto& [name, module] : children) module->visit(order);
    order.insert(order.end(), own.begin(), own.end());
  }
};

bool inside(const std::string& name, const std::string& module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

std::string owner_of(const std::string& name, const std::vector<UnitSpec>& units) {
  for (const UnitSpec& unit : units)
    for (const std::string& module : unit.modules)
      if (inside(name, module)) return unit.name;
  return "root";
}

void check(const Parameter& p, int ranks) {
  if (p.shape.empty())
    throw UsageError(fmt::format(
        "parameter {} has no dimension: a scalar cannot be sharded; give it the shape [1]",
        p.name));
  const auto dim = static_cast<std::size_t>(p.shard_dim);
  if (dim > 1 || dim >= p.shape.size())
    throw UsageError(fmt::format("parameter {} has no dimension {} to shard", p.name, p.shard_dim));
  if (dim == 1 && p.shape[1] % ranks != 0)
    throw UsageError(fmt::format("parameter {}: {} columns do not divide evenly over {} ranks",
                                 p.name, p.shape[1], ranks));
}

// Elements of one row along the sharded dimension.
std::int64_t row_elements(const Parameter& p) {
  const std::int64_t extent = p.shape[static_cast<std::size_t>(p.shard_dim)];
  if (extent > 0) return p.count() / extent;
  std::int64_t n = 1;
  for (std::size_t d = 0; d < p.shape.size(); ++d)
    if (d != static_cast<std::size_t>(p.shard_dim)) n *= p.shape[d];
  return n;
}

}  // namespace

std::int64_t Parameter::count() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

std::vector<std::size_t> post_order(const std::vector<std::string>& names) {
  Module root;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Module* at = &root;
    std::size_t begin = 0;
    for (std::size_t dot = names[i].find('.'); dot != std::string::npos;
         dot = names[i].find('.', begin)) {
      at = &at->child(names[i].substr(begin, dot - begin));
      begin = dot + 1;
    }
    at->own.push_back(i);
  }
  std::vector<std::size_t> order;
  root.visit(order);
  return order;
}

Layout::Layout(std::vector<Parameter> parameters, const std::vector<UnitSpec>& specs, int ranks)
    : parameters_(std::move(parameters)),
      unit_of_(parameters_.size()),
      order_(parameters_.size()),
      ranks_(ranks) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters_) {
    check(p, ranks);
    names.push_back(p.name);
  }
  units_.push_back({.name = "root"});
  for (const UnitSpec& spec : specs) units_.push_back({.name = spec.name});
  for (const std::size_t p : post_order(names)) {
    Unit& unit = *std::ranges::find(units_, owner_of(names[p], specs), &Unit::name);
    unit.members.push_back(p);
    unit.offset.push_back(unit.elements);
    unit.elements += shard_elements(p);
  }
  std::erase_if(units_, [](const Unit& unit) { return unit.members.empty(); });
  for (std::size_t u = 0; u < units_.size(); ++u)
    for (std::size_t i = 0; i < units_[u].members.size(); ++i) {
      const std::size_t p = units_[u].members[i], first = units_[u].members.front();
      unit_of_[p] = u;
      order_[p] = i;
      if (parameters_[p].original != parameters_[first].original)
        throw UsageError(
            fmt::format("unit {} holds {} in {} and {} in {}: one original dtype a unit",
                        units_[u].name, names[first], name(parameters_[first].original), names[p],
                        name(parameters_[p].original)));
    }
}

std::int64_t Layout::rows_padded(std::size_t p) const {
  const Parameter& q = parameters_[p];
  return (q.shape[static_cast<std::size_t>(q.shard_dim)] + ranks_ - 1) / ranks_;
}

std::int64_t Layout::rows_on(std::size_t p, int rank) const {
  const Parameter& q = parameters_[p];
  const std::int64_t rows = q.shape[static_cast<std::size_t>(q.shard_dim)], each = rows_padded(p);
  return std::clamp<std::int64_t>(rows - rank * each, 0, each);
}

std::int64_t Layout::shard_elements(std::size_t p) const {
  return rows_padded(p) * row_elements(parameters_[p]);
}

std::int64_t Layout::local_elements(std::size_t p, int rank) const {
  return rows_on(p, rank) * row_elements(parameters_[p]);
}

std::vector<float> Layout::shard(std::size_t p, std::span<const float> whole, int rank) const {
  const Parameter& q = parameters_[p];
  if (q.shard_dim == 0) {
    const auto begin =
        std::min<std::size_t>(whole.size(), static_cast<std::size_t>(rank * shard_elements(p)));
    const auto part = whole.subspan(begin, static_cast<std::size_t>(local_elements(p, rank)));
    return {part.begin(), part.end()};
  }
  // Columns [rank * w, ...) of every row, dense; further dimensions are part of a column.
  const std::int64_t inner = q.count() / (q.shape[0] * q.shape[1]);
  const std::int64_t width = rows_padded(p) * inner, stride = q.shape[1] * inner;
  std::vector<float> out;
  for (std::int64_t r = 0; r < q.shape[0]; ++r) {
    const auto row = whole.subspan(static_cast<std::size_t>(r * stride + rank * width),
                                   static_cast<std::size_t>(width));
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

std::vector<float> Layout::padded_shard(std::size_t p, std::span<const float> whole,
                                        int rank) const {
  std::vector<float> out = shard(p, whole, rank);
  out.resize(static_cast<std::size_t>(shard_elements(p)), 0.f);
  return out;
}

std::vector<float> Layout::merge(std::size_t p,
                                 const std::vector<std::span<const float>>& parts) const {
  const Parameter& q = parameters_[p];
  std::vector<float> whole(static_cast<std::size_t>(q.count()));
  if (q.shard_dim == 0) {
    auto to = whole.begin();
    for (int r = 0; r < ranks_; ++r)
      to = std::copy_n(parts[static_cast<std::size_t>(r)].begin(), local_elements(p, r), to);
    return whole;
  }
  const std::int64_t inner = q.count() / (q.shape[0] * q.shape[1]);
  const std::int64_t width = rows_padded(p) * inner, stride = q.shape[1] * inner;
  for (int r = 0; r < ranks_; ++r)
    for (std::int64_t row = 0; row < q.shape[0]; ++row)
      std::copy_n(parts[static_cast<std::size_t>(r)].begin() + row * width, width,
                  whole.begin() + row * stride + r * width);
  return whole;
}

std::string Layout::placement(std::size_t p) const {
  return fmt::format("Shard({})", parameters_[p].shard_dim);
}

}  // namespace parity::fsdp
