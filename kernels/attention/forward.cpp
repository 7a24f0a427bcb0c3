// Forward, one tile of queries after another against tiles of keys in order (FlashAttention-2,
// arXiv 2307.08691, algorithm 1). Logits are kept as [keys, queries], so that the running maximum
// and sum of a query lie in one lane:
//   m' = max(m, max_s Z),  a = exp(m - m'),  P = exp(Z - m'),  l' = a l + sum_s P,  O' = a O + P V
//   o = O / l,  lse = m + log l
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/problem.hpp"

namespace parity::attention_kernel {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

class Worker {
 public:
  explicit Worker(const Problem& problem)
      : p(problem),
        ldd(leading(p.D)),
        ldv(leading(p.V)),
        memory_(kTile * (2 * ldd + 2 * ldv) + (pad(p.D) + kTile) * kLd + 4 * kTile) {
    rows_ = memory_.take(kTile * ldd);
    qT_ = memory_.take(pad(p.D) * kLd);
    k_ = memory_.take(kTile * ldd);
    v_ = memory_.take(kTile * ldv);
    out_ = memory_.take(kTile * ldv);
    logits_ = memory_.take(kTile * kLd);
    top_ = memory_.take(kTile);
    sum_ = memory_.take(kTile);
    keep_ = memory_.take(kTile);
    safe_ = memory_.take(kTile);
  }

  void operator()(const Item& item) {
    const Document& d = p.documents[static_cast<std::size_t>(item.document)];
    begin(d, item);
    const std::int64_t last = p.seen_by(d, item.rows.first + item.rows.count - 1);
    for (std::int64_t first = 0; first < last; first += kTile)
      add_keys(d, item, {first, std::min(kTile, d.keys - first)});
    finish(d, item);
  }

 private:
  static constexpr std::int64_t kLd = kTile + 16;  // an odd number of cache lines

  void begin(const Document& d, const Item& item) {
    const std::int64_t token = d.first_query + item.rows.first;
    p.m.load(p.rows_in("q", token, item.head, p.H, p.D), item.rows.count, p.D, rows_, ldd);
    p.m.transpose(rows_, ldd, item.rows.count, pad(p.D), qT_, kLd);
    std::fill_n(out_, kTile * ldv, 0.0f);
    std::fill_n(top_, kTile, kNone);
    std::fill_n(sum_, kTile, 0.0f);
  }

  void add_keys(const Document& d, const Item& item, Rows keys) {
    const std::int64_t g = p.key_head(item.head), token = d.first_key + keys.first;
    const std::int64_t n = pad(item.rows.count);
    if (p.fault("P-at-tail") && keys.count % 16 != 0) keys.count -= keys.count % 16;
    p.m.load(p.rows_in("k", token, g, p.G, p.D), keys.count, p.D, k_, ldd);
    p.m.load(p.rows_in("v", token, g, p.G, p.V), keys.count, p.V, v_, ldv);
    p.m.product({.m = keys.count,
                 .n = n,
                 .k = p.D,
                 .a = k_,
                 .a_row = ldd,
                 .b = qT_,
                 .ldb = kLd,
                 .out = logits_,
                 .ldo = kLd});
    p.m.scale(logits_, p.scale, kLd, keys.count, n);
    mask(p, d, item.rows, keys, Layout::KeysByQueries, logits_, kLd);
    weigh(keys.count, n);
    p.m.product({.m = item.rows.count,
                 .n = pad(p.V),
                 .k = keys.count,
                 .a = logits_,
                 .a_row = 1,
                 .a_col = kLd,
                 .b = v_,
                 .ldb = ldv,
                 .out = out_,
                 .ldo = ldv,
                 .onto = Onto::ScaleRows,
                 .row_scale = keep_});
  }

  // Logits to weights under the new maximum, and what the old ones keep.
  void weigh(std::int64_t keys, std::int64_t n) {
    std::copy_n(top_, n, safe_);
    for (std::int64_t s = 0; s < keys; ++s)
      for (std::int64_t t = 0; t < n; ++t) safe_[t] = std::max(safe_[t], logits_[s * kLd + t]);
    for (std::int64_t t = 0; t < n; ++t) {
      const float now = safe_[t];
      safe_[t] = now == kNone ? 0 : now;  // nothing seen yet: every weight is exp(-inf)
      keep_[t] = top_[t] - safe_[t];
      top_[t] = now;
    }
    p.m.exp(keep_, n, keep_);
    if (p.fault("P-at-rescale")) std::fill_n(keep_, n, 1.0f);
    for (std::int64_t t = 0; t < n; ++t) sum_[t] *= keep_[t];
    for (std::int64_t s = 0; s < keys; ++s) {
      float* row = logits_ + s * kLd;
      for (std::int64_t t = 0; t < n; ++t) row[t] -= safe_[t];
      p.m.exp(row, n, row);
      for (std::int64_t t = 0; t < n; ++t) sum_[t] += row[t];
    }
  }

  void finish(const Document& d, const Item& item) {
    const std::int64_t token = d.first_query + item.rows.first;
    for (std::int64_t t = 0; t < item.rows.count; ++t) {
      const float inverse = sum_[t] > 0 ? 1 / sum_[t] : 0;
      p.m.scale(out_ + t * ldv, inverse, ldv, 1, pad(p.V));
      keep_[t] = inverse;
      // -inf where nothing was seen
      if (!p.fault("P-at-lse-sum")) sum_[t] = top_[t] + std::log(sum_[t]);
    }
    p.m.store(out_, ldv, item.rows.count, p.V, p.rows_out("o", token, item.head, p.H, p.V));
    if (float* o = p.launch.save<float>("o"))
      p.m.store(out_, ldv, item.rows.count, p.V,
                {o + (token * p.H + item.head) * p.V, false, p.H * p.V});
    const std::int64_t row = (token / p.T * p.H + item.head) * p.T + token % p.T;
    const auto put = [&](const float* from, float* to) {
      if (to) std::copy_n(from, item.rows.count, to + row);
    };
    put(sum_, p.launch.out<float>("lse"));
    put(top_, p.launch.save<float>("top"));
    put(keep_, p.launch.save<float>("inverse_sum"));
  }

  const Problem& p;
  const std::int64_t ldd, ldv;
  Scratch memory_;
  float *rows_, *qT_, *k_, *v_, *out_, *logits_, *top_, *sum_, *keep_, *safe_;
};

}  // namespace

void online_forward(const Problem& p) { for_items<Worker>(p, p.query_tiles()); }

}  // namespace parity::attention_kernel
