// q, k, v [B, H, tokens, width], as scaled_dot_product_attention takes them: heads do not meet, so
// each is a batch of its own here, and no element moves. Whether a query sees all keys is said by
// the attribute `causal`, or by "causal=0" or 1 in the note; `scale` where it is not width^-1/2.
#include "references/attention_import.hpp"

#include <fmt/format.h>

#include "harness/failure.hpp"
#include "references/blocks/stored.hpp"

namespace parity::net {
namespace {

bool causal(const StoredCase& stored) {
  if (stored.attributes.contains("causal")) return stored_integer(stored, "causal", 1) != 0;
  return stored_text(stored, "note").find("causal=0") == std::string::npos;
}

}  // namespace

ImportedCase import_attention(const StoredCase& stored) {
  const std::vector<std::int64_t> q = stored_shape(stored, "inputs/q"),
                                  k = stored_shape(stored, "inputs/k"),
                                  v = stored_shape(stored, "inputs/v");
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    throw GoldenError(
        fmt::format("{}: {}: q, k and v are [B, H, tokens, width]", stored.file, stored.name));
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "attention";
  if (k[1] != q[1]) {
    imported.unsupported = "heads that share keys lie in another order than the op's";
    return imported;
  }
  c.dtype = stored.read("inputs/q").spec.dtype;
  c.sizes = Sizes{{"B", q[0] * q[1], {}}, {"T", q[2], {}}, {"S", k[2], {}},
                  {"H", 1, {}},           {"D", q[3], {}}, {"V", v[3], {}}};
  c.options.set("lse", "0");
  c.options.set("causal", causal(stored) ? "1" : "0");
  c.options.set("align", "top");  // query t sees keys up to t
  if (const std::string scale = stored_text(stored, "scale"); !scale.empty())
    c.options.set("scale", scale);
  import_composite(stored, registry().op_or_throw("attention"), imported);
  return imported;
}

}  // namespace parity::net
