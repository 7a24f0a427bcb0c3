// kernels/blackwell/instructions.cuh on a CPU, which includes this where no nvcc compiles. The
// names are those of parity::device there; a kernel compiled here lies in parity::emulated.
#pragma once

#define PARITY_MACHINE emulated
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)

#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "harness/kernel.hpp"
#include "kernels/emulated/machine.hpp"

namespace parity::emulated {

struct dim3 {
  unsigned int x = 1, y = 1;
  explicit dim3(unsigned int x_blocks = 1, unsigned int y_blocks = 1) : x(x_blocks), y(y_blocks) {}
};
struct Grid {
  dim3 blocks;
  int threads = 0;
  std::size_t shared_bytes = 0;
};

// Runs the blocks, shared out to the threads of the launch.
void run_grid(const Launch&, const Grid&, const std::function<void()>& body);

template <class... Parameters, class... Arguments>
void launch(const Launch& l, const Grid& grid, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  run_grid(l, grid, [&] { kernel(arguments...); });
}
template <class... Parameters>
void reserve_shared(void (*)(Parameters...), std::size_t) {}
inline void fill_bytes(const Launch&, void* at, int byte, std::size_t bytes) {
  std::memset(at, byte, bytes);
}

inline void copy_on_device(const Launch&, void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

// ---- threads

inline int thread() { return Machine::current().thread(); }
inline int block_x() { return Machine::current().block().x; }
inline int block_y() { return Machine::current().block().y; }
inline int grid_x() { return Machine::current().block().grid_x; }
inline void sync_threads() { Machine::current().sync_threads(); }
void sync_warp();
float shuffle_xor(float x, int apart);
inline std::uint8_t* shared_memory() { return Machine::current().shared(0, 0); }
inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(p) - shared_memory());
}
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::uint32_t warp_max(std::uint32_t x);
void atomic_max(std::uint32_t* at, std::uint32_t x);
inline float add(float x, float y) { return x + y; }
inline float multiply(float x, float y) { return x * y; }
inline float divide(float x, float y) { return x / y; }

// ---- conversions

std::uint32_t to_e4m3(float x);
float from_e4m3(std::uint32_t code);
std::uint32_t to_e2m1x2(float high, float low);
void from_e2m1x2(std::uint32_t byte, float& high, float& low);

// ---- barriers

inline void barrier_init(std::uint32_t at, int arrivals) {
  Machine::current().barrier_init(at, arrivals);
}
inline void barrier_publish() {}
inline void barrier_arrive(std::uint32_t at) { Machine::current().barrier_arrive(at, 0); }
inline void barrier_expect(std::uint32_t at, std::uint32_t bytes) {
  Machine::current().barrier_arrive(at, bytes);
}
inline void barrier_wait(std::uint32_t at, std::uint32_t parity) {
  Machine::current().barrier_wait(at, parity);
}

// ---- asynchronous copies

struct TileMap {
  const std::uint8_t* matrix = nullptr;
  std::int64_t rows = 0, row_bytes = 0;
  int box_rows = 0;
};
// Throws where the hardware would refuse: rows are multiples of 16 bytes.
[[nodiscard]] TileMap tile_map(const void* matrix, std::int64_t rows, std::int64_t row_bytes,
                               int box_rows);
void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier);
void copy_tile(std::uint32_t to, const TileMap&, int x, int y, std::uint32_t barrier);

// ---- registers of a warp

void load_matrices(std::uint32_t (&r)[4], std::uint32_t row);
void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
void mma_nvf4(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::uint32_t scales_a, std::uint32_t scales_b);
void mma_mxf8(Dtype a_type, Dtype b_type, int byte, float (&d)[4], const std::uint32_t (&a)[4],
              const std::uint32_t (&b)[2], std::uint32_t scales_a, std::uint32_t scales_b);
template <Dtype kA, Dtype kB, int kByte>
void mma_mxf8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::uint32_t scales_a, std::uint32_t scales_b) {
  mma_mxf8(kA, kB, kByte, d, a, b, scales_a, scales_b);
}

// ---- tensor memory

enum class Matrices { Nvf4, Mxf8 };
void tensor_allocate(std::uint32_t to, int columns);
void tensor_free(std::uint32_t at, int columns);
void tensor_copy_scales(std::uint32_t to, std::uint64_t from);
void tensor_mma(Matrices, std::uint32_t d, std::uint64_t a, std::uint64_t b,
                std::uint32_t instruction, std::uint32_t scales_a, std::uint32_t scales_b,
                bool accumulates);
template <Matrices kKind>
void tensor_mma(std::uint32_t d, std::uint64_t a, std::uint64_t b, std::uint32_t instruction,
                std::uint32_t scales_a, std::uint32_t scales_b, bool accumulates) {
  tensor_mma(kKind, d, a, b, instruction, scales_a, scales_b, accumulates);
}
void tensor_commit(std::uint32_t barrier);
inline void tensor_fence_before() {}
inline void tensor_fence_after() {}
inline constexpr int kTensorLoad = 8;
void tensor_load(float (&x)[kTensorLoad], std::uint32_t at);
void tensor_store(std::uint32_t at, const float (&x)[kTensorLoad]);

}  // namespace parity::emulated
