#include "harness/dist/trace.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace parity::dist {

std::string line(const Call& c) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", c.step, c.micro, c.phase, c.op, c.unit, c.in,
                     c.out, format(c.dtype).alias, c.reduce, c.group);
}

std::string sentence(const Call& c) {
  std::string what = c.op;
  if (c.unit != "-") what += " of " + c.unit;
  if (!c.parameter.empty()) what += fmt::format(" (from parameter {})", c.parameter);
  what += fmt::format(", {} elements of {}", c.in, parity::name(c.dtype));
  if (c.reduce != "-") what += fmt::format(", {} in order {}", c.reduce, name(c.order));
  return fmt::format("{} in step {}, microbatch {}, {}", what, c.step, c.micro, c.phase);
}

std::string first_difference(std::span<const Trace> traces) {
  if (traces.size() < 2) return {};
  const Trace& first = traces.front();
  std::size_t longest = 0;
  for (const Trace& t : traces) longest = std::max(longest, t.calls.size());
  for (std::size_t i = 0; i < longest; ++i)
    for (const Trace& t : traces.subspan(1)) {
      const bool here = i < t.calls.size(), there = i < first.calls.size();
      if (!here && !there) continue;
      if (here && there && t.calls[i] == first.calls[i]) continue;
      const auto says = [&](const Trace& trace, bool calls) {
        return calls ? fmt::format("rank {} calls {}", trace.rank, sentence(trace.calls[i]))
                     : fmt::format("rank {} calls nothing more", trace.rank);
      };
      return fmt::format("call {}: {}; {}", i + 1, says(t, here), says(first, there));
    }
  return {};
}

}  // namespace parity::dist
