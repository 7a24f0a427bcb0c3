// A group of a golden file is one chain, named in ChainDef::groups; what a case asks for shows in
// the datasets that it has.
#include "references/quantize/import.hpp"

#include <algorithm>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::quantize {

bool has(const StoredCase& stored, std::string_view path) {
  return std::ranges::find(stored.paths, path) != stored.paths.end();
}

std::string attribute(const StoredCase& stored, const std::string& name) {
  const auto it = stored.attributes.find(name);
  return it == stored.attributes.end() ? "" : it->second;
}

namespace {

// "per_tensor_amax_to_scale(0.5 * max|x|)" -> "0.5"; "" where the amax is that of the data.
std::string amax_factor(const std::string& rule) {
  const std::size_t open = rule.find('(');
  const std::size_t times = rule.find(" * max|x|");
  if (open == std::string::npos || times == std::string::npos || times < open) return "";
  return rule.substr(open + 1, times - open - 1);
}

Options options_of(const StoredCase& stored, const ChainDef& chain) {
  Options options{{"chain", std::string(chain.name)}};
  const auto ask = [&](const char* name, const char* path) {
    if (has(stored, path)) options.set(name, "1");
  };
  ask("swizzle", "outputs/scales_swizzled");
  ask("dequant", "outputs/dequant");
  ask("dequant_f32", "outputs/dequant_f32");
  ask("transpose", "outputs/codes_t");
  if (has(stored, "outputs/encode_scale") && !has(stored, "outputs/amax"))
    options.set("stats", "0");
  if (attribute(stored, "arg_pow_2_scales") == "True") options.set("pow2", "1");
  if (const std::string f = amax_factor(attribute(stored, "per_tensor_scale")); !f.empty())
    options.set("amax_factor", f);
  return options;
}

}  // namespace

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  const ChainDef* chain = registry().chain_of_group(stored.group);
  if (chain == nullptr) {
    imported.unsupported = "no chain here explains the group '" + stored.group + "'";
    return imported;
  }
  if (!has(stored, "inputs/x"))
    throw GoldenError(stored.file + ": " + stored.name + " has no inputs/x");
  Tensor x = stored.read("inputs/x");
  if (x.spec.dims.empty() || x.spec.dims.size() > 2)
    throw GoldenError(stored.file + ": " + stored.name +
                      ": inputs/x is neither a vector nor a matrix");
  x.spec.name = "x";
  x.spec.role = Role::Input;
  x.spec.dims.back().name = "K";
  Case& c = imported.problem;
  c.op = "quantize";
  c.dtype = x.spec.dtype;
  c.fill = stored.name;
  c.options = options_of(stored, *chain);
  c.check = Check::Golden;
  if (x.spec.dims.size() == 2) {
    x.spec.dims.front().name = "M";
    c.sizes.set({.name = "M", .extent = x.spec.dims.front().extent});
  }
  c.sizes.set({.name = "K", .extent = x.spec.dims.back().extent});
  imported.inputs.add(std::move(x));
  for (const std::string& path : stored.paths)
    if (path.starts_with("outputs/")) imported.results[path.substr(8)] = path;
  if (chain->import != nullptr) chain->import(stored, imported);
  return imported;
}

}  // namespace parity::quantize
