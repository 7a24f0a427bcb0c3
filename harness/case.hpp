// What is run: a case and its id, and the case sets that declare cases.
//   id   op/sizes/dtype/fill[/options]/sSEED[@kernel[options of the kernel]]      printed, accepted
//   back, stable
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/shape.hpp"
#include "harness/tensor.hpp"

namespace parity {

struct Rng;  // numeric/philox.hpp

enum class Lane : std::uint8_t {
  Smoke,
  Full,
  Sweep,
  Long
};  // Full contains Smoke; Sweep is Full with rotating seeds
enum class Check : std::uint8_t { Parity, Bitwise, Exact, Recording, Golden, Sharded, Drift };
enum class Direction : std::uint8_t { Forward, Backward, Both };
std::string_view name(Lane);
std::string_view name(Check);
std::string_view name(Direction);
Lane parse_lane(std::string_view);  // the three throw UsageError naming the nearest spelling
Check parse_check(std::string_view);
Direction parse_direction(std::string_view);

// Options of an op ("gate=lower_bound,l2norm=1") or of a kernel ("chunk=32"): sorted by name, so
// that an id is unique.
class Options {
 public:
  Options() = default;
  Options(std::initializer_list<std::pair<const std::string, std::string>> list) : map_(list) {}
  static Options parse(std::string_view text);  // "a=1,b=x"
  std::string str() const;
  std::string get(std::string_view name, std::string_view otherwise) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  bool flag(std::string_view name) const { return integer(name, 0) != 0; }
  void set(std::string_view name, std::string_view value) { map_[std::string(name)] = value; }
  bool empty() const { return map_.empty(); }
  const std::map<std::string, std::string>& map() const { return map_; }
  bool operator==(const Options&) const = default;

 private:
  std::map<std::string, std::string> map_ = {};
};

struct Case;

// One row (the last axis) of one tensor is drawn at a time. `rng` is keyed by (seed, tensor), so
// the draw of element i does not depend on what was drawn before it, nor on the thread that draws
// it. Only integers and IEEE + - * / sqrt may be used, so that the bits are the same on every
// machine.
struct RowDraw {
  const Case& problem;
  const TensorSpec& spec;
  std::int64_t row = 0;    // index of the row: flat index of its first element / row length
  std::int64_t first = 0;  // flat index of its first element
  const Rng& rng;
};

struct Fill {
  std::string_view name = {};
  std::string_view what = {};  // why it is there: what it tells apart
  void (*row)(const RowDraw&,
              std::span<double> out) = nullptr;  // rounded once to the storage format afterwards
  bool exact = false;  // an exact probe: the answer is exact in any order, so the bound is zero
                       // (check `exact`)
};

struct CaseSet;

struct Case {
  std::string op = {};
  Sizes sizes = {};
  Dtype dtype = Dtype::F32;
  std::string fill = {};
  Options options = {};
  std::uint64_t seed = 0;
  Check check = Check::Parity;
  Lane lane = Lane::Full;
  const CaseSet* set = nullptr;  // the set that declares it; null for an imported case
  std::string recorded = {};  // imported: "<file stem>:<case>", printed in place of sizes ... seed

  std::string id() const;  // without a kernel
};

struct ParsedId {
  Case problem = {};
  std::string kernel = {};
  Options kernel_options = {};
};
ParsedId parse_id(
    std::string_view id);  // parse . print = identity; throws UsageError naming the part
std::string print_id(const Case&, std::string_view kernel, const Options& kernel_options);
bool glob_match(std::string_view pattern,
                std::string_view text);  // '*' crosses '/', '?' is one character

struct Bound;
struct Contract;

// Declares cases: the product of sizes, dtypes, fills, options and seeds.
//   exempt   reason why mathematics makes this trivial candidate ("zeros", "copy", "mean",
//   "other_seed", "history") right
//            for this tensor of this case; empty: it must fail
struct CaseSet {
  std::string_view op = {};
  std::string_view what = {};
  Lane lane = Lane::Full;
  Check check = Check::Parity;
  std::vector<Sizes> sizes = {};
  std::vector<Dtype> dtypes = {};
  std::vector<Fill> fills = {};
  std::vector<Options> options = {{}};
  std::vector<std::uint64_t> seeds = {0};
  std::string_view kernels = "*";  // glob over kernels that run it
  Bound (*bound)(const Case&, const Contract&,
                 const TensorSpec&) = nullptr;  // null: the op's (BoundDef)
  std::string_view (*exempt)(const Case&, std::string_view tensor,
                             std::string_view trivial) = nullptr;
  double zero_share = 0.30;  // expected share of exact zeros above which a case is vacuous
  std::string_view zero_share_why = {};  // required where zero_share differs from 0.30
};

}  // namespace parity
