// Matrix instructions by the software tensor core; tensor memory.
#include "harness/failure.hpp"
#include "kernels/emulated/instructions.hpp"
#include "references/tensorcore/fragments.hpp"
#include "references/tensorcore/gemm.hpp"

namespace parity::emulated {
namespace {

using tensorcore::Unit;

constexpr int kWarp = 32, kRowBytes = 32;  // that an instruction takes of an operand's row

const Unit& unit_of(const char* arch, const char* family, Dtype a, Dtype b) {
  const Unit* const unit = tensorcore::find_unit(arch, family, a, b);
  if (unit == nullptr) throw Failure("no such matrix unit");
  return *unit;
}

struct Fragments {
  float* d;
  const std::uint32_t *a, *b;
  std::uint32_t scales_a, scales_b;
};

template <class Multiply>
void by_warp(const Fragments& mine, const Multiply& multiply) {
  Machine::current().with_warp(&mine, [&](const void* const* lanes) {
    tensorcore::WarpRegisters registers;
    for (int l = 0; l < kWarp; ++l) {
      const auto& f = *static_cast<const Fragments*>(lanes[l]);
      const auto at = static_cast<std::size_t>(l);
      for (std::size_t r = 0; r < 4; ++r) {
        registers.a[at][r] = f.a[r];
        registers.c[at][r] = bits_of(f.d[r]);
      }
      for (std::size_t r = 0; r < 2; ++r) registers.b[at][r] = f.b[r];
      registers.scale_a[at] = f.scales_a;
      registers.scale_b[at] = f.scales_b;
    }
    const auto d = multiply(registers);
    for (int l = 0; l < kWarp; ++l)
      for (std::size_t r = 0; r < 4; ++r)
        static_cast<const Fragments*>(lanes[l])->d[r] = float_of(d[static_cast<std::size_t>(l)][r]);
  });
}

// ---- descriptors, taken apart as the hardware would

std::uint32_t field(std::uint64_t word, int first, int bits) {
  return static_cast<std::uint32_t>(word >> first & ((std::uint64_t{1} << bits) - 1));
}

// Bytes [byte, byte + 16) of row r of what a descriptor of shared memory describes.
const std::uint8_t* piece(Machine& m, std::uint64_t descriptor, int r, int byte) {
  if (field(descriptor, 46, 3) != 1) throw Failure("a matrix descriptor of another version");
  const std::uint32_t start = field(descriptor, 0, 14) * 16,
                      groups = field(descriptor, 32, 14) * 16;
  const std::uint32_t swizzle = field(descriptor, 61, 3);
  const auto row = static_cast<std::uint32_t>(r), at_byte = static_cast<std::uint32_t>(byte);
  if (swizzle == 0) return m.shared(start + row / 8 * groups + row % 8 * 16 + at_byte, 16);
  if (swizzle != 2) throw Failure("no such swizzle is emulated");
  const std::uint32_t at = start + row / 8 * groups + row % 8 * 128 + at_byte;
  return m.shared(at ^ (at >> 7 & 7U) << 4, 16);
}

std::vector<std::uint8_t> rows_of(Machine& m, std::uint64_t descriptor, int rows) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * kRowBytes));
  for (int r = 0; r < rows; ++r)
    for (int byte = 0; byte < kRowBytes; byte += 16)
      std::memcpy(bytes.data() + r * kRowBytes + byte, piece(m, descriptor, r, byte), 16);
  return bytes;
}

// Scales of rows from tensor memory: row r in lane r mod 32 of each quarter, column r / 32.
std::vector<std::uint8_t> scales_of(Machine& m, std::uint32_t at, int rows, int first, int count) {
  std::vector<std::uint8_t> scales;
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t word =
        m.tensor(r % Machine::kTensorLanes, static_cast<int>(at & 0xFFFFU) + r / 32);
    for (int j = 0; j < count; ++j)
      scales.push_back(static_cast<std::uint8_t>(word >> (8 * (first + j))));
  }
  return scales;
}

Dtype type_of(Matrices kind, std::uint32_t code) {
  if (kind == Matrices::Nvf4) {
    if (code == 1) return Dtype::E2M1;
  } else if (code <= 1) {
    return code == 0 ? Dtype::E4M3 : Dtype::E5M2;
  }
  throw Failure("no such operand type in an instruction descriptor");
}

struct TensorMma {
  Matrices kind = Matrices::Nvf4;
  std::uint32_t d = 0, instruction = 0, scales_a = 0, scales_b = 0;
  std::uint64_t a = 0, b = 0;
  bool accumulates = false;
};

