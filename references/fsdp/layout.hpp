// Which element of which parameter lies where: parameter groups (units), shards of ceil(rows / W)
// rows a rank, and the flat buffers that collectives carry (k3.md §7.1).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::fsdp {

struct Parameter {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  int shard_dim = 0;
  Dtype original = Dtype::F32;
  std::int64_t count() const;
};

// A group of modules that is gathered, freed and reduced together.
struct UnitSpec {
  std::string name = {};
  std::vector<std::string> modules = {};  // "blocks.0"; parameters that none claims go to "root"
};

struct Unit {
  std::string name = {};
  std::vector<std::size_t> members = {};  // in the order of the buffer
  std::vector<std::int64_t> offset = {};  // of each member inside a rank's part
  std::int64_t elements = 0;              // of a rank's part, padding included
};

class Layout {
 public:
  // UsageError where a parameter has no dimension, a unit two original dtypes, or dimension 1 no
  // even division, as fully_shard refuses them.
  Layout(std::vector<Parameter>, const std::vector<UnitSpec>&, int ranks);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Unit>& units() const { return units_; }  // root first, empty ones left out
  int ranks() const { return ranks_; }
  std::size_t unit_of(std::size_t p) const { return unit_of_[p]; }
  std::size_t order_in_unit(std::size_t p) const { return order_[p]; }
  std::int64_t rows_padded(std::size_t p) const;  // of a shard, along the sharded dimension
  std::int64_t rows_on(std::size_t p, int rank) const;
  std::int64_t shard_elements(std::size_t p) const;            // padded
  std::int64_t local_elements(std::size_t p, int rank) const;  // without padding

  // A rank's part of a whole parameter, zeros in the padding; and without it.
  std::vector<float> padded_shard(std::size_t p, std::span<const float> whole, int rank) const;
  std::vector<float> shard(std::size_t p, std::span<const float> whole, int rank) const;
  // The whole from the ranks' parts (padding is not looked at).
  std::vector<float> merge(std::size_t p, const std::vector<std::span<const float>>& parts) const;
  std::string placement(std::size_t p) const;  // "Shard(0)"

 private:
  std::vector<Parameter> parameters_;
  std::vector<Unit> units_;
  std::vector<std::size_t> unit_of_, order_;
  int ranks_;
};

// Modules in post-order, children first: a parameter that a block holds itself comes after those of
// its children, although named_parameters() lists it before. Indices into `names`.
std::vector<std::size_t> post_order(const std::vector<std::string>& names);

}  // namespace parity::fsdp
