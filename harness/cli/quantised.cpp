#include "harness/cli/quantised.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/child.hpp"
#include "harness/numeric/formats.hpp"
#include "harness/walk.hpp"
#include "reports/json.hpp"

namespace parity::cli {
namespace {

using reports::OtherChain;
using reports::Quantised;

constexpr std::int64_t kLargest = 1 << 20;  // elements: what one look may cost
constexpr std::size_t kShown = 24;          // records of a run

const Tensor* first_of(const Tensors& tensors, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const Tensor* t = tensors.find(name)) return t;
  return nullptr;
}

// A chain with the options that decide its numbers, not those that ask for further tensors.
std::string chain_text(const Options& options) {
  Options rest;
  for (const auto& [name, value] : options.map())
    if (name != "chain" && name != "swizzle" && name != "dequant" && name != "dequant_f32" &&
        name != "ste" && name != "transpose" && name != "packed" && name != "grad")
      rest.set(name, value);
  const std::string chain = options.get("chain", "");
  return rest.empty() ? chain : chain + "[" + rest.str() + "]";
}

std::uint64_t code_at(const Tensor& t, std::int64_t i) {
  return load_code(t.spec.dtype, t.bytes.data(), i);
}

void count_codes(const Tensor& codes, Quantised& q) {
  q.format = name(codes.spec.dtype);
  q.elements = codes.elements();
  std::map<double, std::int64_t> counts;
  for (std::uint64_t code = 0; code < 1ULL << format(codes.spec.dtype).bits; ++code)
    if (const double v = decode(codes.spec.dtype, code); std::isfinite(v)) counts[v] = 0;
  for (std::int64_t i = 0; i < q.elements; ++i) {
    const double v = decode(codes.spec.dtype, code_at(codes, i));
    std::isfinite(v) ? ++counts[v] : ++q.not_numbers;
  }
  // Of the many values of eight bits those between the least and the largest that occur.
  const auto occurs = [](const auto& entry) { return entry.second > 0; };
  auto begin = counts.begin(), end = counts.end();
  if (counts.size() > 16) {
    begin = std::find_if(counts.begin(), counts.end(), occurs);
    end = std::find_if(counts.rbegin(), std::make_reverse_iterator(begin), occurs).base();
  }
  for (auto at = begin; at != end; ++at)
    q.values.push_back(at->first), q.counts.push_back(at->second);
}

// Means over at most 64 x 64 bins.
void map_scales(const Tensor& scales, Quantised& q) {
  constexpr std::int64_t kBins = 64;
  const auto& dims = scales.spec.dims;
  if (dims.empty() || scales.elements() < 2) return;
  q.scale_format = name(scales.spec.dtype);
  q.scale_rows = dims.size() > 1 ? dims[0].extent : 1;
  q.scale_cols = scales.elements() / std::max<std::int64_t>(q.scale_rows, 1);
  Heatmap map{.rows = "m",
              .cols = "block",
              .height = std::min(q.scale_rows, kBins),
              .width = std::min(q.scale_cols, kBins)};
  std::vector<double> sum(static_cast<std::size_t>(map.height * map.width)), count(sum.size());
  const std::vector<double> values = scales.widened();
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const auto cell =
        static_cast<std::size_t>(i / q.scale_cols * map.height / q.scale_rows * map.width +
                                 i % q.scale_cols * map.width / q.scale_cols);
    sum[cell] += std::log2(values[static_cast<std::size_t>(i)]);
    count[cell] += 1;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) map.cells.push_back(sum[i] / count[i]);
  q.scales = std::move(map);
}

// `range`: the least and the largest code that the chain uses.
void compare_values(const Tensor& codes, std::pair<double, double> range,
                    const std::vector<double>& x, const std::vector<double>& y, Quantised& q) {
  std::map<std::pair<double, double>, double> cells;
  double signal = 0, noise = 0, saturated = 0, underflowed = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double code = decode(codes.spec.dtype, code_at(codes, static_cast<std::int64_t>(i)));
    const bool beyond = std::fabs(x[i]) > std::fabs(y[i]);
    saturated += (code <= range.first || code >= range.second) && beyond ? 1 : 0;
    underflowed += x[i] != 0 && y[i] == 0 ? 1 : 0;
    const double error = std::fabs(y[i] - x[i]);
    if (!std::isfinite(x[i]) || !std::isfinite(error)) continue;
    signal += x[i] * x[i], noise += error * error;
    if (x[i] != 0 && error != 0)
      cells[{std::floor(std::log2(std::fabs(x[i]))), std::floor(std::log2(error))}] += 1;
  }
  const auto n = static_cast<double>(x.size());
  q.saturated = saturated / n;
  q.underflowed = underflowed / n;
  if (noise > 0) q.sqnr = 10 * std::log10(signal / noise);
  Scatter scatter;
  for (const auto& [at, count] : cells) {
    scatter.log2_magnitude.push_back(at.first);
    scatter.log2_error.push_back(at.second);
    scatter.count.push_back(count);
  }
  if (!cells.empty()) q.scatter = std::move(scatter);
}

