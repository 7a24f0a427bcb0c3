// Bits enter the world here, once: each value is drawn as a double and rounded once to the storage
// format.
#include <algorithm>
#include <thread>

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/reduced.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

const Fill& fill_of(const Case& problem, const std::string& name) {
  if (problem.set)
    for (const Fill& fill : problem.set->fills)
      if (fill.name == name) return fill;
  throw Failure("case '" + problem.id() + "' has no fill '" + problem.fill + "'");
}

void draw_rows(const Case& problem, const Fill& fill, Simpler simpler, std::uint64_t number,
               Tensor& tensor, std::int64_t begin, std::int64_t end, std::int64_t length) {
  const Rng rng(problem.seed, number);
  std::vector<double> row(static_cast<std::size_t>(length));
  for (std::int64_t r = begin; r < end; ++r) {
    fill.row({.problem = problem, .spec = tensor.spec, .row = r, .first = r * length, .rng = rng},
             row);
    simplify(simpler, row);
    narrow(tensor.spec.dtype, row, r * length, tensor.bytes.data());
  }
}

}  // namespace

Tensors generate(const Case& problem, const OpDef& op, int threads) {
  const ReducedFill reduced = ReducedFill::parse(problem.fill);
  const Fill& fill = fill_of(problem, reduced.fill);
  Tensors tensors;
  std::uint64_t number = 0;
  for (TensorSpec& spec : op.inputs(problem)) {
    Tensor tensor = make_tensor(std::move(spec));
    if (op.derive && op.derive(problem, tensor)) {
      tensors.add(std::move(tensor));
      ++number;
      continue;
    }
    const bool floats = format(tensor.spec.dtype).is_float;  // others are choices, not sizes
    const Simpler simpler = floats ? reduced.of(tensor.spec.name) : Simpler::No;
    const std::int64_t length = tensor.spec.dims.empty() ? 1 : tensor.spec.dims.back().extent;
    const std::int64_t rows = length > 0 ? tensor.elements() / length : 0;
    // Two rows of packed codes may share a byte: such rows are drawn by one thread.
    const bool shared_bytes = format(tensor.spec.dtype).bits < 8 && length % 2 != 0;
    const std::int64_t workers =
        shared_bytes ? 1
                     : std::clamp<std::int64_t>(tensor.elements() / 65536, 1, std::max(threads, 1));
    std::vector<std::jthread> pool;
    for (std::int64_t w = 1; w < workers; ++w)
      pool.emplace_back([&, w] {
        draw_rows(problem, fill, simpler, number, tensor, rows * w / workers,
                  rows * (w + 1) / workers, length);
      });
    draw_rows(problem, fill, simpler, number, tensor, 0, rows / workers, length);
    pool.clear();  // joins
    tensors.add(std::move(tensor));
    ++number;
  }
  if (op.complete) op.complete(problem, tensors);
  return tensors;
}

}  // namespace parity
