#include "references/blocks/moe_specs.hpp"

namespace parity::net {

void add_experts(std::vector<TensorSpec>& specs, const Case& c, const Dim& width) {
  const Dim hidden{"F", c.sizes["F"]};
  for (std::int64_t e = 0; e < c.sizes["E"]; ++e) {
    const std::string expert = "params/experts." + std::to_string(e);
    const auto weight = [&](const char* name, std::vector<Dim> dims) {
      specs.push_back({.name = expert + name, .dtype = c.dtype, .dims = std::move(dims)});
    };
    weight(".w1.weight", {hidden, width});
    weight(".w3.weight", {hidden, width});
    weight(".w2.weight", {width, hidden});
  }
}

Unit unit_of(const Case& c, std::string_view usual) {
  if (c.options.get("act", usual) != "situ") return {};
  return {.beta = c.options.real("situ_beta", 4),
          .linear_beta = c.options.real("situ_linear_beta", 25)};
}

TensorSpec gradient_of(const TensorSpec& input) {
  const bool parameter = input.name.starts_with("params/");
  return {.name = (parameter ? "grads/" : "grads/inputs/") + input.name,
          .role = Role::Gradient,
          .dtype = input.dtype,
          .dims = input.dims,
          .parameter = parameter ? input.name.substr(7) : ""};
}

}  // namespace parity::net
