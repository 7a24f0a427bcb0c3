// Backward from the saved o and log sum exp (FlashAttention-2, algorithm 2).
//   P = exp(Z - lse),  dP = do v^T,  dZ = P (dP - delta),  delta = do . o
//   dv = P^T do,  dk = scale dZ^T q,  dq = scale dZ k
// Where there are key heads enough for all threads, each thread takes whole ones, and five products
// do. Else two passes that each write their own rows: over tiles of keys for dk and dv, over tiles
// of queries for dq, with seven. Both add the same terms in the same order: the same bits.
#include <algorithm>
#include <cmath>

#include "harness/numeric/formats.hpp"
#include "kernels/attention/problem.hpp"

namespace parity::attention_kernel {
namespace {

constexpr std::int64_t kLd = kTile + 16;  // an odd number of cache lines

// What both passes share: tiles of q, k, v, do in f32, one side of them transposed.
class Pass {
 protected:
  explicit Pass(const Problem& problem)
      : p(problem),
        ldd(leading(p.D)),
        ldv(leading(p.V)),
        memory_(kTile * (3 * ldd + 3 * ldv) + (pad(p.D) + pad(p.V) + 2 * kTile) * kLd + 3 * kTile) {
    q = memory_.take(kTile * ldd);
    k = memory_.take(kTile * ldd);
    sum_D = memory_.take(kTile * ldd);
    v = memory_.take(kTile * ldv);
    d_o = memory_.take(kTile * ldv);
    sum_V = memory_.take(kTile * ldv);
    D_T = memory_.take(pad(p.D) * kLd);
    V_T = memory_.take(pad(p.V) * kLd);
    weights = memory_.take(kTile * kLd);
    d_logits = memory_.take(kTile * kLd);
    top = memory_.take(kTile);
    inverse = memory_.take(kTile);
    delta = memory_.take(kTile);
  }

  void load_keys(const Document& d, std::int64_t g, Rows rows) {
    const std::int64_t token = d.first_key + rows.first;
    p.m.load(p.rows_in("k", token, g, p.G, p.D), rows.count, p.D, k, ldd);
    p.m.load(p.rows_in("v", token, g, p.G, p.V), rows.count, p.V, v, ldv);
  }

  void load_queries(const Document& d, std::int64_t h, Rows rows) {
    const std::int64_t token = d.first_query + rows.first;
    p.m.load(p.rows_in("q", token, h, p.H, p.D), rows.count, p.D, q, ldd);
    p.m.load(p.rows_in("cotangents/o", token, h, p.H, p.V), rows.count, p.V, d_o, ldv);
    const std::int64_t first = p.fault("A-AT03") ? d.first_query : token;
    const std::int64_t at = row_of(first, h);
    const float *m = p.launch.save<float>("top") + at,
                *l = p.launch.save<float>("inverse_sum") + at;
    for (std::int64_t t = 0; t < kTile; ++t) {
      const bool seen = t < rows.count && std::isfinite(m[t]);
      top[t] = seen ? m[t] : 0;  // a row that saw nothing has no weights
      inverse[t] = seen ? l[t] : 0;
      delta[t] = t < rows.count ? deltas()[row_of(token, h) + t] : 0;
    }
  }

  // Logits, scaled and masked, and dP of a tile: rows of keys or of queries against the transposed
  // other side.
  void multiply(const Document& d, Rows queries, Rows keys, Layout layout) {
    const bool by_keys = layout == Layout::KeysByQueries;
    const std::int64_t m = by_keys ? keys.count : queries.count;
    const std::int64_t n = pad(by_keys ? queries.count : keys.count);
    p.m.product({.m = m,
                 .n = n,
                 .k = p.D,
                 .a = by_keys ? k : q,
                 .a_row = ldd,
                 .b = D_T,
                 .ldb = kLd,
                 .out = weights,
                 .ldo = kLd});
    p.m.scale(weights, p.scale, kLd, m, n);
    mask(p, d, queries, keys, layout, weights, kLd);
    p.m.product({.m = m,
                 .n = n,
                 .k = p.V,
                 .a = by_keys ? v : d_o,
                 .a_row = ldv,
                 .b = V_T,
                 .ldb = kLd,
                 .out = d_logits,
                 .ldo = kLd});
  }

  // to [rows,width] += tile^T x, the tile read down its columns.
  void add_product(const float* tile, std::int64_t rows, std::int64_t terms, const float* x,
                   std::int64_t width, std::int64_t ld, float* to) {
    p.m.product({.m = rows,
                 .n = pad(width),
                 .k = terms,
                 .a = tile,
                 .a_row = 1,
                 .a_col = kLd,
                 .b = x,
                 .ldb = ld,
                 .out = to,
                 .ldo = ld,
                 .onto = Onto::Add});
  }

