// Every call of a collective as data, rank by rank: two traces are compared call by call, and the
// first difference names rank, step, unit and parameter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/dist/order.hpp"

namespace parity::dist {

struct Call {
  std::string op = {};           // "all_gather", "reduce_scatter", "all_reduce", "broadcast"
  std::string unit = "-";        // parameter group
  std::string parameter = {};    // its first parameter
  std::string phase = "-";       // "forward", "backward", "clip"
  int step = 0, micro = 0;       // optimiser step from 1, microbatch from 0
  Dtype dtype = Dtype::F32;      // on the wire
  std::int64_t in = 0, out = 0;  // elements that a rank gives and gets
  std::string reduce = "-";      // "sum", "avg", "max"
  Order order = Order::Rank;     // of a reduction
  int group = 1;                 // ranks that take part
  bool operator==(const Call&) const = default;
  std::int64_t bytes() const { return in * itemsize(dtype); }  // that a rank gives
};
// "1 0 backward reduce_scatter blocks.2 417 139 float32 avg 3": step, micro, phase, op, unit,
// elements in, elements out, dtype, reduction, ranks of the group.
std::string line(const Call&);
std::string sentence(const Call&);  // for people: where and what

struct Trace {
  int rank = 0;
  std::vector<Call> calls = {};
};
// Empty where all traces are the same; else a sentence about the first call in which one differs
// from the first trace.
std::string first_difference(std::span<const Trace>);

}  // namespace parity::dist
