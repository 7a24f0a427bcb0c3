// attn_res_read.online: the two-phase form. The bank's part (largest score, weights' sum, weighted
// values) is one online softmax over its entries, the prefix is merged into it by the usual
// rescaling: what lets many reads of a block share one pass over the bank. f32 throughout, one
// rounding at the end. Parameter gradients are summed in 16 slots of tokens, whose partial sums are
// added in order: the same bits for any number of threads. Workspace of the backward: 16 D floats.
#include "kernels/attn_res/token.hpp"

namespace parity::attn_res_kernel {
namespace {

using unit_kernel::for_slots;
using unit_kernel::kSlots;
using unit_kernel::narrow;
using unit_kernel::slot_edge;
using unit_kernel::with_storage;

Read read_of(const Launch& l) {
  const Case& c = l.problem;
  return {c.sizes["N"], c.sizes["D"], static_cast<float>(c.options.real("eps", 1e-5)), l.fault};
}

template <class T>
std::vector<float> query_of(const Launch& l, const Read& r) {
  const T *norm = l.in<T>("params/norm.weight"), *proj = l.in<T>("params/proj.weight");
  std::vector<float> query(static_cast<std::size_t>(r.D));
  for (std::size_t d = 0; d < query.size(); ++d) query[d] = widen(norm[d]) * widen(proj[d]);
  return query;
}

// Calls token(t, sources, slot) for every token, by slots.
template <class T, class Token>
void for_tokens(const Launch& l, const Read& r, const Token& token) {
  const T *bank = l.in<T>("bank"), *prefix = l.in<T>("prefix");
  const std::int64_t tokens = l.problem.sizes["T"];
  for_slots(l.threads, kSlots, [&](std::int64_t slot) {
    for (std::int64_t t = slot_edge(slot, kSlots, tokens); t < slot_edge(slot + 1, kSlots, tokens);
         ++t)
      token(
          t,
          [&, t](std::int64_t n) {
            return n + 1 < r.N ? bank + (t * (r.N - 1) + n) * r.D : prefix + t * r.D;
          },
          slot);
  });
}

template <class T>
void forward_rows(const Launch& l, const Read& r) {
  T *y = l.out<T>("y"), *probs = l.out<T>("tap/probs");
  const std::vector<float> query = query_of<T>(l, r);
  for_tokens<T>(l, r, [&](std::int64_t t, const auto& at, std::int64_t) {
    std::vector<float> value(static_cast<std::size_t>(r.D)), weights(static_cast<std::size_t>(r.N));
    read(r, query.data(), at, value.data(), weights.data());
    for (std::size_t d = 0; d < value.size(); ++d)
      narrow(value[d], y[t * r.D + static_cast<std::int64_t>(d)]);
    for (std::size_t n = 0; n < weights.size() && probs; ++n)
      narrow(weights[n], probs[t * r.N + static_cast<std::int64_t>(n)]);
  });
}

template <class T>
void backward_rows(const Launch& l, const Read& r) {
  const T *norm = l.in<T>("params/norm.weight"), *proj = l.in<T>("params/proj.weight"),
          *dy = l.in<T>("cotangents/y");
  T *d_bank = l.out<T>("grads/inputs/bank"), *d_prefix = l.out<T>("grads/inputs/prefix");
  auto* part_SD = reinterpret_cast<float*>(l.workspace.data());
  std::fill(part_SD, part_SD + kSlots * r.D, 0.0F);
  const std::vector<float> query = query_of<T>(l, r);
  for_tokens<T>(l, r, [&](std::int64_t t, const auto& at, std::int64_t slot) {
    const auto put = [&](std::int64_t n, std::int64_t d, float x) {
      narrow(x, n + 1 == r.N ? d_prefix[t * r.D + d] : d_bank[(t * (r.N - 1) + n) * r.D + d]);
    };
    read_backward(r, query.data(), at, dy + t * r.D, put, part_SD + slot * r.D);
  });
  T *d_norm = l.out<T>("grads/params/norm.weight"), *d_proj = l.out<T>("grads/params/proj.weight");
  for (std::int64_t d = 0; d < r.D; ++d) {
    float sum = 0;
    for (std::int64_t slot = 0; slot < kSlots; ++slot) sum += part_SD[slot * r.D + d];
    narrow(widen(proj[d]) * sum, d_norm[d]);
    narrow(widen(norm[d]) * sum, d_proj[d]);
  }
}

void forward(const Launch& l) {
  with_storage(l.problem.dtype, [&]<class T>(T) { forward_rows<T>(l, read_of(l)); });
}
void backward(const Launch& l) {
  with_storage(l.problem.dtype, [&]<class T>(T) { backward_rows<T>(l, read_of(l)); });
}

std::size_t workspace(const Case& c, const Options&, Direction direction) {
  if (direction == Direction::Forward) return 0;
  return static_cast<std::size_t>(kSlots * c.sizes["D"]) * sizeof(float);
}

const Register kernel{KernelDef{
    .op = "attn_res_read",
    .name = "attn_res_read.online",
    .what = "two phases, f32, parameter gradients in 16 slots of tokens",
    .contract = unit_kernel::kF32Contract,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-AT06", "", "a larger score comes and what was summed is not rescaled"},
               {"P-res-bank-reused", "",
                "the bank's last entry was overwritten in a shared buffer"}},
}};

}  // namespace
}  // namespace parity::attn_res_kernel
