// One chunk, with the state S before it, decays as products (chunk.hpp), and e the error that each
// token corrects:
//
//   [e; o] = [v; 0] + [-k P; q P] S         what the state predicts and contributes
//   e_i    = e_i - sum_{j<i} N_ij u_j       N = decayed products of keys; forward substitution, no
//   inverse is formed u_i    = beta_i e_i o      = o + A u                        A = decayed
//   products of queries and keys, diagonal kept S      = diag(P_last) S + (k S_to_end)^T u
//
// That is kda.md §4 with (I + diag(beta) N) u = beta e solved row by row: in diagonal blocks of 16
// directly, between them by products. Every element is one chain of additions in token order, so a
// prefix does not depend on what follows it.
#include "kernels/kda/forward.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/kda/fault_paths.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity::kda_kernel {
namespace {

class ForwardWorker {
 public:
  ForwardWorker(const Problem& problem, bool odd_launch)
      : p(problem),
        m(*problem.micro),
        scratch_(floats(problem)),
        c(problem, scratch_),
        odd_launch_(odd_launch) {
    left_ = scratch_.take(2 * c.C * c.ldk);
    eo_ = scratch_.take(2 * c.C * c.ldv);
    u_ = scratch_.take(c.C * c.ldv);
    state_ = scratch_.take(p.K * c.ldv);
    turned_ = scratch_.take(c.Vp * c.ldk);
  }

  void operator()(std::int64_t item) {
    const std::int64_t n = item / p.HV, hv = item % p.HV;
    load_state(p, p.h0, n, hv, state_, c.ldv);
    const std::int64_t chunks = chunk_count(p, n);
    for (std::int64_t i = 0; i < chunks; ++i) step(place_of(p, n, hv, i));
    if (p.is(Fault::EmptySequenceStateUnwritten) && chunks == 0) return;
    if (p.is(Fault::StateAtWrongBoundary) && chunks > 0 &&
        p.sequences[static_cast<std::size_t>(n)].length % p.chunk != 0)
      return;  // written before the partial chunk
    store_state(p, state_, c.ldv, n, hv, p.final_state);
  }

 private:
  static std::int64_t floats(const Problem& p) {
    const std::int64_t ldk = leading(p.K), ldv = leading(p.V);
    return Chunk::floats(p) + 2 * p.chunk * ldk + 3 * p.chunk * ldv + p.K * ldv + pad(p.V) * ldk;
  }

  void step(const Place& place) {
    if (p.is(Fault::StateAtWrongBoundary) && place.rows < p.chunk)
      store_state(p, state_, c.ldv, place.n, place.hv, p.final_state);
    save_state(place);
    c.load(place);
    look_ahead(place);
    const std::int64_t n = place.rows;
    e_ = eo_, o_ = eo_ + n * c.ldv;
    read_state(n);
    if (anchored(p.fault, false))
      anchored_scores(c, -1.0f);
    else
      c.score(-1.0f);
    solve(n);
    std::int64_t rows = n;
    if (p.fault != Fault::None)
      rows = spoil_tail_rows(c, u_, c.ldv);  // padded rows that a fault leaves unmasked
    const bool lower = rows == n && !p.is(Fault::UpperTriangleUninitialised);
    m.product({.m = n,
               .n = c.Vp,
               .k = lower ? n : pad(n),
               .a = c.scores_q,
               .a_row = c.ldc,
               .b = u_,
               .ldb = c.ldv,
               .out = o_,
               .ldo = c.ldv,
               .onto = Onto::Keep,
               .band = lower ? Band::Lower : Band::Full,
               .ahead = &ahead_});
    write_state(n, rows);
    store(place);
  }

  void look_ahead(const Place& at) {
    ahead_.clear();
    if (at.index + 1 >= chunk_count(p, at.n)) return;
    const Place next = place_of(p, at.n, at.hv, at.index + 1);
    c.fetch_ahead(next, ahead_);
    c.fetch_ahead(next, p.v, p.bf16, p.V, ahead_);
  }

  void save_state(const Place& at) {
    if (!p.saved_states) return;
    m.transpose(state_, c.ldv, p.K, c.Vp, turned_, c.ldk);
    m.store(turned_, c.ldk, p.V, p.K, {.data = saved_state(p, at), .stride = p.K});
  }

  // [e; o] = [v; 0] + [-k P; q P] S
  void read_state(std::int64_t n) {
    Stored v = c.rows(p.v, p.bf16, p.V);
    if (p.is(Fault::NarrowIndex)) v = narrow_rows(p, p.v, c.place.token, c.place.hv);
    m.load(v, n, p.V, e_, c.ldv);
    float* queries = left_ + n * c.ldk;
    m.multiply(c.k, c.P, -1.0f, c.ldk, n, c.Kp, left_);
    m.multiply(c.q, c.P, 1.0f, c.ldk, n, c.Kp, queries);
    if (p.is(Fault::ScaleMissingInStateTerm)) m.scale(queries, 1 / p.scale, c.ldk, n, c.Kp);
    Product product{.m = n,
                    .n = c.Vp,
                    .k = p.K,
                    .a = left_,
                    .a_row = c.ldk,
                    .b = state_,
                    .ldb = c.ldv,
                    .out = e_,
                    .ldo = c.ldv,
                    .onto = Onto::Add,
                    .ahead = &ahead_};
    m.product(product);
    product.a = queries, product.out = o_, product.onto = Onto::Zero;
    if (p.is(Fault::StateReadTransposed) && p.K == p.V) {
      m.transpose(state_, c.ldv, p.K, c.Vp, turned_, c.ldk);
      product.b = turned_, product.ldb = c.ldk;
    }
    m.product(product);
  }

