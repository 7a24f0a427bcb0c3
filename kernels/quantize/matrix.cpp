// A matrix by ranges of blocks or of rows, one range a thread; ranges write disjoint bytes, so
// threads never show.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/quantize/frame.hpp"
#include "kernels/quantize/ranges.hpp"

namespace parity::nvfp4 {
namespace {

constexpr std::int64_t kGrain = 16;  // blocks: a group of the widest lanes

std::int64_t size_of(Dtype dtype) { return dtype == Dtype::BF16 ? 2 : 4; }

int threads_of(const MatrixJob& job) { return useful_threads(job.threads, job.rows * job.columns); }

// The last columns of a row, zero padded.
struct Tail {
  alignas(64) std::byte x[64] = {};
  std::uint8_t codes[8] = {};
  std::uint8_t scale = 0;
  float encode = 0;
};

void quantise_tail(const MatrixJob& job, const Steps& steps, const Plan& plan,
                   const MatrixResult& to, std::int64_t row) {
  const std::int64_t full = job.columns / kBlock;
  const std::int64_t left = job.columns % kBlock;
  const std::int64_t blocks = full + 1;
  const std::int64_t size = size_of(job.dtype);
  const std::byte* x = job.x + (row * job.columns + full * kBlock) * size;
  Tail tail;
  if (job.fault == "A-QT06" && full > 0)  // what the registers held before
    std::memcpy(tail.x, x - kBlock * size, static_cast<std::size_t>(kBlock * size));
  std::memcpy(tail.x, x, static_cast<std::size_t>(left * size));
  steps.quantise(plan, job.dtype, tail.x, 1, tail.codes, &tail.scale, &tail.encode);
  std::memcpy(to.codes + (row * job.columns + full * kBlock) / 2, tail.codes,
              static_cast<std::size_t>(left / 2));
  to.scales[row * blocks + full] = tail.scale;
  if (to.encode != nullptr) to.encode[row * blocks + full] = tail.encode;
}

}  // namespace

float amax_of(const MatrixJob& job, const Steps& steps) {
  std::int64_t n = job.rows * job.columns;
  if (job.fault == "P-amax-tail") n -= n % 4096;  // the last, partial tile is not reduced
  std::vector<std::uint32_t> part(static_cast<std::size_t>(std::max(job.threads, 1)), 0);
  const std::int64_t grain = (n + std::max(job.threads, 1) - 1) / std::max(job.threads, 1);
  in_ranges(threads_of(job), n, std::max<std::int64_t>(grain, 1),
            [&](std::int64_t begin, std::int64_t end) {
              part[static_cast<std::size_t>(begin / std::max<std::int64_t>(grain, 1))] =
                  steps.amax(job.dtype, job.x + begin * size_of(job.dtype), end - begin);
            });
  return std::bit_cast<float>(*std::max_element(part.begin(), part.end()));
}

void quantise_matrix(const MatrixJob& job, const Steps& steps, const Plan& plan,
                     const MatrixResult& to) {
  const std::int64_t full = job.columns / kBlock;
  const std::int64_t size = size_of(job.dtype);
  if (job.columns % kBlock == 0) {
    std::int64_t blocks = job.rows * full;
    if (job.fault == "P-partial-tile") blocks -= blocks % kGrain;
    in_ranges(threads_of(job), blocks, kGrain, [&](std::int64_t begin, std::int64_t end) {
      steps.quantise(plan, job.dtype, job.x + begin * kBlock * size, end - begin,
                     to.codes + begin * 8, to.scales + begin,
                     to.encode == nullptr ? nullptr : to.encode + begin);
    });
    return;
  }
  in_ranges(threads_of(job), job.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      steps.quantise(plan, job.dtype, job.x + row * job.columns * size, full,
                     to.codes + row * job.columns / 2, to.scales + row * (full + 1),
                     to.encode == nullptr ? nullptr : to.encode + row * (full + 1));
      quantise_tail(job, steps, plan, to, row);
    }
  });
}

void dequantise_matrix(const MatrixJob& job, const Steps& steps, const Plan& plan,
                       const MatrixResult& from, std::byte* values) {
  const std::int64_t full = job.columns / kBlock;
  const std::int64_t left = job.columns % kBlock;
  const std::int64_t size = size_of(job.dtype);
  if (left == 0) {
    in_ranges(threads_of(job), job.rows * full, kGrain, [&](std::int64_t begin, std::int64_t end) {
      steps.dequantise(plan, job.dtype, from.codes + begin * 8, from.scales + begin, end - begin,
                       values + begin * kBlock * size);
    });
    return;
  }
  for (std::int64_t row = 0; row < job.rows; ++row) {
    const std::int64_t first = row * job.columns;
    steps.dequantise(plan, job.dtype, from.codes + first / 2, from.scales + row * (full + 1), full,
                     values + first * size);
    Tail tail;
    std::memcpy(tail.codes, from.codes + (first + full * kBlock) / 2,
                static_cast<std::size_t>(left / 2));
    steps.dequantise(plan, job.dtype, tail.codes, from.scales + row * (full + 1) + full, 1, tail.x);
    std::memcpy(values + (first + full * kBlock) * size, tail.x,
                static_cast<std::size_t>(left * size));
  }
}

}  // namespace parity::nvfp4
