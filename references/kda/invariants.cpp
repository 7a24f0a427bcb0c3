// batch   a sequence, or a row of a batch, computed alone
// split   [0, T1) and then [T1, T) with the carried state, and backwards with its gradient; T1 = 64
// chunk   other chunk sizes, on data where every order of evaluation is exact
// causal  edits at tokens >= P leave outputs before P alone, and gradients of what lies before P
#include "references/kda/invariants.hpp"

#include <algorithm>
#include <cstring>

#include "references/kda/problem.hpp"

namespace parity::kda {
namespace {

constexpr std::int64_t kSplit = 64;  // a multiple of every chunk in use

// Rows [first, last) of a tensor whose leading axes are B and T.
struct RowRange {
  std::int64_t first = 0, last = 0;
};

bool by_token(const TensorSpec& spec) {
  return spec.dims.size() >= 2 && spec.dims[0].name == "B" && spec.dims[1].name == "T";
}
bool is_state(const TensorSpec& spec) { return !spec.dims.empty() && spec.dims[0].name == "N"; }
// Sums over tokens: every other run sums over others.
bool is_parameter(const TensorSpec& spec) { return !spec.parameter.empty(); }

std::size_t row_bytes(const Tensor& t, std::int64_t rows) {
  return rows > 0 ? t.bytes.size() / static_cast<std::size_t>(rows) : 0;
}

// A part of a tensor as a tensor of the wanted shape.
Tensor part(const Tensor& from, TensorSpec spec, std::int64_t rows, RowRange range) {
  const std::size_t row = row_bytes(from, rows);
  Tensor tensor = make_tensor(std::move(spec));
  std::memcpy(tensor.bytes.data(), from.bytes.data() + row * static_cast<std::size_t>(range.first),
              row * static_cast<std::size_t>(range.last - range.first));
  return tensor;
}

// The case of rows [range) of one sequence n, alone.
struct Piece {
  Case problem;
  Tensors inputs;
};

Piece piece_of(const Case& c, const Tensors& inputs, std::int64_t n, RowRange range,
               const Options& options) {
  const Setup s = setup_of(c);
  Piece piece{.problem = c, .inputs = {}};
  piece.problem.options = options;
  piece.problem.sizes.set({"B", 1, {}});
  piece.problem.sizes.set({"T", range.last - range.first, {}});
  for (TensorSpec& spec : input_specs(piece.problem)) {
    const Tensor* from = inputs.find(spec.name);
    if (!from)
      piece.inputs.add(make_tensor(spec));  // a state that the pieces carry and the whole has not
    else if (by_token(spec))
      piece.inputs.add(part(*from, spec, s.rows(), range));
    else if (is_state(spec))
      piece.inputs.add(part(*from, spec, s.N, {n, n + 1}));
    else
      piece.inputs.add(*from);
  }
  return piece;
}

Options without(const Options& options, std::initializer_list<std::string_view> names) {
  Options left;
  for (const auto& [key, value] : options.map())
    if (std::ranges::find(names, key) == names.end()) left.set(key, value);
  return left;
}

void compare_rows(const Tensors& whole, const Tensors& piece, const Setup& s, std::int64_t n,
                  RowRange range, const std::string& where, std::vector<BitDifference>& found) {
  for (const Tensor& got : piece.list()) {
    const Tensor* want = whole.find(got.spec.name);
    if (!want || is_parameter(got.spec)) continue;
    const bool state = is_state(got.spec);
    const std::int64_t rows = state ? s.N : s.rows(), first = state ? n : range.first;
    const std::size_t row = row_bytes(*want, rows), width = bytes_for(got.spec.dtype, 1);
    const std::byte* expected = want->bytes.data() + row * static_cast<std::size_t>(first);
    BitDifference difference{.tensor = got.spec.name, .detail = where};
    for (std::size_t i = 0; i + width <= got.bytes.size(); i += width) {
      if (std::memcmp(expected + i, got.bytes.data() + i, width) == 0) continue;
      ++difference.differing;
      if (difference.first < 0)
        difference.first =
            static_cast<std::int64_t>((row * static_cast<std::size_t>(first) + i) / width);
    }
    if (difference.differing == 0) continue;
    difference.detail += ", first at " + letters(want->spec.dims, difference.first);
    found.push_back(std::move(difference));
  }
}

std::string batch_applies(const Case& c, const Options&) {
  return setup_of(c).N > 1 ? "" : "one sequence";
}

std::vector<BitDifference> batch_differences(const Case& c, const Tensors& inputs,
                                             const Options& kernel, const RunKernel& run) {
  const Setup s = setup_of(c);
  const Tensors whole = run(c, inputs, kernel, 1);
  std::vector<BitDifference> found;
  for (std::int64_t n = 0; n < s.N; ++n) {
    const RowRange range{s.starts[static_cast<std::size_t>(n)],
                         s.starts[static_cast<std::size_t>(n + 1)]};
    if (range.first == range.last) continue;
    const Piece alone = piece_of(c, inputs, n, range, without(c.options, {"unused"}));
    compare_rows(whole, run(alone.problem, alone.inputs, kernel, 1), s, n, range,
                 "sequence " + std::to_string(n) + " alone", found);
  }
  return found;
}

// The longest sequence.
std::int64_t longest(const Setup& s) {
  std::int64_t best = 0, length = -1;
  for (std::int64_t n = 0; n < s.N; ++n) {
    const auto i = static_cast<std::size_t>(n);
    if (s.starts[i + 1] - s.starts[i] > length) {
      length = s.starts[i + 1] - s.starts[i];
      best = n;
    }
  }
  return best;
}

std::string split_applies(const Case& c, const Options&) {
  const Setup s = setup_of(c);
  const auto n = static_cast<std::size_t>(longest(s));
  return s.starts[n + 1] - s.starts[n] > kSplit ? "" : "no sequence longer than 64 tokens";
}

void put(Tensors& inputs, const std::string& name, const Tensor& value) {
  if (Tensor* t = inputs.find(name)) t->bytes = value.bytes;
}

std::vector<BitDifference> split_differences(const Case& c, const Tensors& inputs,
                                             const Options& kernel, const RunKernel& run) {
  const Setup s = setup_of(c);
  const std::int64_t n = longest(s);
  const RowRange all{s.starts[static_cast<std::size_t>(n)],
                     s.starts[static_cast<std::size_t>(n + 1)]};
  const RowRange first{all.first, all.first + kSplit}, second{first.last, all.last};
  Options both = without(c.options, {"unused"});
  both.set("h0", "1");  // zero where the whole has none
  if (s.gradients) both.set("dht", "1");
  const Piece whole = piece_of(c, inputs, n, all, both);
  Piece head = piece_of(c, inputs, n, first, both), tail = piece_of(c, inputs, n, second, both);
  const Tensors together = run(whole.problem, whole.inputs, kernel, 1);
  const Tensors early = run(head.problem, head.inputs, kernel, 1);
  put(tail.inputs, "initial_state", early.at("final_state"));
  const Tensors late = run(tail.problem, tail.inputs, kernel, 1);
  const Tensor* carried = late.find("grads/initial_state");
  if (carried) put(head.inputs, "cotangents/final_state", *carried);
  Tensors head_results = carried ? run(head.problem, head.inputs, kernel, 1) : early;

  const Setup w = setup_of(whole.problem);
  const auto keep = [](const Tensors& from, std::string_view left_out) {
    Tensors kept;
    for (const Tensor& t : from.list())
      if (t.spec.name != left_out) kept.add(t);
    return kept;
  };
  std::vector<BitDifference> found;
  compare_rows(together, keep(head_results, "final_state"), w, 0, {0, kSplit},
               "tokens before the split at 64", found);
  compare_rows(together, keep(late, "grads/initial_state"), w, 0, {kSplit, all.last - all.first},
               "tokens after the split at 64", found);
  return found;
}

std::string chunk_applies(const Case& c, const Options& kernel) {
  if (!kernel.map().contains("chunk")) return "the kernel has no chunk";
  if (c.set)
    for (const Fill& fill : c.set->fills)
      if (fill.name == c.fill && fill.exact) return "";
  return "only exact data give the same bits at every chunk size";
}

std::vector<BitDifference> chunk_differences(const Case& c, const Tensors& inputs,
                                             const Options& kernel, const RunKernel& run) {
  const Setup s = setup_of(c);
  const Tensors whole = run(c, inputs, kernel, 1);
  std::vector<BitDifference> found;
  for (const char* chunk : {"16", "32", "64"}) {
    if (kernel.get("chunk", "") == chunk) continue;
    Options other = kernel;
    other.set("chunk", chunk);
    const Tensors again = run(c, inputs, other, 1);
    for (const Tensor& t : again.list()) {
      Tensors one;
      one.add(t);
      const std::int64_t rows = is_state(t.spec) ? s.N : by_token(t.spec) ? s.rows() : 1;
      Setup flat = s;
      flat.N = rows;
      compare_rows(whole, one, flat, 0, {0, rows}, std::string("chunk ") + chunk, found);
    }
  }
  return found;
}

std::string causal_applies(const Case& c, const Options&) {
  return setup_of(c).T > 1 ? "" : "one token";
}

// Rows t >= P of every batch row: other values (gates stay negative), or zero.
void edit_after(Tensor& t, const Setup& s, std::int64_t P, bool zero) {
  std::vector<double> x = t.widened();
  const std::size_t row = x.size() / static_cast<std::size_t>(s.rows());
  for (std::int64_t r = 0; r < s.rows(); ++r) {
    if (r % s.T < P) continue;
    for (std::size_t i = 0; i < row; ++i) {
      double& value = x[static_cast<std::size_t>(r) * row + i];
      value = zero                    ? 0
              : t.spec.name == "g"    ? 0.5 * value - 0.25
              : t.spec.name == "beta" ? 0.5 * value
                                      : 0.25 - value;
    }
  }
  narrow(t.spec.dtype, x, 0, t.bytes.data());
}

std::vector<BitDifference> causal_differences(const Case& c, const Tensors& inputs,
                                              const Options& kernel, const RunKernel& run) {
  const Setup s = setup_of(c);
  std::vector<BitDifference> found;
  for (const std::int64_t P : {s.T - 1, s.T - std::min<std::int64_t>(s.T / 2, 7)}) {
    if (P < 1) continue;
    Tensors before = inputs;
    if (Tensor* d = before.find("cotangents/o")) edit_after(*d, s, P, true);
    if (Tensor* d = before.find("cotangents/final_state"))
      std::ranges::fill(d->bytes, std::byte{0});
    Tensors edited = before;
    for (Tensor& t : edited.list())
      if (by_token(t.spec) && t.spec.role == Role::Input) edit_after(t, s, P, false);
    const Tensors want = run(c, before, kernel, 1), got = run(c, edited, kernel, 1);
    for (const Tensor& t : got.list()) {
      const bool tokens = by_token(t.spec), initial = t.spec.name == "grads/initial_state";
      if (!tokens && !initial) continue;
      Tensors one;
      one.add(t);
      // Only rows before P of each batch row count.
      for (std::int64_t b = 0; tokens && b < s.B; ++b) {
        TensorSpec spec = t.spec;
        spec.dims[0].extent = 1;
        spec.dims[1].extent = P;
        Tensors rows;
        rows.add(part(t, spec, s.rows(), {b * s.T, b * s.T + P}));
        compare_rows(want, rows, s, 0, {b * s.T, b * s.T + P},
                     "edited from token " + std::to_string(P), found);
      }
      if (initial)
        compare_rows(want, one, s, 0, {0, s.N}, "edited from token " + std::to_string(P), found);
    }
  }
  return found;
}

}  // namespace

std::vector<Invariant> invariant_list() {
  return {{"batch", "a sequence computed alone", batch_applies, batch_differences},
          {"split", "[0, 64) and then the rest with the carried state", split_applies,
           split_differences},
          {"chunk", "other chunk sizes on exact data", chunk_applies, chunk_differences},
          {"causal", "edits of later tokens", causal_applies, causal_differences}};
}

}  // namespace parity::kda
