// What chains make of values that are no ordinary numbers, as a table that the code itself writes.
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "harness/cli/chain_table.hpp"

namespace parity::cli {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two blocks of 16: `first` opens the one, everything else is `rest`, or the blocks' own.
ChainTrace run(const ChainName& name, const std::vector<double>& values) {
  return trace_of(name, make_tensor({.name = "x",
                                     .role = Role::Input,
                                     .dtype = Dtype::F32,
                                     .dims = {{"M", 1}, {"K", std::ssize(values)}}},
                                    values));
}

std::vector<double> ones_but(float first) {
  std::vector<double> values(32, 1);
  values[0] = static_cast<double>(first);
  return values;
}

std::string scale_of(const ChainTrace& t, int block) {
  const ExpectedTensor& scales = *t.steps.find("scales");
  const auto at = static_cast<std::size_t>(block);
  if (std::isnan(scales.value[at])) return "NaN";
  return fmt::format("{:02x}", std::to_integer<int>(scales.bits[at]));
}

std::string code_of(const ChainTrace& t, int element) {
  const ExpectedTensor& codes = *t.steps.find("codes");
  const auto at = static_cast<std::size_t>(element);
  if (at < codes.ignore.size() && codes.ignore[at] != 0) return "-";
  return fmt::format("{}", load_code(Dtype::E2M1, codes.bits.data(), element));
}

std::string cell(const ChainTrace& t, const auto& text) {
  return t.refused.empty() ? text() : std::string("refused");
}

std::string row(const ChainName& name) {
  std::string text = fmt::format("| `{}` ", name.text());
  const auto add = [&](const ChainTrace& t, const auto& words) {
    text += fmt::format("| {} ", cell(t, words));
  };
  const auto two_scales = [&](float first) {
    const ChainTrace t = run(name, ones_but(first));
    add(t, [&] { return fmt::format("{} {}", scale_of(t, 0), scale_of(t, 1)); });
  };
  two_scales(kNan);
  const ChainTrace inf = run(name, ones_but(-kInf));
  add(inf, [&] {
    return fmt::format("{} {}, {} {} {}", scale_of(inf, 0), scale_of(inf, 1), code_of(inf, 0),
                       code_of(inf, 1), code_of(inf, 16));
  });
  const ChainTrace zero = run(name, ones_but(-0.0F));
  add(zero, [&] { return code_of(zero, 0); });
  const ChainTrace small = run(name, ones_but(-0x1p-10F));
  add(small, [&] { return code_of(small, 0); });
  std::vector<double> values(32, 0);
  const ChainTrace none = run(name, values);
  add(none, [&] { return fmt::format("{} {}", scale_of(none, 0), code_of(none, 0)); });
  values[16] = 1;
  const ChainTrace block = run(name, values);
  add(block, [&] { return fmt::format("{} {}", scale_of(block, 0), code_of(block, 0)); });
  values[0] = 0x1p-16;
  const ChainTrace subnormal = run(name, values);
  add(subnormal,
      [&] { return fmt::format("{} {}", scale_of(subnormal, 0), code_of(subnormal, 0)); });
  values[0] = 0x1p-24;
  const ChainTrace under = run(name, values);
  add(under, [&] { return fmt::format("{} {}", scale_of(under, 0), code_of(under, 0)); });
  return text + "|\n";
}

}  // namespace

std::string special_values_table() {
  std::string text =
      "| chain | one NaN: scales | one -inf: scales, codes | -0 | -2^-10 | all zero | zero block "
      "| bamax 2^-16 | bamax 2^-24 |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const ChainName& name : traced_chains()) text += row(name);
  return text;
}

}  // namespace parity::cli
