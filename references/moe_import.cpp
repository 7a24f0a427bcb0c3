#include "references/moe_import.hpp"

#include <array>
#include <fmt/format.h>

#include "harness/text.hpp"
#include "references/router_import.hpp"

namespace parity::net {
namespace {

// Ours and torchtitan's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kTorchtitan{
    {{"gate.weight", "router.gate.weight"},
     {"gate.e_score_correction_bias", "expert_bias_E"},
     {"routed_expert_down_proj.weight", "routed_down.weight"},
     {"routed_expert_norm.weight", "routed_norm.weight"},
     {"routed_expert_up_proj.weight", "routed_up.weight"},
     {"shared_experts.gate_proj.weight", "shared_experts.w1.weight"},
     {"shared_experts.up_proj.weight", "shared_experts.w3.weight"},
     {"shared_experts.down_proj.weight", "shared_experts.w2.weight"}}};

constexpr std::string_view kExperts = "experts.";

// "experts.3.w1.weight" -> "params/<prefix>experts.gate_up_proj[3,0:F]"
std::string stacked(const std::string& prefix, const std::string& ours, std::int64_t F) {
  const std::size_t dot = ours.find('.', kExperts.size());
  const std::string e = ours.substr(kExperts.size(), dot - kExperts.size());
  const std::string part = ours.substr(dot + 1, 2);
  if (part == "w2") return fmt::format("params/{}experts.down_proj[{}]", prefix, e);
  const std::int64_t first = part == "w1" ? 0 : F;
  return fmt::format("params/{}experts.gate_up_proj[{},{}:{}]", prefix, e, first, first + F);
}

}  // namespace

std::string stored_moe_name(const StoredCase& stored, const std::string& prefix,
                            const std::string& ours, std::int64_t F) {
  const std::string plain = "params/" + prefix + ours;
  if (holds(stored, plain)) return plain;
  if (ours.starts_with(kExperts)) {
    if (holds(stored, "params/" + prefix + "experts.gate_up_proj")) return stacked(prefix, ours, F);
    return "params/" + prefix + "routed_" + ours;
  }
  for (const auto& [released, theirs] : kTorchtitan)
    if (ours == released) {
      const std::string path = "params/" + prefix + std::string(theirs);
      if (holds(stored, path)) return path;
    }
  return plain;
}

ImportedCase import_moe(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = stored_text(stored, "op");
  c.dtype = stored_dtype(stored);
  const bool latent = c.op == "latent_moe";
  const std::int64_t F = stored_integer(stored, "expert_hidden", 0);
  const auto name = [&](const std::string& ours) { return stored_moe_name(stored, "", ours, F); };
  const std::vector<std::int64_t> gate = stored_shape(stored, name("gate.weight"));
  std::int64_t tokens = 1;
  for (const std::int64_t extent : stored_shape(stored, "inputs/x")) tokens *= extent;
  c.sizes = Sizes{{"T", tokens / gate.at(1), {}},
                  {"D", gate.at(1), {}},
                  {"E", gate.at(0), {}},
                  {"K", stored_integer(stored, "top_k", 1), {}},
                  {"F", F, {}}};
  if (latent)
    c.sizes.set({"L", stored_shape(stored, name("routed_expert_down_proj.weight")).at(0), {}});
  if (const std::string shared = name("shared_experts.gate_proj.weight"); holds(stored, shared))
    c.sizes.set({"S", stored_shape(stored, shared).at(0), {}});
  import_rule(stored, c);
  if (!holds(stored, name("gate.e_score_correction_bias"))) c.options.set("bias", "0");
  if (const std::string act = stored_text(stored, "activation", latent ? "situ" : "silu");
      act != (latent ? "situ" : "silu"))
    c.options.set("act", act);
  const auto real = [&](const char* option, const char* attribute, double usual) {
    if (const double value = stored_real(stored, attribute, usual); value != usual)
      c.options.set(option, shortest(value));
  };
  real("situ_beta", "situ_beta", 4);
  real("situ_linear_beta", "situ_linear_beta", 25);
  real("norm_eps", "routed_norm_eps", 1e-5);
  if (latent && !holds(stored, name("routed_expert_norm.weight"))) c.options.set("norm", "0");
  c.options.set("taps", "1");
  if (holds(stored, "outputs/tap/expert_ids")) c.options.set("order", "1");
  import_composite(stored, registry().op_or_throw(c.op), imported, [&](const std::string& ours) {
    if (ours == "order") return std::string("outputs/tap/expert_ids");
    return ours.starts_with("params/") ? name(ours.substr(7)) : ours;
  });
  if (holds(stored, "outputs/tap/routed_sum"))
    imported.results["routed_sum"] = "outputs/tap/routed_sum";
  return imported;
}

}  // namespace parity::net