  // Of a tensor [B,H,T].
  std::int64_t row_of(std::int64_t token, std::int64_t h) const {
    return (token / p.T * p.H + h) * p.T + token % p.T;
  }
  float* deltas() const {
    return static_cast<float*>(static_cast<void*>(p.launch.workspace.data()));
  }

  const Problem& p;
  const std::int64_t ldd, ldv;
  Scratch memory_;
  float *q, *k, *v, *d_o, *sum_D, *sum_V, *D_T, *V_T, *weights, *d_logits, *top, *inverse, *delta;
};

// delta = do . o, in the order of the products: where a query sees one key, o is that key's value
// and delta its dP to the bit, so that dq vanishes there as it must.
class DeltaPass : Pass {
 public:
  explicit DeltaPass(const Problem& problem) : Pass(problem) {
    o_T_ = own_.take(pad(p.V) * kLd);
    ones_ = own_.take(kTile);
    std::fill_n(ones_, kTile, p.fault("P-at-no-delta") ? 0.0f : 1.0f);
  }

  void operator()(const Item& item) {
    const Document& d = p.documents[static_cast<std::size_t>(item.document)];
    const std::int64_t token = d.first_query + item.rows.first, n = pad(item.rows.count);
    const float* o = p.launch.save<float>("o") + (token * p.H + item.head) * p.V;
    p.m.load({o, false, p.H * p.V}, item.rows.count, p.V, v, ldv);
    if (p.fault("P-at-o-rounded"))
      for (std::int64_t i = 0; i < item.rows.count * ldv; ++i)
        v[i] = float_from_bf16(bf16_from_float(v[i]));
    p.m.load(p.rows_in("cotangents/o", token, item.head, p.H, p.V), item.rows.count, p.V, d_o, ldv);
    p.m.transpose(v, ldv, item.rows.count, pad(p.V), o_T_, kLd);
    p.m.transpose(d_o, ldv, item.rows.count, pad(p.V), V_T, kLd);
    p.m.column_dots(V_T, o_T_, kLd, p.V, n, ones_, delta);
    std::copy_n(delta, item.rows.count, deltas() + row_of(token, item.head));
  }

 private:
  Scratch own_{pad(p.V) * kLd + kTile};
  float *o_T_, *ones_;
};

// Weights and logit gradients as [queries, keys]; keys transposed once.
class KeyPass : protected Pass {
 public:
  explicit KeyPass(const Problem& problem) : Pass(problem) {}

  void operator()(const Item& item) {
    add_tile(item, [](std::int64_t, Rows, Rows) {});
  }

 protected:
  // dk and dv of a tile of keys; then(head, queries, keys) sees every tile's logit gradients.
  template <class Then>
  void add_tile(const Item& item, const Then& then) {
    const Document& d = p.documents[static_cast<std::size_t>(item.document)];
    load_keys(d, item.head, item.rows);
    p.m.transpose(k, ldd, item.rows.count, pad(p.D), D_T, kLd);
    p.m.transpose(v, ldv, item.rows.count, pad(p.V), V_T, kLd);
    std::fill_n(sum_D, kTile * ldd, 0.0f);
    std::fill_n(sum_V, kTile * ldv, 0.0f);
    for (std::int64_t h = 0; h < p.H; ++h) {
      if (p.key_head(h) != item.head) continue;
      for (std::int64_t first = 0; first < d.queries; first += kTile) {
        const Rows queries{first, std::min(kTile, d.queries - first)};
        if (p.seen_by(d, queries.first + queries.count - 1) <= item.rows.first) continue;
        add_queries(d, h, queries, item.rows);
        then(h, queries, item.rows);
      }
    }
    const std::int64_t token = d.first_key + item.rows.first;
    p.m.scale(sum_D, p.scale, ldd, item.rows.count, pad(p.D));
    p.m.store(sum_D, ldd, item.rows.count, p.D,
              p.rows_out("grads/inputs/k", token, item.head, p.G, p.D));
    p.m.store(sum_V, ldv, item.rows.count, p.V,
              p.rows_out("grads/inputs/v", token, item.head, p.G, p.V));
  }

