// Tiles of 16 rows and choices between two scales, band by band: a band is as many rows as share a
// scale, cut into chunks that stay in the first-level cache. Threads take ranges of bands.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/quantize/frame.hpp"

namespace parity::nvfp4 {
namespace {

constexpr std::int64_t kChunk = 64;  // blocks: 32 KiB of bf16 in 16 rows
constexpr std::int64_t kMostRows = 16;

std::int64_t size_of(Dtype dtype) { return dtype == Dtype::BF16 ? 2 : 4; }

// One chunk of one band: its rows (padded with zeros at the end of a ragged row) and two
// candidates.
struct Chunk {
  std::int64_t blocks = 0;
  std::int64_t rows = 0;
  const std::byte* x[kMostRows] = {};
  std::vector<std::byte> padded = std::vector<std::byte>(kMostRows * kChunk * kBlock * 4);
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
      x[r] = job.x + ((row + r) * job.columns + first) * size;
      if (own == blocks * kBlock) continue;
      std::byte* to = padded.data() + r * kChunk * kBlock * size;
      std::memset(to, 0, static_cast<std::size_t>(blocks * kBlock * size));
      std::memcpy(to, x[r], static_cast<std::size_t>(own * size));
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
  in_ranges(useful_threads(job), bands, 1, [&](std::int64_t begin, std::int64_t end) {
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

void transpose(const MatrixJob& job, const Steps& steps, const float* signs, std::byte* to) {
  if (signs != nullptr) {
    const auto* x = reinterpret_cast<const std::uint16_t*>(job.x);
    auto* t = reinterpret_cast<std::uint16_t*>(to);
    in_ranges(useful_threads(job), job.rows, kBlock, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t m = begin; m < end; m += kBlock)
        steps.transform(x + m * job.columns, job.columns, signs, t + m, job.rows);
    });
    return;
  }
  const auto copy = [&]<class T>(T) {
    const T* x = reinterpret_cast<const T*>(job.x);
    T* t = reinterpret_cast<T*>(to);
    // Squares of 32: both sides stay in the cache.
    constexpr std::int64_t kSide = 32;
    in_ranges(useful_threads(job), job.columns, kSide, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k0 = begin; k0 < end; k0 += kSide)
        for (std::int64_t m0 = 0; m0 < job.rows; m0 += kSide)
          for (std::int64_t k = k0; k < std::min(k0 + kSide, end); ++k)
            for (std::int64_t m = m0; m < std::min(m0 + kSide, job.rows); ++m)
              t[k * job.rows + m] = x[m * job.columns + k];
    });
  };
  job.dtype == Dtype::BF16 ? copy(std::uint16_t{}) : copy(float{});
}

}  // namespace parity::nvfp4
