#include "harness/case.hpp"

#include <algorithm>
#include <array>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity {
namespace {

constexpr std::array<std::string_view, 4> kLanes = {"smoke", "full", "sweep", "long"};
constexpr std::array<std::string_view, 7> kChecks = {"parity", "bitwise", "exact", "recording",
                                                     "golden", "sharded", "drift"};
constexpr std::array<std::string_view, 3> kDirections = {"forward", "backward", "both"};

template <class E, std::size_t N>
E parse_word(const std::array<std::string_view, N>& words, std::string_view text,
             std::string_view what) {
  for (std::size_t i = 0; i < N; ++i)
    if (words[i] == text) return static_cast<E>(i);
  const std::vector<std::string> known(words.begin(), words.end());
  const std::string near = nearest(text, known);
  std::string all;
  for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
  throw UsageError("no " + std::string(what) + " '" + std::string(text) + "'" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?") + " (known: " + all +
                   ")");
}

}  // namespace

std::string_view name(Lane lane) { return kLanes.at(static_cast<std::size_t>(lane)); }
std::string_view name(Check check) { return kChecks.at(static_cast<std::size_t>(check)); }
std::string_view name(Direction direction) {
  return kDirections.at(static_cast<std::size_t>(direction));
}
Lane parse_lane(std::string_view text) { return parse_word<Lane>(kLanes, text, "lane"); }
Check parse_check(std::string_view text) { return parse_word<Check>(kChecks, text, "check"); }
Direction parse_direction(std::string_view text) {
  return parse_word<Direction>(kDirections, text, "direction");
}

Options Options::parse(std::string_view text) {
  Options options;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equal = part.find('=');
    if (equal == 0 || equal == std::string::npos || equal + 1 == part.size())
      throw UsageError("options: '" + part + "' is not 'name=value'");
    if (options.map_.contains(part.substr(0, equal)))
      throw UsageError("options: '" + part.substr(0, equal) + "' is given twice");
    options.map_[part.substr(0, equal)] = part.substr(equal + 1);
  }
  return options;
}

std::string Options::str() const {
  std::string text;
  for (const auto& [name, value] : map_) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

std::string Options::get(std::string_view name, std::string_view otherwise) const {
  const auto it = map_.find(std::string(name));
  return it == map_.end() ? std::string(otherwise) : it->second;
}

std::int64_t Options::integer(std::string_view name, std::int64_t otherwise) const {
  const auto it = map_.find(std::string(name));
  return it == map_.end() ? otherwise : to_integer(it->second, "option " + it->first);
}

double Options::real(std::string_view name, double otherwise) const {
  const auto it = map_.find(std::string(name));
  return it == map_.end() ? otherwise : to_real(it->second, "option " + it->first);
}

std::string Case::id() const {
  if (!recorded.empty()) {
    std::string text = op + "/" + recorded;
    if (!sizes.list().empty())
      text += "/" + sizes.str() + "/" + std::string(parity::name(dtype)) + "/recorded";
    return text;
  }
  std::string text = op + "/" + sizes.str() + "/" + std::string(parity::name(dtype)) + "/" + fill;
  if (!options.empty()) text += "/" + options.str();
  return text + "/s" + std::to_string(seed);
}

std::string print_id(const Case& problem, std::string_view kernel, const Options& kernel_options) {
  std::string text = problem.id();
  if (!kernel.empty()) text += "@" + std::string(kernel);
  if (!kernel_options.empty()) text += "[" + kernel_options.str() + "]";
  return text;
}

ParsedId parse_id(std::string_view id) {
  const auto refuse = [&](const std::string& why) -> UsageError {
    return UsageError("id '" + std::string(id) + "': " + why +
                      " (an id is op/sizes/dtype/fill[/options]/sSEED[@kernel[options]])");
  };
  ParsedId parsed;
  std::string_view rest = id;
  if (const std::size_t at = id.find('@'); at != std::string_view::npos) {
    std::string_view kernel = id.substr(at + 1);
    rest = id.substr(0, at);
    if (const std::size_t open = kernel.find('['); open != std::string_view::npos) {
      if (!kernel.ends_with(']')) throw refuse("'[' without ']' at the end");
      parsed.kernel_options = Options::parse(kernel.substr(open + 1, kernel.size() - open - 2));
      kernel = kernel.substr(0, open);
    }
    if (kernel.empty()) throw refuse("no kernel after '@'");
    parsed.kernel = kernel;
  }
  const std::vector<std::string> parts = split(rest, '/');
  Case& c = parsed.problem;
  if (parts.size() >= 2 &&
      parts[1].find(':') != std::string::npos) {  // op/<file stem>:<case>[/sizes/dtype/recorded]
    if (parts.size() == 2 || parts.size() >= 5) {
      // The case's own name may hold '/': a quantiser's chain and its case.
      const std::size_t tail = parts.size() == 2 ? 0 : 3;
      c.op = parts[0];
      c.fill = "recorded";
      for (std::size_t i = 1; i + tail < parts.size(); ++i)
        c.recorded += (i > 1 ? "/" : "") + parts[i];
      if (tail > 0) {
        if (parts.back() != "recorded") throw refuse("'" + parts.back() + "' is not 'recorded'");
        c.sizes = Sizes::parse(parts[parts.size() - 3]);
        c.dtype = parse_dtype(parts[parts.size() - 2]);
      }
      return parsed;
    }
    throw refuse("a recorded case is op/<file>:<case>/sizes/dtype/recorded");
  }
  if (parts.size() != 5 && parts.size() != 6)
    throw refuse(std::to_string(parts.size()) + " parts between '/', not 5 or 6");
  const std::string& seed = parts.back();
  if (seed.size() < 2 || seed[0] != 's') throw refuse("'" + seed + "' is no seed, as in 's7'");
  c.op = parts[0];
  c.sizes = Sizes::parse(parts[1]);
  try {
    c.dtype = parse_dtype(parts[2]);
  } catch (const std::invalid_argument& error) {
    throw refuse(error.what());
  }
  c.fill = parts[3];
  if (parts.size() == 6) c.options = Options::parse(parts[4]);
  const std::int64_t number = to_integer(std::string_view(seed).substr(1), "seed");
  if (number < 0) throw refuse("a seed is not negative");
  c.seed = static_cast<std::uint64_t>(number);
  return parsed;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace parity