std::pair<double, double> range_of(const Case& c, Dtype codes) {
  const double largest = format(codes).max_finite;
  return {c.options.real("qmin", -largest), c.options.real("qmax", largest)};
}

double share_differing(const Tensor& a, const ExpectedTensor& b) {
  std::int64_t differing = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    differing += code_at(a, i) != load_code(a.spec.dtype, b.bits.data(), i);
  return static_cast<double>(differing) / static_cast<double>(a.elements());
}

bool comparable(const Tensor& a, const ExpectedTensor* b) {
  return b != nullptr && b->spec.dtype == a.spec.dtype && b->bits.size() == a.bytes.size();
}

// Every other chain that the cases declare and that gives codes and scales of the same formats.
void compare_chains(const Case& c, const Tensors& inputs, const Tensor& codes, const Tensor* scales,
                    Quantised& q) {
  if (scales == nullptr) return;
  std::set<std::string> seen = {chain_text(c.options)};
  for (const CaseSet& set : registry().case_sets) {
    if (set.op != c.op) continue;
    for (const Options& options : set.options) {
      const std::string text = chain_text(options);
      const ChainDef* chain = registry().chain(options.get("chain", ""));
      if (chain == nullptr || chain->name.empty() || seen.contains(text)) continue;
      Case other = c;
      other.options = options;
      const OpDef& op = registry().op_or_throw(c.op);
      if (op.inputs(other).size() != 1) continue;  // x alone decides
      seen.insert(text);
      const Expected answer = chain->quantize(other, inputs, "");
      const ExpectedTensor* its_codes = answer.find("codes");
      const ExpectedTensor* its_scales = answer.find(scales->spec.name);
      if (comparable(codes, its_codes) && comparable(*scales, its_scales))
        q.others.push_back(
            {text, share_differing(*scales, *its_scales), share_differing(codes, *its_codes)});
    }
  }
  std::ranges::sort(q.others, {}, [](const OtherChain& o) { return std::pair(o.codes, o.chain); });
}

}  // namespace

bool QuantisedChoice::takes(const CaseRecord& record) {
  const bool fails = record.status == "fail";
  if (record.op != "quantize" || record.direction == "backward") return false;
  if (!fails && (record.status != "pass" || record.check != "parity")) return false;
  Options options;
  for (const auto& [name, value] : record.options) options.set(name, value);
  return seen_.size() < kShown && seen_.insert((fails ? "!" : "") + chain_text(options)).second;
}

std::optional<Quantised> quantised(const Case& c, const Tensors& inputs, const Tensors& results) {
  const Tensor* codes = results.find("codes");
  const Tensor* x = inputs.find("x");
  if (codes == nullptr || x == nullptr || codes->elements() != x->elements() ||
      codes->elements() > kLargest || format(codes->spec.dtype).bits > 8)
    return std::nullopt;
  Quantised q;
  count_codes(*codes, q);
  const auto range = range_of(c, codes->spec.dtype);
  const Tensor* scales = first_of(results, {"scales", "scale"});
  if (scales != nullptr) map_scales(*scales, q);
  if (const Tensor* y = first_of(results, {"dequant_f32", "dequant", "fake_quant"})) {
    compare_values(*codes, range, x->widened(), y->widened(), q);
  } else if (const ChainDef* chain = registry().chain(c.options.get("chain", ""))) {
    Case asked = c;  // the case did not ask for values: those of its chain, whose codes these are
    asked.options.set("dequant_f32", "1");
    const Expected answer = chain->quantize(asked, inputs, "");
    const ExpectedTensor* its_codes = answer.find("codes");
    const ExpectedTensor* values = answer.find("dequant_f32");
    if (values != nullptr && comparable(*codes, its_codes) &&
        share_differing(*codes, *its_codes) == 0)
      compare_values(*codes, range, x->widened(), values->value, q);
  }
  compare_chains(c, inputs, *codes, scales, q);
  return q;
}

std::optional<Quantised> quantised_of(const Subject& subject, const Candidate& candidate,
                                      const CaseRecord& record) {
  if (!candidate.run) return std::nullopt;
  const ChildAnswer answer = in_child(
      [&]() -> std::string {
        const Tensors inputs = subject.inputs();
        const Observed observed = candidate.run(
            {.problem = subject.problem, .inputs = inputs, .direction = Direction::Forward});
        std::optional<Quantised> q = quantised(subject.problem, inputs, observed.tensors);
        if (!q) return "";
        q->id = record.id;
        q->check = record.check;
        return reports::to_json_line(*q);
      },
      {.quiet = true});
  if (!answer.ok() || answer.bytes.empty()) return std::nullopt;
  return std::get<Quantised>(reports::parse_line(answer.bytes));
}

}  // namespace parity::cli
