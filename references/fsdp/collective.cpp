// collective: sums over ranks in a stated order, as reduce-scatter and all-reduce make them.
//   in   x [T,R,N]             T trials; rank r gives a buffer of N = R M elements
//   out  reduce_scatter_sum, reduce_scatter_avg [T,R,M]; all_reduce_sum [T,N]
//   options  order=gloo|rank|ring|halving|doubling|tree
// Every addition is rounded to the case's dtype, and the average is the sum, then one true
// division: results are compared bit for bit. A stored case may name how its input is made, and
// keep digests.
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "harness/failure.hpp"
#include "harness/registry.hpp"
#include "references/fsdp/bits.hpp"
#include "references/fsdp/ranks.hpp"
#include "references/fsdp/sha256.hpp"

namespace parity::fsdp {
namespace {

using dist::rounded;

struct Extents {
  std::int64_t T = 1, R = 1, M = 1;
  std::size_t N() const { return static_cast<std::size_t>(R * M); }
};
Extents extents(const Case& c) { return {c.sizes["T"], c.sizes["R"], c.sizes["M"]}; }
bool digests(const Case& c) { return c.options.flag("digest"); }

std::vector<TensorSpec> inputs(const Case& c) {
  const auto [T, R, M] = extents(c);
  return {{.name = "x", .dtype = c.dtype, .dims = {{"T", T}, {"R", R}, {"N", R * M}}}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const auto [T, R, M] = extents(c);
  std::vector<TensorSpec> specs;
  for (const char* name : {"reduce_scatter_sum", "reduce_scatter_avg"})
    specs.push_back({.name = name,
                     .role = Role::Output,
                     .dtype = c.dtype,
                     .dims = {{"T", T}, {"R", R}, {"M", M}}});
  specs.push_back({.name = "all_reduce_sum",
                   .role = Role::Output,
                   .dtype = c.dtype,
                   .dims = {{"T", T}, {"N", R * M}}});
  return specs;
}

std::string refuses(const Case& c) {
  for (const char* size : {"T", "R", "M"})
    if (c.sizes.find(size) == nullptr || c.sizes[size] < 1)
      return "sizes are T trials, R ranks and M elements of a rank's part";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16 && c.dtype != Dtype::F16)
    return "the wire carries f32, bf16 and f16";
  return "";
}

// What went wrong, of the table of faults below, in terms of an order and a rounding.
struct Defect {
  dist::Order order = dist::Order::Gloo;
  bool reversed = false, wide = false, inverse = false, before = false;
};
Defect defect_of(const Case& c, std::string_view fault) {
  Defect d{.order = dist::parse_order(c.options.get("order", "gloo"))};
  d.reversed = fault == "P-coll-ring-up";
  d.wide = fault == "P-coll-wide-sum";
  d.inverse = fault == "P-coll-inverse";
  d.before = fault == "P-coll-divides-before";
  if (fault == "P-coll-rank-order") d.order = dist::Order::Rank;
  return d;
}

struct Sums {
  std::vector<double> sum, avg;  // [T,N]
};

Sums evaluate(const Case& c, const Tensors& tensors, std::string_view fault) {
  const auto [T, R, M] = extents(c);
  const Defect d = defect_of(c, fault);
  const std::vector<float> x = floats(tensors.at("x"));
  const auto N = static_cast<std::size_t>(R * M);
  dist::Plan plan = dist::plan_of(d.order, static_cast<int>(R), R * M, dist::itemsize(c.dtype));
  if (d.reversed)
    for (dist::Additions& sum : plan.sums)
      if (sum.size() > 3) std::swap(sum[0], sum[sum.size() - 2]);
  const double by = static_cast<double>(R);
  const auto inverse = static_cast<float>(1 / by);
  Sums out;
  std::vector<float> combined(N);
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<std::vector<float>> divided;
    std::vector<const float*> parts;
    for (std::int64_t r = 0; r < R; ++r) {
      parts.push_back(x.data() + static_cast<std::size_t>(t * R + r) * N);
      divided.emplace_back(parts.back(), parts.back() + N);
      for (float& v : divided.back()) v = dist::divided(c.dtype, v, by);
    }
    const Dtype grid = d.wide ? Dtype::F32 : c.dtype;
    dist::combine(plan, dist::Combine::Sum, grid, 0, parts, combined);
    for (float& v : combined) v = rounded(c.dtype, v);
    out.sum.insert(out.sum.end(), combined.begin(), combined.end());
    if (d.before) {
      for (std::size_t r = 0; r < parts.size(); ++r) parts[r] = divided[r].data();
      dist::combine(plan, dist::Combine::Sum, c.dtype, 0, parts, combined);
      out.avg.insert(out.avg.end(), combined.begin(), combined.end());
      continue;
    }
    for (const float v : combined)
      out.avg.push_back(d.inverse ? rounded(c.dtype, v * inverse) : dist::divided(c.dtype, v, by));
  }
  return out;
}

// Digests of what each rank gets, where the results are too large to keep.
Expected digest(const Case& c, const Sums& sums) {
  const Extents e = extents(c);
  Expected expected;
  for (std::int64_t r = 0; r < e.R; ++r) {
    const std::vector<float> part(sums.avg.begin() + r * e.M, sums.avg.begin() + (r + 1) * e.M);
    const std::string hex = sha256(std::as_bytes(std::span(part)));
    expected.tensors.push_back(exact(fmt::format("digest/rank{}", r), Role::Codes, Dtype::U8,
                                     {{"character", static_cast<std::int64_t>(hex.size())}},
                                     std::vector<double>(hex.begin(), hex.end())));
  }
  return expected;
}

Expected evaluate_expected(const Case& c, const Tensors& tensors, std::string_view fault) {
  const Sums sums = evaluate(c, tensors, fault);
  if (digests(c)) return digest(c, sums);
  Expected expected;
  for (const TensorSpec& spec : outputs(c))
    expected.tensors.push_back(exact(spec.name, spec.role, spec.dtype, spec.dims,
                                     spec.name == "reduce_scatter_avg" ? sums.avg : sums.sum));
  return expected;
}

Expected reference(const Case& c, const Tensors& tensors, bool) {
  return evaluate_expected(c, tensors, "");
}

// No rounding is left open, so that every variant is the base itself.
Evaluation base(const BaseRequest& request) {
  Evaluation evaluation;
  for (ExpectedTensor& t :
       evaluate_expected(request.problem, request.inputs, request.fault).tensors)
    evaluation.push_back({std::move(t.spec.name), std::move(t.value), std::move(t.bits)});
  return evaluation;
}

// The integer hash of k3.md 6.6: u in [-1, 1) from 64 bits.
double hash_unit(std::uint64_t stream, std::uint64_t j) {
  std::uint64_t z = (stream << 32) + j + 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53 * 2 - 1;
}

std::int64_t integer(const StoredCase& stored, const char* key) {
  const auto it = stored.attributes.find(key);
  if (it == stored.attributes.end())
    throw GoldenError(fmt::format("{}: no attribute '{}'", stored.name, key));
  return std::stoll(it->second);
}

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "collective";
  const std::int64_t R = integer(stored, "n"), M = integer(stored, "m");
  c.dtype = parse_dtype(stored.attributes.at("dtype"));
  c.options.set("order", "gloo");
  const auto it = stored.attributes.find("inputs");
  if (it == stored.attributes.end()) {
    Tensor x = stored.read("inputs");
    c.sizes = Sizes{{"T", x.spec.dims.at(0).extent, {}}, {"R", R, {}}, {"M", M, {}}};
    x.spec.name = "x";
    imported.inputs.add(std::move(x));
    for (const TensorSpec& spec : outputs(c)) imported.results[spec.name] = spec.name;
    return imported;
  }
  if (!it->second.starts_with("rank r: fp32(1.7 * hash_u(6000 + 10 N + r, N*M))")) {
    imported.unsupported = "does not know the inputs '" + it->second + "'";
    return imported;
  }
  c.sizes = Sizes{{"T", 1, {}}, {"R", R, {}}, {"M", M, {}}};
  c.options.set("digest", "1");
  std::vector<double> x;
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t j = 0; j < R * M; ++j)
      x.push_back(1.7 * hash_unit(static_cast<std::uint64_t>(6000 + 10 * R + r),
                                  static_cast<std::uint64_t>(j)));
  imported.inputs.add(make_tensor(inputs(c).front(), x));
  for (std::int64_t r = 0; r < R; ++r)
    imported.results[fmt::format("digest/rank{}", r)] = fmt::format("@sha256_rank{}", r);
  return imported;
}

