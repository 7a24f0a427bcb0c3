// Blocks of a grid; asynchronous copies; what a warp does together beside matrix products.
#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "harness/failure.hpp"
#include "kernels/emulated/instructions.hpp"

namespace parity::emulated {
namespace {

constexpr int kPiece = 16, kBoxBytes = 128;

void demand(bool holds, const char* what) {
  if (!holds) throw Failure(what);
}

// What each lane of a warp gives and gets: work(of) sees of(lane).mine and sets of(lane).result.
template <class T, class Work>
T exchange(T mine, const Work& work) {
  struct Lane {
    T mine, result;
  } lane{mine, T{}};
  Lane* const self = &lane;
  Machine::current().with_warp(&self, [&](const void* const* lanes) {
    work([&](int l) -> Lane& { return **static_cast<Lane* const*>(lanes[l]); });
  });
  return lane.result;
}

}  // namespace

void run_grid(const Launch& l, const Grid& grid, const std::function<void()>& body) {
  const std::int64_t blocks = std::int64_t{grid.blocks.x} * grid.blocks.y;
  const std::int64_t workers =
      std::clamp<std::int64_t>(l.threads, 1, std::max<std::int64_t>(blocks, 1));
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(workers));
  const auto work = [&](std::int64_t worker) {
    try {
      Machine machine;
      for (std::int64_t n = worker; n < blocks; n += workers)
        machine.run({.x = static_cast<int>(n % grid.blocks.x),
                     .y = static_cast<int>(n / grid.blocks.x),
                     .grid_x = static_cast<int>(grid.blocks.x),
                     .number = n,
                     .threads = grid.threads,
                     .shared_bytes = grid.shared_bytes},
                    body);
    } catch (...) {
      thrown[static_cast<std::size_t>(worker)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::int64_t w = 1; w < workers; ++w) others.emplace_back(work, w);
    work(0);
  }
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

void sync_warp() {
  Machine::current().with_warp(nullptr, [](const void* const*) {});
}

float shuffle_xor(float x, int apart) {
  return exchange<float>(x, [&](const auto& of) {
    for (int l = 0; l < 32; ++l) of(l).result = of(l ^ apart).mine;
  });
}

std::uint32_t warp_max(std::uint32_t x) {
  return exchange<std::uint32_t>(x, [](const auto& of) {
    std::uint32_t most = 0;
    for (int l = 0; l < 32; ++l) most = std::max(most, of(l).mine);
    for (int l = 0; l < 32; ++l) of(l).result = most;
  });
}

void atomic_max(std::uint32_t* at, std::uint32_t x) {
  const std::atomic_ref<std::uint32_t> place(*at);
  std::uint32_t seen = place.load();
  while (seen < x && !place.compare_exchange_weak(seen, x)) {
  }
}

TileMap tile_map(const void* matrix, std::int64_t rows, std::int64_t row_bytes, int box_rows) {
  demand(row_bytes % kPiece == 0 && reinterpret_cast<std::uintptr_t>(matrix) % kPiece == 0,
         "a tile map is of rows that are multiples of 16 bytes, at such an address");
  demand(rows > 0 && box_rows > 0 && box_rows <= 256, "a box has 1 to 256 rows");
  return {static_cast<const std::uint8_t*>(matrix), rows, row_bytes, box_rows};
}

void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
  demand(to % kPiece == 0 && bytes % kPiece == 0 && bytes > 0 &&
             reinterpret_cast<std::uintptr_t>(from) % kPiece == 0,
         "copies are of multiples of 16 bytes");
  Machine& m = Machine::current();
  m.later(Machine::Queue::Copies, [&m, to, from, bytes, barrier] {
    std::memcpy(m.shared(to, bytes), from, bytes);
    m.barrier_complete(barrier, bytes);
  });
}

void copy_tile(std::uint32_t to, const TileMap& map, int x, int y, std::uint32_t barrier) {
  demand(to % 128 == 0, "a box lies at a multiple of 128 bytes");
  Machine& m = Machine::current();
  m.later(Machine::Queue::Copies, [&m, to, map, x, y, barrier] {
    const auto bytes = static_cast<std::size_t>(map.box_rows * kBoxBytes);
    (void)m.shared(to, bytes);
    for (int r = 0; r < map.box_rows; ++r)
      for (int piece = 0; piece < kBoxBytes / kPiece; ++piece) {
        const auto at = to + static_cast<std::uint32_t>(r * kBoxBytes + piece * kPiece);
        // Bits 4 to 6 of the address, exchanged by bits 7 to 9.
        std::uint8_t* const place = m.shared(at ^ (at >> 7 & 7U) << 4, kPiece);
        const std::int64_t row = y + r, byte = x + piece * kPiece;
        if (row < map.rows && byte < map.row_bytes)
          std::memcpy(place, map.matrix + row * map.row_bytes + byte, kPiece);
        else
          std::memset(place, 0, kPiece);
      }
    m.barrier_complete(barrier, static_cast<std::int64_t>(bytes));
  });
}

void load_matrices(std::uint32_t (&r)[4], std::uint32_t row) {
  demand(row % kPiece == 0, "a row of a matrix lies at a multiple of 16 bytes");
  struct Lane {
    std::uint32_t* r;
    std::uint32_t row;
  };
  const Lane lane{r, row};
  Machine& m = Machine::current();
  m.with_warp(&lane, [&m](const void* const* lanes) {
    const auto of = [&](int l) -> const Lane& { return *static_cast<const Lane*>(lanes[l]); };
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int l = 0; l < 32; ++l)
        std::memcpy(&of(l).r[matrix], m.shared(of(8 * matrix + l / 4).row, kPiece) + l % 4 * 4, 4);
  });
}

}  // namespace parity::emulated
