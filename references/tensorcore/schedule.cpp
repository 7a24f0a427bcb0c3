#include "references/tensorcore/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace parity::tensorcore {
namespace {

// "slice128" -> 128; 0 where the word is another.
std::int64_t number_after(std::string_view word, std::string_view prefix) {
  std::int64_t n = 0;
  if (!word.starts_with(prefix)) return 0;
  const std::string_view digits = word.substr(prefix.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return error == std::errc() && end == digits.data() + digits.size() && n > 0 ? n : 0;
}

bool matches(const Unit& unit, const ScheduleName& name) {
  return unit.arch == name.arch && unit.family == name.family && (name.k == 0 || unit.k == name.k);
}

}  // namespace

std::optional<ScheduleName> parse_schedule(std::string_view text) {
  ScheduleName name;
  for (std::size_t at = 0, word_number = 0; at <= text.size(); ++word_number) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) return {};
    if (word_number == 0) {
      name.arch = word;
    } else if (const std::int64_t k = number_after(word, "k"); k > 0) {
      name.k = static_cast<int>(k);
    } else if (const std::int64_t slice = number_after(word, "slice"); slice > 0) {
      name.slice = slice;
    } else if (word == "f16") {
      name.accumulate = Dtype::F16;
    } else if (word == "nearest") {
      name.nearest_inputs = true;
    } else if (word == "descending") {
      name.descending = true;
    } else {
      name.family += (name.family.empty() ? "" : ".") + std::string(word);
    }
  }
  if (!is_known(name)) return {};
  return name;
}

std::string name_of(const Schedule& s) {
  std::string name = fmt::format("{}.{}.k{}", s.unit->arch, s.unit->family, s.unit->k);
  if (s.accumulate == Dtype::F16) name += ".f16";
  if (s.nearest_inputs) name += ".nearest";
  if (s.slice > 0) name += fmt::format(".slice{}", s.slice);
  if (s.descending) name += ".descending";
  return name;
}

std::optional<Schedule> schedule_for(const ScheduleName& name, Dtype a, Dtype b) {
  for (const Unit& unit : units())
    if (matches(unit, name) && unit.takes(unit.sees(a), unit.sees(b)))
      return Schedule{.unit = &unit,
                      .accumulate = unit.sees(a) == Dtype::F64 ? Dtype::F64 : name.accumulate,
                      .slice = name.slice,
                      .nearest_inputs = name.nearest_inputs,
                      .descending = name.descending};
  return {};
}

bool is_known(const ScheduleName& name) {
  return std::ranges::any_of(units(), [&](const Unit& unit) { return matches(unit, name); });
}

bool hw_verified(const ScheduleName& name) {
  return std::ranges::all_of(units(),
                             [&](const Unit& u) { return !matches(u, name) || u.hw_verified; });
}

}  // namespace parity::tensorcore
