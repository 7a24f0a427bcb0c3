#include "references/tensorcore/unit.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>

namespace parity::tensorcore {
namespace {

using enum Dtype;

// One row: an instruction's arithmetic.
std::vector<Unit> table() {
  const std::vector<Dtype> half = {F16, BF16};
  const std::vector<Dtype> fp8 = {E4M3, E5M2};
  const std::vector<Dtype> narrow = {E4M3, E5M2, E3M2, E2M3, E2M1};
  std::vector<Unit> all = {
      {.arch = "sm_70", .family = "mma", .inputs = {F16}, .k = 4, .group = 4, .fraction = 23},
      {.arch = "sm_75", .family = "mma", .inputs = {F16}, .k = 8, .group = 8, .fraction = 24},
  };
  const auto add = [&](Unit unit) { all.push_back(std::move(unit)); };
  for (const char* arch : {"sm_80", "sm_89"}) {
    for (const int k : {16, 8})
      add({.arch = arch, .family = "mma", .inputs = half, .k = k, .group = 8, .fraction = 24});
    for (const int k : {8, 4})
      add({.arch = arch, .family = "mma", .inputs = {TF32}, .k = k, .group = 4, .fraction = 24});
  }
  add({.arch = "sm_89",
       .family = "mma",
       .inputs = fp8,
       .k = 32,
       .group = 16,
       .fraction = 13,
       .keeps = Keeps::E8M13});
  // Hopper.
  const auto hopper = [&](Unit unit) {
    unit.arch = "sm_90";
    unit.hw_verified = true;
    add(std::move(unit));
  };
  hopper({.family = "wgmma", .inputs = half, .k = 16, .group = 16, .fraction = 25});
  hopper({.family = "wgmma", .inputs = {TF32}, .k = 8, .group = 8, .fraction = 25});
  hopper({.family = "wgmma",
          .inputs = fp8,
          .k = 32,
          .group = 32,
          .fraction = 13,
          .keeps = Keeps::E8M13});
  for (const int k : {16, 8})
    hopper({.family = "mma", .inputs = half, .k = k, .group = k, .fraction = 25});
  for (const int k : {8, 4})
    hopper({.family = "mma", .inputs = {TF32}, .k = k, .group = k, .fraction = 25});
  hopper({.family = "mma",
          .inputs = fp8,
          .k = 32,
          .group = 16,
          .fraction = 25,
          .scheme = Scheme::ViaHalf});
  hopper({.family = "mma", .inputs = {F64}, .k = 4, .group = 1, .scheme = Scheme::Fma});
  hopper({.family = "ffma", .inputs = {F32}, .k = 1, .group = 1, .scheme = Scheme::Fma});
  // Blackwell: tcgen05 of sm_100 and sm_103, mma.sync of sm_120.
  for (const char* arch : {"sm_100", "sm_120"}) {
    const bool server = std::string_view(arch) == "sm_100";
    const auto blackwell = [&](std::string_view plain, std::string_view scaled, Unit unit) {
      unit.arch = arch;
      unit.family = server ? plain : scaled;
      add(std::move(unit));
    };
    blackwell("tcgen05", "mma", {.inputs = half, .k = 16, .group = 16, .fraction = 25});
    blackwell("tcgen05", "mma", {.inputs = {TF32}, .k = 8, .group = 8, .fraction = 25});
    blackwell("tcgen05", "mma", {.inputs = narrow, .k = 32, .group = 32, .fraction = 25});
    blackwell("tcgen05.mxf8f6f4", "mma.mxf8f6f4",
              {.inputs = narrow,
               .k = 32,
               .group = 32,
               .fraction = 25,
               .scaling = Scaling::E8M0,
               .scale_block = 32});
    const Unit fp4{.inputs = {E2M1},
                   .k = 64,
                   .group = 64,
                   .fraction = 35,
                   .scheme = Scheme::BlockDots,
                   .scaling = Scaling::E8M0,
                   .scale_block = 32};
    blackwell("tcgen05.mxf4", "mma.mxf4", fp4);
    Unit nvfp4 = fp4;
    nvfp4.scaling = Scaling::E4M3;
    nvfp4.scale_block = 16;
    blackwell("tcgen05.mxf4nvf4", "mma.mxf4nvf4", nvfp4);
  }
  return all;
}

[[noreturn]] void bad(std::string_view name, std::string_view why) {
  throw std::invalid_argument(fmt::format("instruction '{}': {}", name, why));
}

}  // namespace

bool Unit::takes(Dtype a, Dtype b) const {
  const bool both = std::ranges::count(inputs, a) > 0 && std::ranges::count(inputs, b) > 0;
  const bool mixed = a == b || format(a).bits <= 8;
  return both && mixed;
}

Dtype Unit::sees(Dtype stored) const {
  return stored == F32 && scheme != Scheme::Fma ? TF32 : stored;
}

std::string Unit::name() const {
  std::vector<std::string_view> types;
  types.reserve(inputs.size());
  for (const Dtype d : inputs) types.push_back(parity::name(d));
  return fmt::format("{} {} {} k{}", arch, family, fmt::join(types, ","), k);
}

std::span<const Unit> units() {
  static const std::vector<Unit> all = table();
  return all;
}

const Unit* find_unit(std::string_view arch, std::string_view family, Dtype a, Dtype b, int k) {
  for (const Unit& unit : units())
    if (unit.arch == arch && unit.family == family && unit.takes(a, b) && (k == 0 || unit.k == k))
      return &unit;
  return nullptr;
}

Instruction parse_instruction(std::string_view arch, std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('_', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() < 3 || parts.size() > 5) bad(name, "expected <family>_<shape>_<d>[_<a>[_<b>]]");
  const std::size_t k_at = parts[1].rfind('k');
  int k = 0;
  if (k_at != std::string_view::npos) {
    const std::string_view digits = parts[1].substr(k_at + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), k);
  }
  if (k <= 0) bad(name, fmt::format("'{}' is no shape m..n..k..", parts[1]));
  Instruction i;
  i.d = parse_dtype(parts[2]);
  i.a = parts.size() > 3 ? parse_dtype(parts[3]) : i.d;
  i.b = parts.size() > 4 ? parse_dtype(parts[4]) : i.a;
  // Longer f64 instructions are the same chain of multiply-adds.
  i.unit = find_unit(arch, parts[0], i.a, i.b, i.a == F64 && k % 4 == 0 ? 4 : k);
  if (i.unit == nullptr)
    bad(name, fmt::format("{} {} has none of {} x {} with k = {}", arch, parts[0],
                          parity::name(i.a), parity::name(i.b), k));
  const bool f64 = i.a == F64;
  const bool f16 = i.d == F16 && format(i.a).bits <= 16 && i.a != BF16;
  if (f64 ? i.d != F64 : i.d != F32 && !f16)
    bad(name, fmt::format("no accumulator {} for {}", parity::name(i.d), parity::name(i.a)));
  return i;
}

}  // namespace parity::tensorcore
