// Tiles of 16 rows and choices between two scales, band by band: a band is as many rows as share a
// scale, cut into chunks that stay in the first-level cache. Threads take ranges of bands.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/quantize/frame.hpp"
#include "kernels/quantize/ranges.hpp"

namespace parity::nvfp4 {
namespace {

constexpr std::int64_t kChunk = 16;  // blocks: 16 KiB of f32 in 16 rows
constexpr std::int64_t kMostRows = 16;

std::int64_t size_of(Dtype dtype) { return dtype == Dtype::BF16 ? 2 : 4; }

// One chunk of one band: its rows (padded with zeros at the end of a ragged row) and two
// candidates.
struct Chunk {
  std::int64_t blocks = 0;
  std::int64_t rows = 0;
  const std::byte* x[kMostRows] = {};
  std::vector<std::byte> copy = std::vector<std::byte>(kMostRows * kChunk * kBlock * 4);
  float amax[kChunk] = {};
  struct Candidate {
    std::uint8_t scales[kChunk] = {};
    float encode[kChunk] = {};
    float errors[kMostRows][kChunk] = {};
    std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(kMostRows * kChunk * 8);
  } candidates[2] = {};

  void load(const MatrixJob& job, std::int64_t row, std::int64_t tile, std::int64_t block) {
    const std::int64_t size = size_of(job.dtype);
    const std::int64_t first = block * kBlock;
    blocks = std::min(kChunk, (job.columns - first + kBlock - 1) / kBlock);
    rows = std::min(tile, job.rows - row);
    const std::int64_t own = std::min(blocks * kBlock, job.columns - first);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::byte* from = job.x + ((row + r) * job.columns + first) * size;
      std::byte* to = copy.data() + r * kChunk * kBlock * size;
      std::memcpy(to, from, static_cast<std::size_t>(own * size));
      std::memset(to + own * size, 0, static_cast<std::size_t>((blocks * kBlock - own) * size));
      x[r] = to;
    }
  }
  // NaN, whose bits are largest, wins.
  void reduce(const MatrixJob& job, const Steps& steps) {
    float row[kChunk];
    std::uint32_t largest[kChunk] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      steps.block_amax(job.dtype, x[r], blocks, row);
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, row + b, sizeof bits);
        largest[b] = std::max(largest[b], bits);
      }
    }
    std::memcpy(amax, largest, sizeof amax);
  }
  void quantise(const MatrixJob& job, const Steps& steps, const Plan& plan, Candidate& to) {
    steps.scales(plan, amax, blocks, to.scales, to.encode);
    for (std::int64_t r = 0; r < rows; ++r)
      steps.codes(plan, job.dtype, x[r], blocks, to.encode, to.codes.data() + r * kChunk * 8);
  }
  // Rows of a tile as a tree: r and r + 8, then + 4, + 2, + 1.
  void measure(const MatrixJob& job, const Steps& steps, const Plan& plan, Candidate& of) {
    std::memset(of.errors, 0, sizeof of.errors);
    for (std::int64_t r = 0; r < rows; ++r)
      steps.errors(plan, job.dtype, x[r], of.codes.data() + r * kChunk * 8, of.scales, blocks,
                   of.errors[r]);
    if (rows == 1 && !tiled) return;
    for (std::int64_t half = 8; half > 0; half /= 2)
      for (std::int64_t r = 0; r < half; ++r)
        for (std::int64_t b = 0; b < blocks; ++b) of.errors[r][b] += of.errors[r + half][b];
  }
  // The second candidate where it is strictly better, copied over the first.
  void choose() {
    Candidate& six = candidates[0];
    const Candidate& four = candidates[1];
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (!(four.errors[0][b] < six.errors[0][b])) continue;
      six.scales[b] = four.scales[b];
      six.encode[b] = four.encode[b];
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = (r * kChunk + b) * 8;
        std::memcpy(six.codes.data() + at, four.codes.data() + at, 8);
      }
    }
  }
  void store(const MatrixJob& job, const MatrixResult& to, std::int64_t row, std::int64_t tile,
             std::int64_t block) const {
    const Candidate& from = candidates[0];
    const std::int64_t all = (job.columns + kBlock - 1) / kBlock;
    for (std::int64_t r = 0; r < tile; ++r)
      std::memcpy(to.scales + (row + r) * all + block, from.scales,
                  static_cast<std::size_t>(blocks));
    if (to.encode != nullptr)
      std::memcpy(to.encode + row / tile * all + block, from.encode,
                  static_cast<std::size_t>(blocks) * sizeof(float));
    const std::int64_t own = std::min(blocks * kBlock, job.columns - block * kBlock);
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(to.codes + ((row + r) * job.columns + block * kBlock) / 2,
                  from.codes.data() + r * kChunk * 8, static_cast<std::size_t>(own / 2));
  }
  bool tiled = false;
};

}  // namespace