void multiply(Machine& m, const TensorMma& t) {
  const bool fp4 = t.kind == Matrices::Nvf4;
  const std::uint32_t i = t.instruction;
  const int rows = static_cast<int>(field(i, 24, 5)) * 16,
            columns = static_cast<int>(field(i, 17, 6)) * 8;
  if (rows != 128 || columns < 8 || columns > 256)
    throw Failure("block-scaled products have 128 rows and 8 to 256 columns");
  if (field(i, 23, 1) != (fp4 ? 0U : 1U)) throw Failure("the kind has scales of another format");
  const int first_a = static_cast<int>(field(i, 29, 2)), first_b = static_cast<int>(field(i, 4, 2));
  if (fp4 && (first_a != 0 || first_b != 0)) throw Failure("four scales begin at byte 0");
  const Dtype a_type = type_of(t.kind, field(i, 7, 3)), b_type = type_of(t.kind, field(i, 10, 3));
  const Unit& unit =
      unit_of("sm_100", fp4 ? "tcgen05.mxf4nvf4" : "tcgen05.mxf8f6f4", a_type, b_type);
  const int count = unit.k / unit.scale_block;
  const std::vector<std::uint8_t> a = rows_of(m, t.a, rows), b = rows_of(m, t.b, columns);
  const std::vector<std::uint8_t> scales_a = scales_of(m, t.scales_a, rows, first_a, count),
                                  scales_b = scales_of(m, t.scales_b, columns, first_b, count);
  const int column = static_cast<int>(t.d & 0xFFFFU);
  std::vector<float> c;
  for (int r = 0; r < rows; ++r)
    for (int n = 0; n < columns; ++n)
      c.push_back(t.accumulates ? float_of(m.tensor(r, column + n)) : 0.0F);
  const auto* const a_codes = reinterpret_cast<const std::byte*>(a.data());
  const auto* const b_codes = reinterpret_cast<const std::byte*>(b.data());
  const std::vector<float> sums =
      tensorcore::accumulators({.a = {a_type, a_codes, rows, scales_a},
                                .b = {b_type, b_codes, columns, scales_b},
                                .K = unit.k,
                                .schedule = {.unit = &unit},
                                .c = c.data()},
                               /*threads=*/1);
  for (int r = 0; r < rows; ++r)
    for (int n = 0; n < columns; ++n)
      m.tensor(r, column + n) = bits_of(sums[static_cast<std::size_t>(r * columns + n)]);
}

// The lane of this thread, whose warp sees a quarter of tensor memory.
int own_lane(const Machine& m, std::uint32_t at) {
  const int quarter = m.thread() / kWarp % 4;
  if (static_cast<int>(at >> 16) != kWarp * quarter)
    throw Failure("a warp reads and writes the quarter of tensor memory that is its own");
  return kWarp * quarter + m.thread() % kWarp;
}

}  // namespace

void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  by_warp({d, a, b, 0, 0}, [](const tensorcore::WarpRegisters& registers) {
    return mma_m16n8k16(unit_of("sm_120", "mma", Dtype::BF16, Dtype::BF16), Dtype::BF16, registers);
  });
}

void mma_nvf4(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::uint32_t scales_a, std::uint32_t scales_b) {
  by_warp({d, a, b, scales_a, scales_b}, [](const tensorcore::WarpRegisters& registers) {
    return mma_m16n8k64(unit_of("sm_120", "mma.mxf4nvf4", Dtype::E2M1, Dtype::E2M1), registers, {});
  });
}

void mma_mxf8(Dtype a_type, Dtype b_type, int byte, float (&d)[4], const std::uint32_t (&a)[4],
              const std::uint32_t (&b)[2], std::uint32_t scales_a, std::uint32_t scales_b) {
  by_warp({d, a, b, scales_a, scales_b}, [&](const tensorcore::WarpRegisters& registers) {
    return mma_m16n8k32(unit_of("sm_120", "mma.mxf8f6f4", a_type, b_type), a_type, b_type,
                        registers, {.byte_id_a = byte, .byte_id_b = byte});
  });
}

void tensor_allocate(std::uint32_t to, int columns) {
  Machine& m = Machine::current();
  m.with_warp(nullptr, [&](const void* const*) {
    const std::uint32_t at = m.tensor_allocate(columns);
    std::memcpy(m.shared(to, sizeof at), &at, sizeof at);
  });
}

void tensor_free(std::uint32_t at, int columns) {
  Machine& m = Machine::current();
  m.with_warp(nullptr, [&](const void* const*) { m.tensor_free(at, columns); });
}

void tensor_copy_scales(std::uint32_t to, std::uint64_t from) {
  Machine& m = Machine::current();
  m.later(Machine::Queue::Tensor, [&m, to, from] {
    for (int lane = 0; lane < Machine::kTensorLanes; ++lane)
      for (int column = 0; column < 4; ++column)
        std::memcpy(&m.tensor(lane, static_cast<int>(to & 0xFFFFU) + column),
                    piece(m, from, lane % kWarp, 0) + 4 * column, 4);
  });
}

void tensor_mma(Matrices kind, std::uint32_t d, std::uint64_t a, std::uint64_t b,
                std::uint32_t instruction, std::uint32_t scales_a, std::uint32_t scales_b,
                bool accumulates) {
  Machine& m = Machine::current();
  m.later(Machine::Queue::Tensor, [&m, t = TensorMma{kind, d, instruction, scales_a, scales_b, a, b,
                                                     accumulates}] { multiply(m, t); });
}

void tensor_commit(std::uint32_t barrier) {
  Machine& m = Machine::current();
  m.later(Machine::Queue::Tensor, [&m, barrier] { m.barrier_arrive(barrier, 0); });
}

void tensor_load(float (&x)[kTensorLoad], std::uint32_t at) {
  Machine& m = Machine::current();
  const int lane = own_lane(m, at);
  for (int j = 0; j < kTensorLoad; ++j)
    x[j] = float_of(m.tensor(lane, static_cast<int>(at & 0xFFFFU) + j));
}

void tensor_store(std::uint32_t at, const float (&x)[kTensorLoad]) {
  Machine& m = Machine::current();
  const int lane = own_lane(m, at);
  for (int j = 0; j < kTensorLoad; ++j)
    m.tensor(lane, static_cast<int>(at & 0xFFFFU) + j) = bits_of(x[j]);
}

}  // namespace parity::emulated
