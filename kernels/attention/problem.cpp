#include "kernels/attention/problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace parity::attention_kernel {
namespace {

std::vector<Document> documents_of(const Case& c, std::int64_t B) {
  const Size &T = *c.sizes.find("T"), &S = c.sizes.find("S") ? *c.sizes.find("S") : T;
  std::vector<Document> documents;
  for (std::int64_t b = 0; b < B; ++b) {
    if (T.parts.empty()) {
      documents.push_back({b * T.extent, T.extent, b * S.extent, S.extent});
      continue;
    }
    Document d{.first_query = b * T.extent, .first_key = b * S.extent};
    for (std::size_t i = 0; i < T.parts.size(); ++i) {
      d.queries = T.parts[i], d.keys = S.parts[i];
      documents.push_back(d);
      d.first_query += d.queries, d.first_key += d.keys;
    }
  }
  return documents;
}

void add_tiles(std::vector<Item>& items, std::int64_t document, std::int64_t heads,
               std::int64_t rows) {
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t first = 0; first < rows; first += kTile)
      items.push_back({document, h, {first, std::min(kTile, rows - first)}});
}

}  // namespace

std::int64_t Problem::seen_by(const Document& d, std::int64_t t) const {
  if (!causal) return d.keys;
  const bool from_top = top != fault("P-at-align");
  std::int64_t seen = t + 1 + (from_top ? 0 : d.keys - d.queries);
  if (fault("P-at-mask")) ++seen;
  if (fault("A-AT08")) seen = (seen + kTile - 1) / kTile * kTile;
  return std::clamp<std::int64_t>(seen, 0, d.keys);
}

std::int64_t Problem::key_head(std::int64_t h) const {
  return fault("P-at-kv-head") ? h % G : h / (H / G);
}

std::vector<Item> Problem::query_tiles() const {
  std::vector<Item> items;
  for (std::size_t i = 0; i < documents.size(); ++i)
    add_tiles(items, static_cast<std::int64_t>(i), H, documents[i].queries);
  return items;
}
std::vector<Item> Problem::key_tiles() const {
  std::vector<Item> items;
  for (std::size_t i = 0; i < documents.size(); ++i)
    add_tiles(items, static_cast<std::int64_t>(i), G, documents[i].keys);
  return items;
}
std::vector<Item> Problem::key_heads() const {
  std::vector<Item> items;
  for (std::size_t i = 0; i < documents.size(); ++i)
    for (std::int64_t g = 0; g < G; ++g)
      items.push_back({static_cast<std::int64_t>(i), g, {0, documents[i].keys}});
  return items;
}

namespace {

Stored at(std::byte* data, bool bf16, std::int64_t row, std::int64_t stride, std::int64_t column) {
  return {data + (row * stride + column) * (bf16 ? 2 : 4), bf16, stride};
}

}  // namespace

Stored Problem::rows_in(std::string_view name, std::int64_t token, std::int64_t head,
                        std::int64_t heads, std::int64_t width) const {
  auto* data = const_cast<std::byte*>(launch.in<std::byte>(name));
  return at(data, bf16, token, heads * width, head * width);
}
Stored Problem::rows_out(std::string_view name, std::int64_t token, std::int64_t head,
                         std::int64_t heads, std::int64_t width) const {
  return at(launch.out<std::byte>(name), bf16, token, heads * width, head * width);
}

std::string refuses(const Case&, const Options& options) {
  const std::string isa = options.get("isa", "");
  return isa.empty() || kda_kernel::find_micro(isa) ? "" : "this processor has no " + isa;
}

Problem problem_of(const Launch& launch) {
  const Case& c = launch.problem;
  const std::string isa = launch.options.get("isa", "");
  Problem p{.launch = launch,
            .m = isa.empty() ? kda_kernel::best_micro() : *kda_kernel::find_micro(isa)};
  p.B = c.sizes.get("B", 1), p.T = c.sizes["T"], p.S = c.sizes.get("S", p.T);
  p.H = c.sizes.get("H", 1), p.G = c.sizes.get("G", p.H);
  p.D = c.sizes["D"], p.V = c.sizes.get("V", p.D);
  p.causal = c.options.integer("causal", 1) != 0;
  p.top = c.options.get("align", "") == "top";
  p.bf16 = c.dtype == Dtype::BF16;
  const double width = static_cast<double>(p.fault("P-at-scale") ? p.V : p.D);
  p.scale = static_cast<float>(c.options.real("scale", 1 / std::sqrt(width)));
  p.documents = documents_of(c, p.B);
  return p;
}

void mask(const Problem& p, const Document& d, Rows queries, Rows keys, Layout layout,
          float* logits, std::int64_t ld) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  if (p.seen_by(d, queries.first) >= keys.first + keys.count) return;
  for (std::int64_t t = 0; t < queries.count; ++t) {
    const std::int64_t seen = p.seen_by(d, queries.first + t) - keys.first;
    for (std::int64_t s = std::max<std::int64_t>(seen, 0); s < keys.count; ++s)
      logits[layout == Layout::KeysByQueries ? s * ld + t : t * ld + s] = kHidden;
  }
}

}  // namespace parity::attention_kernel