 private:
  void add_queries(const Document& d, std::int64_t h, Rows queries, Rows keys) {
    load_queries(d, h, queries);
    multiply(d, queries, keys, Layout::QueriesByKeys);
    const std::int64_t n = pad(keys.count);
    for (std::int64_t t = 0; t < queries.count; ++t) {
      float *w = weights + t * kLd, *z = d_logits + t * kLd;
      for (std::int64_t s = 0; s < n; ++s) w[s] -= top[t];
      p.m.exp(w, n, w);
      for (std::int64_t s = 0; s < n; ++s) {
        w[s] *= inverse[t];
        z[s] = w[s] * (z[s] - delta[t]);
      }
    }
    if (p.fault("P-at-group-sum") && h % (p.H / p.G) != 0) return;
    add_product(weights, keys.count, queries.count, d_o, p.V, ldv, sum_V);
    add_product(d_logits, keys.count, queries.count, q, p.D, ldd, sum_D);
  }
};

// All of one document and key head: dq of its query heads grows from tile to tile of keys.
class HeadPass : KeyPass {
 public:
  explicit HeadPass(const Problem& problem) : KeyPass(problem) {}

  void operator()(const Item& item) {
    const Document& d = p.documents[static_cast<std::size_t>(item.document)];
    const std::int64_t group = p.H / p.G;
    dq_.assign(static_cast<std::size_t>(group * d.queries * ldd), 0);
    const auto rows = [&](std::int64_t h, std::int64_t t) {
      const std::int64_t i = p.fault("P-at-kv-head") ? h / p.G : h % group;
      return dq_.data() + (i * d.queries + t) * ldd;
    };
    for (std::int64_t first = 0; first < d.keys; first += kTile)
      add_tile({item.document, item.head, {first, std::min(kTile, d.keys - first)}},
               [&](std::int64_t h, Rows queries, Rows keys) {
                 p.m.product({.m = queries.count,
                              .n = pad(p.D),
                              .k = keys.count,
                              .a = d_logits,
                              .a_row = kLd,
                              .b = k,
                              .ldb = ldd,
                              .out = rows(h, queries.first),
                              .ldo = ldd,
                              .onto = Onto::Add});
               });
    for (std::int64_t h = 0; h < p.H && d.queries > 0; ++h) {
      if (p.key_head(h) != item.head) continue;
      p.m.scale(rows(h, 0), p.fault("P-at-dq-scale") ? 1 : p.scale, ldd, d.queries, pad(p.D));
      p.m.store(rows(h, 0), ldd, d.queries, p.D,
                p.rows_out("grads/inputs/q", d.first_query, h, p.H, p.D));
    }
  }

 private:
  std::vector<float> dq_ = {};  // [heads of the group, queries, D]
};

// Weights and logit gradients as [keys, queries]; queries transposed once.
class QueryPass : Pass {
 public:
  explicit QueryPass(const Problem& problem) : Pass(problem) {}

  void operator()(const Item& item) {
    const Document& d = p.documents[static_cast<std::size_t>(item.document)];
    load_queries(d, item.head, item.rows);
    p.m.transpose(q, ldd, item.rows.count, pad(p.D), D_T, kLd);
    p.m.transpose(d_o, ldv, item.rows.count, pad(p.V), V_T, kLd);
    std::fill_n(sum_D, kTile * ldd, 0.0f);
    const std::int64_t last = p.seen_by(d, item.rows.first + item.rows.count - 1);
    for (std::int64_t first = 0; first < last; first += kTile)
      add_keys(d, item, {first, std::min(kTile, d.keys - first)});
    p.m.scale(sum_D, p.fault("P-at-dq-scale") ? 1 : p.scale, ldd, item.rows.count, pad(p.D));
    p.m.store(sum_D, ldd, item.rows.count, p.D,
              p.rows_out("grads/inputs/q", d.first_query + item.rows.first, item.head, p.H, p.D));
  }

 private:
  void add_keys(const Document& d, const Item& item, Rows keys) {
    load_keys(d, p.key_head(item.head), keys);
    multiply(d, item.rows, keys, Layout::KeysByQueries);
    const std::int64_t n = pad(item.rows.count);
    for (std::int64_t s = 0; s < keys.count; ++s) {
      float *w = weights + s * kLd, *z = d_logits + s * kLd;
      for (std::int64_t t = 0; t < n; ++t) w[t] -= top[t];
      p.m.exp(w, n, w);
      for (std::int64_t t = 0; t < n; ++t) z[t] = w[t] * inverse[t] * (z[t] - delta[t]);
    }
    add_product(d_logits, item.rows.count, keys.count, k, p.D, ldd, sum_D);
  }
};

}  // namespace

void online_backward(const Problem& p) {
  for_items<DeltaPass>(p, p.query_tiles());
  const std::vector<Item> heads = p.key_heads();
  if (std::ssize(heads) >= p.launch.threads) return for_items<HeadPass>(p, heads);
  for_items<KeyPass>(p, p.key_tiles());
  for_items<QueryPass>(p, p.query_tiles());
}

}  // namespace parity::attention_kernel