void quantise_bands(const MatrixJob& job, const Steps& steps, const Plan& plan, std::int64_t tile,
                    const MatrixResult& to) {
  const std::int64_t bands = (job.rows + tile - 1) / tile;
  const std::int64_t all = (job.columns + kBlock - 1) / kBlock;
  const bool choice = plan.order == Order::Choice;
  Plan four = plan;
  four.times = 1.5F;
  in_ranges(useful_threads(job.threads, job.rows * job.columns), bands, 1,
            [&](std::int64_t begin, std::int64_t end) {
              Chunk chunk;
              chunk.tiled = tile > 1;
              for (std::int64_t band = begin; band < end; ++band) {
                const std::int64_t row = band * tile;
                for (std::int64_t block = 0; block < all; block += kChunk) {
                  chunk.load(job, row, tile, block);
                  chunk.reduce(job, steps);
                  chunk.quantise(job, steps, plan, chunk.candidates[0]);
                  if (choice) {
                    chunk.quantise(job, steps, four, chunk.candidates[1]);
                    chunk.measure(job, steps, plan, chunk.candidates[0]);
                    chunk.measure(job, steps, plan, chunk.candidates[1]);
                    chunk.choose();
                  }
                  chunk.store(job, to, row, tile, block);
                }
              }
            });
}

namespace {

// Squares of 64 rows and columns: both sides in whole cache lines.
constexpr std::int64_t kSide = 64;

template <class T>
void transpose_square(const MatrixJob& job, std::int64_t m0, std::int64_t k0, T* to) {
  const T* x = reinterpret_cast<const T*>(job.x);
  const std::int64_t rows = std::min(kSide, job.rows - m0);
  const std::int64_t columns = std::min(kSide, job.columns - k0);
  T square[kSide][kSide];  // a copy, as rows of a power of two drive each other out of the cache
  for (std::int64_t m = 0; m < rows; ++m)
    std::memcpy(square[m], x + (m0 + m) * job.columns + k0,
                static_cast<std::size_t>(columns) * sizeof(T));
  for (std::int64_t k = 0; k < columns; ++k) {
    T line[kSide];
    for (std::int64_t m = 0; m < rows; ++m) line[m] = square[m][k];
    std::memcpy(to + (k0 + k) * job.rows + m0, line, static_cast<std::size_t>(rows) * sizeof(T));
  }
}

void transform_square(const MatrixJob& job, const Steps& steps, const float* signs, std::int64_t m0,
                      std::int64_t k0, std::uint16_t* to) {
  const auto* x = reinterpret_cast<const std::uint16_t*>(job.x);
  const std::int64_t rows = std::min(kSide, job.rows - m0);
  const std::int64_t columns = std::min(kSide, job.columns - k0);
  std::uint16_t square[kSide][kSide];
  std::uint16_t turned[kSide][kSide];
  for (std::int64_t m = 0; m < rows; ++m)
    std::memcpy(square[m], x + (m0 + m) * job.columns + k0, static_cast<std::size_t>(columns) * 2);
  for (std::int64_t m = 0; m < rows; m += kBlock)
    steps.transform(square[m], kSide, columns, signs, turned[0] + m, kSide);
  for (std::int64_t k = 0; k < columns; ++k)
    std::memcpy(to + (k0 + k) * job.rows + m0, turned[k], static_cast<std::size_t>(rows) * 2);
}

}  // namespace

void transpose(const MatrixJob& job, const Steps& steps, const float* signs, std::byte* to) {
  in_ranges(useful_threads(job.threads, job.rows * job.columns), job.rows, kSide,
            [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t m = begin; m < end; m += kSide)
                for (std::int64_t k = 0; k < job.columns; k += kSide) {
                  if (signs != nullptr)
                    transform_square(job, steps, signs, m, k, reinterpret_cast<std::uint16_t*>(to));
                  else if (job.dtype == Dtype::BF16)
                    transpose_square(job, m, k, reinterpret_cast<std::uint16_t*>(to));
                  else
                    transpose_square(job, m, k, reinterpret_cast<float*>(to));
                }
            });
}

}  // namespace parity::nvfp4
