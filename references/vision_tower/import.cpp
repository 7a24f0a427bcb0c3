#include "references/vision_tower/import.hpp"

#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/blocks/stored.hpp"
#include "references/blocks/vision.hpp"

namespace parity::net::vision {
namespace {

enum class Names : std::uint8_t { Released, Torchtitan, Transformers };

Names names_of(const StoredCase& stored) {
  if (holds(stored, "params/pos_embed")) return Names::Torchtitan;
  return holds(stored, "params/vision_tower.patch_embed.pos_emb.position_embeddings")
             ? Names::Transformers
             : Names::Released;
}

std::string theirs(Names names, const std::string& ours) {
  constexpr std::string_view kParams = "params/";
  if (!ours.starts_with(kParams) || names == Names::Released) return ours;
  const std::string released = ours.substr(kParams.size());
  return std::string(kParams) + (names == Names::Torchtitan ? torchtitan_vision_name(released)
                                                            : transformers_vision_name(released));
}

std::string grids_of(const StoredCase& stored) {
  std::vector<Grid> grids;
  const std::vector<double> thw = stored.read("inputs/grid_thw").widened();
  for (std::size_t i = 0; i + 2 < thw.size(); i += 3)
    grids.push_back({static_cast<std::int64_t>(thw[i]), static_cast<std::int64_t>(thw[i + 1]),
                     static_cast<std::int64_t>(thw[i + 2])});
  return print_grids(grids);
}

// "2,2" -> "2x2"
std::string by_x(std::string text) {
  for (char& c : text)
    if (c == ',') c = 'x';
  return text;
}

void set_unless(Options& options, std::string_view name, const std::string& value,
                std::string_view usual) {
  if (!value.empty() && value != usual) options.set(name, value);
}

// Of the tower's norms: by the rule of its dtype, by a number, or inside "layernorm 1e-5".
std::string eps_of(const StoredCase& stored) {
  if (stored_text(stored, "eps_rule").find("finfo") != std::string::npos) return "finfo";
  std::string text = stored_text(stored, "vit_norm_eps");
  if (text == "None") return "finfo";
  const std::string norm = stored_text(stored, "norm");
  if (text.empty() && norm.find(' ') != std::string::npos) text = norm.substr(norm.rfind(' ') + 1);
  return text.empty() ? text : shortest(to_real(text, "eps of the tower's norms"));
}

}  // namespace

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "vision_tower";
  c.dtype = stored_dtype(stored);
  const Names names = names_of(stored);
  const auto shape = [&](const std::string& ours) {
    return stored_shape(stored, theirs(names, "params/" + ours));
  };
  const std::string block = "vision_tower.encoder.blocks.0.";
  const std::vector<std::int64_t> table = shape("vision_tower.patch_embed.pos_emb.weight");
  const std::vector<std::int64_t> wo = shape(block + "wo.weight");
  const std::vector<std::int64_t> fc0 = shape(block + "mlp.fc0.weight");
  const std::vector<std::int64_t> proj0 = shape("mm_projector.proj.0.weight");
  const std::vector<std::int64_t> proj2 = shape("mm_projector.proj.2.weight");
  c.sizes = Sizes{{"L", stored_integer(stored, "layers", 1), {}},
                  {"D", wo.at(0), {}},
                  {"H", stored_integer(stored, "heads", 1), {}},
                  {"Q", wo.at(1), {}},
                  {"F", fc0.at(0), {}},
                  {"P", stored_integer(stored, "patch", 14), {}},
                  {"M", table.at(0), {}},
                  {"N", table.at(1), {}},
                  {"J", proj0.at(0), {}},
                  {"O", proj2.at(0), {}}};
  Options& o = c.options;
  o.set("grids", grids_of(stored));
  o.set("taps", "1");
  const bool k25 = holds(stored, "params/" + block + "wo.bias") ||
                   holds(stored, theirs(names, "params/" + block + "norm0.bias"));
  if (k25) o.set("form", "k25");
  if (!holds(stored, theirs(names, "params/" + block + "wqkv.weight"))) o.set("qkv", "split");
  if (names == Names::Torchtitan) o.set("layout", "padded");
  if (names == Names::Transformers) o.set("rope", "halves");
  set_unless(o, "eps", eps_of(stored), k25 ? "1e-5" : "finfo");
  set_unless(o, "projector_eps", stored_text(stored, "projector_norm_eps"), "1e-05");
  set_unless(o, "merge", by_x(stored_text(stored, "merge")), "2x2");
  set_unless(o, "theta", shortest(stored_real(stored, "theta", 1e4)), shortest(1e4));
  set_unless(o, "gelu", stored_text(stored, "vit_gelu"), "tanh");
  set_unless(o, "projector_gelu", stored_text(stored, "projector_gelu"), "erf");
  if (stored_text(stored, "interpolation").starts_with("bicubic"))
    o.set("interpolation", "bicubic");
  import_composite(stored, registry().op_or_throw(c.op), imported,
                   [names](const std::string& ours) { return theirs(names, ours); });
  return imported;
}

}  // namespace parity::net::vision
