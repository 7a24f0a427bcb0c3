// What an attention case is (attention.cpp): extents and documents.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "harness/case.hpp"

namespace parity::net {

struct AttentionDocument {
  std::int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;  // in one row of the batch
};
struct AttentionExtents {
  std::int64_t B = 1, T = 0, S = 0, H = 1, G = 1, D = 0, V = 0;
  std::vector<AttentionDocument> documents = {};
};

inline AttentionExtents attention_extents(const Case& c) {
  const Size &T = *c.sizes.find("T"), &S = c.sizes.find("S") ? *c.sizes.find("S") : T;
  AttentionExtents e{.B = c.sizes.get("B", 1),
                     .T = T.extent,
                     .S = S.extent,
                     .H = c.sizes.get("H", 1),
                     .G = c.sizes.get("G", c.sizes.get("H", 1)),
                     .D = c.sizes["D"],
                     .V = c.sizes.get("V", c.sizes["D"])};
  if (T.parts.empty()) {
    e.documents = {{0, e.T, 0, e.S}};
    return e;
  }
  AttentionDocument d;
  for (std::size_t i = 0; i < T.parts.size() && i < S.parts.size(); ++i) {
    d.queries = T.parts[i], d.keys = S.parts[i];
    e.documents.push_back(d);
    d.first_query += d.queries, d.first_key += d.keys;
  }
  return e;
}

inline double attention_scale(const Case& c) {
  return c.options.real("scale", 1 / std::sqrt(static_cast<double>(c.sizes["D"])));
}

inline std::string attention_refuses(const Case& c) {
  const Size *T = c.sizes.find("T"), *S = c.sizes.find("S");
  if (S && S->parts.size() != T->parts.size()) return "as many documents of keys as of queries";
  const std::int64_t H = c.sizes.get("H", 1), G = c.sizes.get("G", H);
  if (G == 0 || H % G != 0) return "key heads must divide the query heads";
  return "";
}

}  // namespace parity::net