Contract contract(const Case&, const std::map<std::string, std::string>&) {
  return {.name = "stated_order", .fidelity = Fidelity::Twin};
}

const Register op{OpDef{
    .name = "collective",
    .what = "sums over ranks, every addition in the stated order and rounded to the wire",
    .sources = {"https://github.com/pytorch/gloo", "https://github.com/NVIDIA/nccl"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = contract,
    .import = import_case,
    .faults = {{"P-coll-ring-up", "", "the ring passes its chunks the other way"},
               {"P-coll-wide-sum", "", "partial sums stay in f32 and are rounded once, at the end"},
               {"P-coll-inverse", "", "the average is the sum times 1/N, not divided by N"},
               {"P-coll-divides-before", "", "each contribution is divided before the sum"},
               {"P-coll-rank-order", "", "added in rank order, whatever order was stated"}},
}};

Bound exact_bound(const Case&, const Contract&, const TensorSpec&) {
  return every_bit("order, rounding and division are stated: every bit follows");
}
const Register bound{BoundDef{.op = "collective", .bound = exact_bound}};

void forward(const Launch& launch) { launch_on_threads(launch, sums_of_rank); }

const Register threads{KernelDef{
    .op = "collective",
    .name = "collective.threads",
    .what = "ranks as threads of one process; each adds its own part in the stated order",
    .contract = {.name = "stated_order",
                 .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F16},
                 .fidelity = Fidelity::Twin},
    .forward = forward,
}};

}  // namespace

