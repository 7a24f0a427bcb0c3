// Stored cases of mla: the names of torchtitan and DeepSeek-V3 (wq_a, q_norm, ...) beside the
// released ones.
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "harness/text.hpp"
#include "references/blocks/stored.hpp"
#include "references/mla_case.hpp"

namespace parity::net {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kOtherNames = {
    {{"q_a_proj", "wq_a"},
     {"q_a_layernorm", "q_norm"},
     {"q_b_proj", "wq_b"},
     {"q_proj", "wq"},
     {"kv_a_proj_with_mqa", "wkv_a"},
     {"kv_a_layernorm", "kv_norm"},
     {"kv_b_proj", "wkv_b"},
     {"g_proj", "gate"},
     {"o_proj", "wo"}}};

std::string name_in(const StoredCase& stored, const std::string& ours) {
  if (holds(stored, ours)) return ours;
  for (const auto& [name, other] : kOtherNames)
    for (const char* kind : {"weight", "bias"})
      if (ours == fmt::format("params/{}.{}", name, kind)) {
        const std::string theirs = fmt::format("params/{}.{}", other, kind);
        if (holds(stored, theirs)) return theirs;
      }
  return ours;
}

// Lengths of documents from positions that restart.
std::vector<std::int64_t> documents_of(const Tensor& positions) {
  std::vector<std::int64_t> lengths;
  for (const double position : positions.widened()) {
    if (position == 0 || lengths.empty()) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

// The number that follows `key` in prose such as "{'factor': 40.0, 'mscale': 1.0}".
double number_behind(std::string_view text, std::string_view key, double otherwise) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const bool whole = at == 0 || (std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0 &&
                                   text[at - 1] != '_');
    const std::size_t end = at + key.size();
    if (!whole || end >= text.size() ||
        (std::isalnum(static_cast<unsigned char>(text[end])) != 0) || text[end] == '_')
      continue;
    const std::size_t first = text.find_first_of("0123456789", end);
    if (first == std::string_view::npos) return otherwise;
    const std::size_t last = text.find_first_not_of("0123456789.e-+", first);
    return to_real(
        std::string(text.substr(first, last == std::string_view::npos ? last : last - first)),
        std::string(key));
  }
  return otherwise;
}

void set_real(Case& c, const char* option, double value, double usual) {
  if (value != usual) c.options.set(option, shortest(value));
}

void import_rope(const StoredCase& stored, Case& c) {
  if (stored_integer(stored, "rotary", 0) == 0) return;
  if (holds(stored, "inputs/rope_angle")) {
    c.options.set("rope", "angles");
    return;
  }
  c.options.set("rope", stored_integer(stored, "rope_interleave", 1) != 0 ? "interleaved" : "half");
  set_real(c, "theta", stored_real(stored, "rope_theta", 10000), 10000);
  const std::string yarn = stored_text(stored, "yarn", "none");
  if (yarn == "none") return;
  const Yarn usual;
  set_real(c, "yarn", number_behind(yarn, "factor", 1), 1);
  set_real(c, "original", number_behind(yarn, "original_max_position_embeddings", usual.original),
           usual.original);
  set_real(c, "beta_fast", number_behind(yarn, "beta_fast", usual.beta_fast), usual.beta_fast);
  set_real(c, "beta_slow", number_behind(yarn, "beta_slow", usual.beta_slow), usual.beta_slow);
  set_real(c, "mscale", number_behind(yarn, "mscale", usual.mscale), usual.mscale);
  set_real(c, "mscale_all", number_behind(yarn, "mscale_all_dim", usual.mscale_all),
           usual.mscale_all);
}

void import_mask(const StoredCase& stored, Case& c) {
  if (holds(stored, "inputs/mask_allowed")) {
    c.options.set("mask", "given");
    // Released code and transformers add the smallest number; torchtitan and DeepSeek fill.
    const bool added = stored_text(stored, "mask_fill").find("added") != std::string::npos ||
                       stored_text(stored, "source").starts_with("transformers");
    if (added) c.options.set("masked", "leak");
  } else if (stored_integer(stored, "causal", 1) == 0) {
    c.options.set("mask", "full");
  }
}

}  // namespace

ImportedCase mla_import(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "mla";
  c.dtype = stored_dtype(stored);
  const auto size = [&](const char* letter, const char* attribute, std::int64_t otherwise) {
    const std::int64_t extent = stored_integer(stored, attribute, otherwise);
    if (extent > 0) c.sizes.set({letter, extent, {}});
  };
  size("B", "batch", 1);
  size("T", "seq", 0);
  if (holds(stored, "inputs/positions")) {
    const std::vector<std::int64_t> documents = documents_of(stored.read("inputs/positions"));
    if (documents.size() > 1) c.sizes.set({"T", c.sizes["T"], documents});
  }
  size("D", "hidden", 0);
  size("H", "heads", 1);
  size("Q", "q_lora_rank", 0);
  size("C", "kv_lora_rank", 0);
  size("N", "qk_nope_head_dim", 0);
  size("R", "qk_rope_head_dim", 0);
  size("V", "v_head_dim", 0);
  c.options.set("taps", "1");
  if (stored_integer(stored, "output_gate", 0) != 0) c.options.set("gate", "1");
  if (stored_integer(stored, "attention_bias", 0) != 0) c.options.set("bias", "1");
  if (stored_text(stored, "attn_impl") == "absorb") c.options.set("absorb", "1");
  set_real(c, "eps", stored_real(stored, "latent_norm_eps", 1e-6), 1e-6);
  import_rope(stored, c);
  import_mask(stored, c);
  const double usual = mla_config(c).softmax_scale(), scale = stored_real(stored, "scale", usual);
  if (std::abs(scale - usual) > 4e-16 * usual) c.options.set("scale", shortest(scale));
  import_composite(stored, registry().op_or_throw(c.op), imported,
                   [&](const std::string& ours) { return name_in(stored, ours); });
  return imported;
}

}  // namespace parity::net
