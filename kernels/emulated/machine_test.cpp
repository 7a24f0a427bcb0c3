// The emulated machine: it does what kernels may count on, and nothing that they may not.
#include "kernels/emulated/machine.hpp"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "kernels/emulated/instructions.hpp"

namespace parity::emulated {
namespace {

using ::testing::HasSubstr;

constexpr int kThreads = 64;

void in_block(const std::function<void()>& body, std::int64_t number = 0) {
  Machine machine;
  machine.run({.number = number, .threads = kThreads, .shared_bytes = 4096}, body);
}

std::string complaint(const std::function<void()>& body) {
  try {
    in_block(body);
  } catch (const Failure& e) {
    return e.what();
  }
  return "";
}

TEST(Emulated, ThreadsMeetAtTheBlocksBarrier) {
  std::array<int, kThreads> before = {}, after = {};
  int arrived = 0;
  in_block([&] {
    for (int round = 1; round <= 3; ++round) {
      before[static_cast<std::size_t>(thread())] = ++arrived;
      sync_threads();
      after[static_cast<std::size_t>(thread())] = arrived;
      EXPECT_EQ(arrived, round * kThreads);
      sync_threads();
    }
  });
  EXPECT_EQ(after.front(), 3 * kThreads);
}

TEST(Emulated, AWarpShufflesAmongItsLanes) {
  in_block([] {
    const float mine = static_cast<float>(thread());
    EXPECT_EQ(shuffle_xor(mine, 5), static_cast<float>(thread() ^ 5));
  });
}

// A copy is there when its barrier says so, and not before.
TEST(Emulated, CopiesComeWhenTheyAreWaitedFor) {
  alignas(16) std::array<std::uint8_t, 256> from = {};
  from.fill(7);
  in_block([&] {
    const std::uint8_t* const shared = shared_memory();
    if (thread() == 0) {
      barrier_init(0, 1);
      barrier_expect(0, 256);
      copy_bytes(1024, from.data(), 256, 0);
      EXPECT_EQ(shared[1024], 0xFF);  // poison
      barrier_wait(0, 0);
      EXPECT_EQ(shared[1024], 7);
    }
    sync_threads();
    EXPECT_EQ(shared[1279], 7);
    EXPECT_EQ(shared[1280], 0xFF);
  });
}

TEST(Emulated, BarriersTurnInPhases) {
  in_block([] {
    if (thread() == 0) barrier_init(8, kThreads);
    sync_threads();
    barrier_wait(8, 1);  // the phase before the first counts as over
    for (std::uint32_t phase = 0; phase < 3; ++phase) {
      barrier_arrive(8);
      barrier_wait(8, phase & 1U);
    }
  });
}

TEST(Emulated, TilesAreSwizzledAndZeroOutside) {
  alignas(16) std::array<std::uint8_t, 3 * 144> matrix;  // 3 rows of 144 bytes
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<std::uint8_t>(i / 16 + 1);
  const TileMap map = tile_map(matrix.data(), 3, 144, 8);
  in_block([&] {
    if (thread() != 0) return;
    barrier_init(0, 1);
    barrier_expect(0, 1024);
    copy_tile(1024, map, 0, 1, 0);
    barrier_wait(0, 0);
    const std::uint8_t* const tile = shared_memory() + 1024;
    for (int row = 0; row < 8; ++row)
      for (int piece = 0; piece < 8; ++piece)
        EXPECT_EQ(tile[row * 128 + (piece ^ row) * 16], row < 2 ? 9 * (row + 1) + piece + 1 : 0);
    barrier_expect(0, 1024);
    copy_tile(1024, map, 128, 0, 0);  // one piece is within the matrix
    barrier_wait(0, 1);
    EXPECT_EQ(tile[0], 9);
    EXPECT_EQ(tile[16], 0);
    EXPECT_EQ(tile[128 + 16], 18);
  });
  EXPECT_THROW((void)tile_map(matrix.data(), 3, 136, 8), Failure);
}

TEST(Emulated, MatricesAreLoadedByRows) {
  in_block([] {
    std::uint8_t* const shared = shared_memory();
    if (thread() == 0)
      for (int i = 0; i < 1024; ++i) shared[i] = static_cast<std::uint8_t>(i / 16);
    sync_threads();
    std::uint32_t r[4];
    const int lane = thread() % 32;
    load_matrices(r, static_cast<std::uint32_t>(lane * 16));
    for (int matrix = 0; matrix < 4; ++matrix)
      EXPECT_EQ(r[matrix], 0x01010101U * static_cast<unsigned>(8 * matrix + lane / 4));
  });
}

TEST(Emulated, WhatAKernelMustNotDoIsAnError) {
  const auto only_first = [](const std::function<void()>& body) {
    return [body] {
      if (thread() == 0) body();
    };
  };
  EXPECT_THAT(complaint([] {
                if (thread() != 3) sync_threads();
              }),
              HasSubstr("hang: 63 threads"));
  EXPECT_THAT(complaint(only_first([] {
                barrier_init(0, 1);
                barrier_wait(0, 0);
              })),
              HasSubstr("hang"));
  EXPECT_THAT(complaint(only_first([] { barrier_wait(16, 0); })), HasSubstr("no mbarrier"));
  EXPECT_THAT(complaint(only_first([] {
                barrier_init(0, 1);
                alignas(16) static const std::array<std::uint8_t, 16> from = {};
                copy_bytes(4096, from.data(), 16, 0);
              })),
              HasSubstr("shared memory has no"));
  EXPECT_THAT(complaint([] {
                if (thread() < 32) tensor_allocate(0, 96);
              }),
              HasSubstr("powers of two"));
  EXPECT_THAT(complaint([] {
                if (thread() < 32) tensor_allocate(0, 64);
              }),
              HasSubstr("not given back"));
  EXPECT_THAT(complaint([] {
                if (thread() >= 32) return;
                tensor_allocate(0, 64);
                float x[kTensorLoad];
                tensor_load(x, 0);  // columns begin where the allocation says
              }),
              HasSubstr("is not the block's"));
  EXPECT_THAT(complaint([] {
                if (thread() < 32) return;
                tensor_allocate(0, 512);
                float x[kTensorLoad];
                tensor_load(x, 0);  // of the second warp's lanes: 32 and more
              }),
              HasSubstr("quarter"));
  EXPECT_THROW((void)Machine::current(), Failure);
}

// Of two kinds of pending work, blocks take turns which goes first.
TEST(Emulated, PendingWorkIsDoneInEitherOrder) {
  std::array<std::string, 2> order;
  for (std::int64_t block = 0; block < 2; ++block)
    in_block(
        [&] {
          if (thread() != 0) return;
          Machine& m = Machine::current();
          std::string& log = order[static_cast<std::size_t>(block)];
          for (int i = 0; i < 2; ++i) {
            m.later(Machine::Queue::Copies, [&log] { log += 'c'; });
            m.later(Machine::Queue::Tensor, [&log] { log += 't'; });
          }
          m.wait_until([&log] { return log.size() == 4; });
        },
        block);
  EXPECT_EQ(order[0], "cctt");
  EXPECT_EQ(order[1], "ttcc");
}

}  // namespace
}  // namespace parity::emulated