// The same sums, by ranks that meet: each adds its own part, and all hand theirs round.
Tensors sums_of_rank(const Case& c, const Tensors& inputs, dist::Communicator& world,
                     std::string_view) {
  const Extents e = extents(c);
  const std::size_t N = e.N(), M = static_cast<std::size_t>(e.M), R = static_cast<std::size_t>(e.R);
  const dist::Order order = dist::parse_order(c.options.get("order", "gloo"));
  const std::vector<float> x = floats(inputs.at("x"));
  std::vector<double> sum, avg, all;
  std::vector<float> part(M), parts(N);
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.T); ++t) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(
                                       (t * R + static_cast<std::size_t>(world.rank())) * N);
    std::vector<float> mine(begin, begin + static_cast<std::ptrdiff_t>(N));
    const dist::Call at{.unit = "buffer", .step = static_cast<int>(t), .dtype = c.dtype};
    for (const bool average : {false, true}) {
      world.reduce_scatter(mine, part,
                           {.order = order, .after = average ? static_cast<double>(R) : 1}, at);
      world.all_gather(part, parts, at);
      std::ranges::copy(parts, std::back_inserter(average ? avg : sum));
    }
    world.all_reduce(mine, {.order = order}, at);
    std::ranges::copy(mine, std::back_inserter(all));
  }
  Tensors results;
  for (const TensorSpec& spec : outputs(c))
    results.add(make_tensor(spec, spec.name == "reduce_scatter_sum"   ? sum
                                  : spec.name == "reduce_scatter_avg" ? avg
                                                                      : all));
  return results;
}

}  // namespace parity::fsdp
