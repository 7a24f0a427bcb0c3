// Where the errors are, in one sentence: "all 512 errors in h=3, t>=4032".
//
// An axis is named where the wrong elements occupy one index, one end, one stretch or one residue
// of it. Where they occupy all of it, unevenly (chi-square of the counts against equal shares, at
// 1e-6), the index that holds most is named.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"
#include "harness/numeric/tails.hpp"

namespace parity {
namespace {

std::string letter(const Dim& dim) {
  std::string text = dim.name;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::int64_t> counts_along(const std::vector<Dim>& dims, std::size_t axis,
                                       const std::vector<std::size_t>& wrong) {
  std::size_t stride = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i)
    stride *= static_cast<std::size_t>(dims[i].extent);
  const auto extent = static_cast<std::size_t>(dims[axis].extent);
  std::vector<std::int64_t> counts(extent);
  for (const std::size_t i : wrong) ++counts[i / stride % extent];
  return counts;
}

// "h=3", "t>=4032", "t<16", "t=64..127", "v%16=3", "h in {1, 5}", or nothing.
std::string occupied(const std::string& axis, const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) used.push_back(i);
  const std::size_t first = used.front(), last = used.back(), extent = counts.size();
  if (used.size() == extent) return {};
  if (used.size() == 1) return fmt::format("{}={}", axis, first);
  // A stretch may have holes where an element happens to be right.
  const std::size_t length = last - first + 1;
  for (const std::size_t period : {std::size_t{64}, std::size_t{32}, std::size_t{16},
                                   std::size_t{8}, std::size_t{4}, std::size_t{2}}) {
    const bool residue =
        std::ranges::all_of(used, [&](std::size_t i) { return i % period == first % period; });
    const std::size_t members = (extent - first % period + period - 1) / period;
    if (residue && used.size() >= 3 && used.size() * 2 > members)
      return fmt::format("{}%{}={}", axis, period, first % period);
  }
  if (used.size() * 2 > length && length * 4 <= extent * 3) {
    if (last + 1 == extent) return fmt::format("{}>={}", axis, first);
    if (first == 0) return fmt::format("{}<{}", axis, last + 1);
    return fmt::format("{}={}..{}", axis, first, last);
  }
  if (used.size() <= 4) return fmt::format("{} in {{{}}}", axis, fmt::join(used, ", "));
  return {};
}

// The index that holds most of unevenly spread errors.
std::string dominant(const std::string& axis, const std::vector<std::int64_t>& counts,
                     double total) {
  const double share = total / static_cast<double>(counts.size());
  double chi = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double off = static_cast<double>(counts[i]) - share;
    chi += off * off / share;
    if (counts[i] > counts[most]) most = i;
  }
  const bool uneven = chi > chi_square_upper(1e-6, static_cast<double>(counts.size()) - 1);
  const double part = static_cast<double>(counts[most]) / total;
  if (!uneven || part < 0.25 || static_cast<double>(counts[most]) < 2 * share) return {};
  return fmt::format("{:.0f} % of them in {}={}", 100 * part, axis, most);
}

}  // namespace

void compare_pattern(const Compared& t, TensorRecord& r) {
  const bool violated =
      std::ranges::any_of(r.views, [](const ViewResult& v) { return !(v.value <= v.limit); });
  if (!violated) return;
  const std::vector<std::size_t> wrong = wrong_elements(t);
  if (wrong.empty()) {
    r.pattern = "no single element is over its bound: the errors are small and many";
    return;
  }
  std::vector<std::string> where, most;
  const auto total = static_cast<double>(wrong.size());
  for (std::size_t axis = 0; axis < t.spec.dims.size(); ++axis) {
    if (t.spec.dims[axis].extent < 2) continue;
    const std::vector<std::int64_t> counts = counts_along(t.spec.dims, axis, wrong);
    const std::string name = letter(t.spec.dims[axis]);
    if (const std::string text = occupied(name, counts); !text.empty())
      where.push_back(text);
    else if (const std::string uneven = dominant(name, counts, total); !uneven.empty())
      most.push_back(uneven);
  }
  const std::string subject =
      wrong.size() == 1 ? "the only error is" : fmt::format("all {} errors are", wrong.size());
  if (!where.empty())
    r.pattern = fmt::format("{} in {}", subject, fmt::join(where, ", "));
  else if (wrong.size() == t.error.size())
    r.pattern = "every element is wrong";
  else
    r.pattern = fmt::format("{} errors ({:.2g} % of the elements), spread over the whole tensor",
                            wrong.size(), 100 * total / t.n());
  if (!most.empty()) r.pattern += fmt::format("; {}", fmt::join(most, ", "));
}

}  // namespace parity
