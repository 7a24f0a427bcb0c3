#include "harness/forms.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <numbers>
#include <optional>

namespace parity {
namespace {

std::string letter(const Dim& dim) {
  std::string text = dim.name;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The constant that a factor is, to six digits: 2, 1/sqrt(K), ln 2. "" = none that is known.
std::string constant(double factor, const Case& problem) {
  std::vector<std::pair<double, std::string>> known = {{1, "1"},
                                                       {2, "2"},
                                                       {3, "3"},
                                                       {4, "4"},
                                                       {std::numbers::ln2, "ln 2"},
                                                       {std::sqrt(2.0), "sqrt 2"}};
  for (const Size& size : problem.sizes.list()) {
    if (size.extent < 2) continue;
    const auto n = static_cast<double>(size.extent);
    known.emplace_back(n, size.name);
    known.emplace_back(std::sqrt(n), fmt::format("sqrt({})", size.name));
  }
  for (const auto& [value, name] : known) {
    if (std::abs(factor / value - 1) < 1e-6) return name;
    if (std::abs(factor * value - 1) < 1e-6) return "1/" + name;
  }
  return "";
}

// Least squares: seen = factor * right.
std::optional<double> fitted(const std::vector<double>& right, const std::vector<double>& seen) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (!std::isfinite(right[i]) || !std::isfinite(seen[i])) continue;
    product += right[i] * seen[i];
    square += right[i] * right[i];
  }
  if (!(square > 0) || product == 0) return {};
  return product / square;
}

// out[i] = right[from(i)] along one axis; a negative source is zero.
std::vector<double> along(const std::vector<double>& right, std::size_t stride, std::size_t extent,
                          const std::function<std::ptrdiff_t(std::ptrdiff_t)>& from) {
  std::vector<double> out(right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    const std::size_t at = i / stride % extent;
    const std::ptrdiff_t source = from(static_cast<std::ptrdiff_t>(at));
    if (source >= 0 && source < static_cast<std::ptrdiff_t>(extent))
      out[i] = right[i - at * stride + static_cast<std::size_t>(source) * stride];
  }
  return out;
}

void axis_forms(std::vector<Form>& all, const Dim& dim, std::size_t stride,
                const std::vector<double>& right, const std::vector<double>& seen) {
  const auto n = static_cast<std::ptrdiff_t>(dim.extent);
  const std::string axis = letter(dim);
  const auto add = [&](std::string what,
                       const std::function<std::ptrdiff_t(std::ptrdiff_t)>& from) {
    all.push_back({std::move(what), along(right, stride, static_cast<std::size_t>(n), from)});
  };
  for (const std::ptrdiff_t by : {1, -1})
    add(fmt::format("shifted along {} by {}", axis, by), [=](auto i) { return i - by; });
  add(fmt::format("reversed along {}", axis), [=](auto i) { return n - 1 - i; });
  add(fmt::format("every {} holds {}=0", axis, axis), [](auto) { return 0; });
  if (n % 2 == 0) {
    add(fmt::format("halves of {} change places", axis), [=](auto i) { return (i + n / 2) % n; });
    if (n > 2)
      add(fmt::format("neighbours along {} change places", axis), [](auto i) { return i ^ 1; });
  }
  if (n > 3 && n % 2 == 0) {
    add(fmt::format("{} interleaved where it should be in halves", axis),
        [=](auto i) { return i % 2 * (n / 2) + i / 2; });
    add(fmt::format("{} in halves where it should be interleaved", axis),
        [=](auto i) { return i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1; });
  }
  // Left at zero from some index on.
  std::ptrdiff_t first = 0;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i] != 0) first = std::max(first, static_cast<std::ptrdiff_t>(i / stride) % n + 1);
  if (first > 0 && first < n)
    add(fmt::format("zero from {}={} on", axis, first),
        [=](auto i) { return i < first ? i : std::ptrdiff_t{-1}; });
}

std::vector<double> mapped(const std::vector<double>& right,
                           const std::function<double(double)>& f) {
  std::vector<double> out(right.size());
  std::ranges::transform(right, out.begin(), f);
  return out;
}

// Two axes of the same extent, read the wrong way round.
void transposed(std::vector<Form>& all, const TensorSpec& spec, const std::vector<double>& right) {
  const std::size_t axes = spec.dims.size();
  if (axes < 2 || spec.dims[axes - 1].extent != spec.dims[axes - 2].extent) return;
  const auto n = static_cast<std::size_t>(spec.dims[axes - 1].extent);
  std::vector<double> out(right.size());
  for (std::size_t i = 0; i < right.size(); ++i)
    out[i] = right[i - i % (n * n) + i % n * n + i / n % n];
  all.push_back({fmt::format("{} and {} change places", letter(spec.dims[axes - 2]),
                             letter(spec.dims[axes - 1])),
                 std::move(out)});
}

void narrowed(std::vector<Form>& all, Dtype dtype, const std::vector<double>& right) {
  const Format& out = format(dtype);
  for (const Dtype narrow : {Dtype::BF16, Dtype::F16, Dtype::TF32, Dtype::E4M3})
    if (format(narrow).mantissa_bits < out.mantissa_bits)
      all.push_back({fmt::format("kept in {} on the way", format(narrow).name),
                     mapped(right, [=](double v) { return round_to(narrow, v); })});
  all.push_back({"subnormals flushed to zero", mapped(right, [&](double v) {
                   return std::abs(v) < out.min_normal ? std::copysign(0.0, v) : v;
                 })});
}

}  // namespace

std::vector<Form> forms(const Case& problem, const TensorSpec& spec,
                        const std::vector<double>& right, const std::vector<double>& seen,
                        const Evaluation& others) {
  std::vector<Form> all;
  all.push_back({"zero", std::vector<double>(right.size())});
  all.push_back({"negated", mapped(right, [](double v) { return -v; })});
  if (const auto factor = fitted(right, seen)) {
    const std::string name = constant(std::abs(*factor), problem);
    if (name != "1")
      all.push_back(
          {fmt::format("times {:.6g}{}", *factor, name.empty() ? "" : fmt::format(" ({})", name)),
           mapped(right, [&](double v) { return v * *factor; }), name.empty()});
  }
  std::size_t stride = right.size();
  for (const Dim& dim : spec.dims) {
    stride /= static_cast<std::size_t>(std::max<std::int64_t>(dim.extent, 1));
    if (dim.extent > 1) axis_forms(all, dim, stride, right, seen);
  }
  transposed(all, spec, right);
  narrowed(all, spec.dtype, right);
  for (const Values& other : others)
    if (other.name != spec.name && other.value.size() == right.size() && !right.empty())
      all.push_back({"what belongs into " + other.name, other.value});
  return all;
}

}  // namespace parity