  void solve(std::int64_t n) {
    if (p.is(Fault::BetaByColumn)) return solve_by_column_beta(c, e_, u_, c.ldv);
    for (std::int64_t r = 0; r < n; r += kLeaf) {
      for (std::int64_t half = kLeaf; half < c.C; half *= 2) {
        if (r % (2 * half) != half) continue;
        const std::int64_t last = r + half < n ? r + half : n, first = r - half;
        if (p.is(Fault::MergeInBf16)) round_merge_operands(c, first, r, last);
        m.product({.m = last - r,
                   .n = c.Vp,
                   .k = half,
                   .a = c.scores_k + r * c.ldc + first,
                   .a_row = c.ldc,
                   .b = u_ + first * c.ldv,
                   .ldb = c.ldv,
                   .out = e_ + r * c.ldv,
                   .ldo = c.ldv,
                   .onto = Onto::Keep});
      }
      m.leaf_solve({.scores = c.scores_k + r * c.ldc + r,
                    .ldc = c.ldc,
                    .beta = c.beta + r * (p.headwise ? c.ldv : 1),
                    .headwise = p.headwise,
                    .ld = c.ldv,
                    .cols = c.Vp,
                    .rows = n - r < kLeaf ? n - r : kLeaf,
                    .e = e_ + r * c.ldv,
                    .u = u_ + r * c.ldv});
    }
  }

  // S = diag(P_last) S + (k S_to_end)^T u, over `rows` rows (those beyond n have zero keys).
  void write_state(std::int64_t n, std::int64_t rows) {
    const float* decay = c.decay_of_chunk();
    if (p.fault != Fault::None) decay = spoil_state_decay(c, turned_);
    m.multiply(c.k, c.S, 1.0f, c.ldk, n, c.Kp, left_);
    if (rows > n)
      std::memset(left_ + n * c.ldk, 0,
                  sizeof(float) * static_cast<std::size_t>((rows - n) * c.ldk));
    Product product{.m = p.K,
                    .n = c.Vp,
                    .k = rows,
                    .a = left_,
                    .a_row = 1,
                    .a_col = c.ldk,
                    .b = u_,
                    .ldb = c.ldv,
                    .out = state_,
                    .ldo = c.ldv,
                    .onto = Onto::ScaleRows,
                    .row_scale = decay,
                    .ahead = &ahead_};
    if (p.is(Fault::OrderChangesBetweenLaunches) && odd_launch_ && rows > 1) {
      const std::int64_t first = rows / 2;
      product.k = rows - first, product.a += first * c.ldk, product.b += first * c.ldv;
      m.product(product);
      product.k = first, product.a = left_, product.b = u_, product.onto = Onto::Keep;
    }
    m.product(product);
    if (p.is(Fault::StateKeptInBf16)) round_rows_to_bf16(state_, c.ldv, p.K, c.Vp);
  }

  void store(const Place& at) {
    if (p.is(Fault::OutputTruncated)) truncate_rows_to_bf16(o_, c.ldv, at.rows, c.Vp);
    m.store(o_, c.ldv, at.rows, p.V, c.rows(p.o, p.bf16, p.V));
    if (p.saved_errors) m.store(e_, c.ldv, at.rows, p.V, c.rows(p.saved_errors, false, p.V));
    if (p.g_tap) m.store(c.g, c.ldk, at.rows, p.K, c.rows(p.g_tap, false, p.K));
    if (p.beta_tap)
      for (std::int64_t i = 0; i < at.rows; ++i)
        p.beta_tap[(at.token + i) * p.HV + at.hv] = c.beta[i];
    if (p.is(Fault::InputsClobbered)) m.store(e_, c.ldv, at.rows, p.V, c.rows(p.v, p.bf16, p.V));
  }

  const Problem& p;
  const Micro& m;
  Scratch scratch_;
  Chunk c;
  Ahead ahead_ = {};
  bool odd_launch_;
  float *left_, *eo_, *u_, *state_, *turned_;
  float *e_ = nullptr, *o_ = nullptr;
};

}  // namespace

void clear_unused(const Problem& p, void* tensor, bool narrow, std::int64_t row_elements) {
  if (!tensor || p.is(Fault::TailUnwritten)) return;
  const std::int64_t bytes = row_elements * (narrow ? 2 : 4), first = p.used_tokens();
  std::memset(static_cast<std::byte*>(tensor) + first * bytes, 0,
              static_cast<std::size_t>((p.tokens() - first) * bytes));
}

void chunked_forward(const Problem& p) {
  static std::atomic<unsigned> launches{0};  // read by one fault only
  const bool odd = launches.fetch_add(1) % 2 != 0;
  for_each_item(p.threads, p.N * p.HV, [&] { return ForwardWorker(p, odd); });
  clear_unused(p, p.o, p.bf16, p.HV * p.V);
  clear_unused(p, p.saved_errors, false, p.HV * p.V);
  clear_unused(p, p.g_tap, false, p.HV * p.K);
  clear_unused(p, p.beta_tap, false, p.HV);
}

}  // namespace parity::kda_kernel
