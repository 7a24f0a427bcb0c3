#include "references/router_import.hpp"

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::net {
namespace {

bool from(const StoredCase& stored, std::string_view part) {
  return stored_text(stored, "source").find(part) != std::string::npos;
}

// Mixtral and gpt-oss renormalise by nature, Qwen by a flag, none of them with an epsilon.
bool softmax_source(const StoredCase& stored) {
  return from(stored, "mixtral") || from(stored, "qwen") || from(stored, "gpt_oss");
}

std::string score_of(const StoredCase& stored) {
  const std::string otherwise = from(stored, "gpt_oss")  ? "topk_softmax"
                                : softmax_source(stored) ? "softmax"
                                                         : "sigmoid";
  return stored_text(stored, "score_func", otherwise);
}

// The path among `paths` that the source holds; the first where it holds none.
std::string first_held(const StoredCase& stored, const std::vector<const char*>& paths) {
  for (const char* path : paths)
    if (holds(stored, path)) return path;
  return paths.front();
}

std::string bias_path(const StoredCase& stored) {
  return first_held(stored, {"inputs/expert_bias", "params/e_score_correction_bias",
                             "params/gate.e_score_correction_bias"});
}

void set(Case& c, const char* option, double value, double usual) {
  if (value != usual) c.options.set(option, shortest(value));
}

}  // namespace

void import_rule(const StoredCase& stored, Case& c) {
  if (const std::string score = score_of(stored); score != "sigmoid") c.options.set("score", score);
  const bool flag =
      stored_integer(stored, "route_norm", stored_integer(stored, "norm_topk_prob", 1)) != 0;
  // The released gate renormalises only where there is more than one choice.
  const bool single = from(stored, "released modelling code") && c.sizes["K"] == 1;
  set(c, "renorm", flag && !single ? 1 : 0, 1);
  set(c, "renorm_eps", stored_real(stored, "renorm_eps", softmax_source(stored) ? 0 : 1e-20),
      1e-20);
  set(c, "scale",
      stored_real(stored, "route_scale", stored_real(stored, "routed_scaling_factor", 1)), 1);
  const std::int64_t groups =
      stored_integer(stored, "groups", stored_integer(stored, "n_group", 1));
  const std::int64_t stay =
      stored_integer(stored, "limited_groups", stored_integer(stored, "topk_group", 1));
  if (groups > 1 && stay < groups) {
    c.options.set("groups", std::to_string(groups));
    c.options.set("top_groups", std::to_string(stay));
  }
}

ImportedCase import_router(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "router";
  c.dtype = stored_dtype(stored);
  const std::string weight = first_held(stored, {"params/gate.weight", "params/weight"});
  const std::vector<std::int64_t> gate = stored_shape(stored, weight);
  std::int64_t tokens = 1;
  for (const std::int64_t extent : stored_shape(stored, "inputs/x")) tokens *= extent;
  c.sizes = Sizes{{"T", tokens / gate.at(1), {}},
                  {"D", gate.at(1), {}},
                  {"E", gate.at(0), {}},
                  {"K", stored_integer(stored, "top_k", 1), {}}};
  import_rule(stored, c);
  const std::string linear_bias = first_held(stored, {"params/gate.bias", "params/bias"});
  c.options.set("taps", "1");
  if (!holds(stored, bias_path(stored))) c.options.set("bias", "0");
  if (holds(stored, linear_bias)) c.options.set("linear_bias", "1");
  if (holds(stored, "outputs/aux_loss")) c.options.set("aux", "1");
  if (holds(stored, "outputs/ids_source_order")) c.options.set("order", "1");
  if (holds(stored, "outputs/torchtitan_cpu/ids_ascending")) c.options.set("gate_bf16", "1");
  // Which of equal scores wins is no property of the formula: the source's choice is taken.
  if (stored_text(stored, "ties", "none") != "none") c.options.set("replay", "1");
  import_composite(stored, registry().op_or_throw(c.op), imported, [&](const std::string& ours) {
    if (ours == "params/gate.weight") return weight;
    if (ours == "params/gate.bias") return linear_bias;
    if (ours == "params/gate.e_score_correction_bias") return bias_path(stored);
    if (ours == "ids") return std::string("outputs/ids_ascending");
    if (ours == "order") return std::string("outputs/ids_source_order");
    return ours;
  });
  if (!imported.unsupported.empty()) return imported;
  const std::vector<std::pair<const char*, std::vector<const char*>>> names = {
      {"ids", {"outputs/ids_ascending", "outputs/released/ids_ascending"}},
      {"weights", {"outputs/weights_ascending", "outputs/released/weights_ascending"}},
      {"weights_by_expert", {"outputs/weights_dense"}},
      {"tap/logits", {"outputs/tap/logits", "outputs/logits"}},
      {"tap/scores", {"outputs/tap/scores", "outputs/scores"}},
      {"source/ids", {"outputs/ids_source_order"}},
      {"source/weights", {"outputs/weights_source_order"}},
      {"bf16/ids", {"outputs/torchtitan_cpu/ids_ascending"}},
      {"bf16/scores", {"outputs/torchtitan_cpu/scores"}},
      {"bf16/weights", {"outputs/torchtitan_cpu/weights_ascending"}}};
  for (const auto& [ours, theirs] : names)
    if (const std::string path = first_held(stored, theirs); holds(stored, path))
      imported.results[ours] = path;
  return imported;
}

}  // namespace parity::net
