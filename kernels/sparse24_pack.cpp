// sparse24.pack: 2:4 compression with CUTLASS's metadata on CPUs. Non-zero flags of eight elements
// by one comparison (SSE2, any x86-64), the two places of each of 16 patterns from a table; one
// pass, threads over rows. Bit for bit the chain sparse24_cutlass.
#include <algorithm>
#include <array>
#include <cstring>
#include <immintrin.h>
#include <vector>

#include "harness/kernel.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity::sparse24_kernel {
namespace {

struct Places {
  std::uint8_t first = 0, second = 0, nibble = 0, count = 0;
};

constexpr std::array<Places, 16> table(bool swapped) {
  std::array<Places, 16> all{};
  for (unsigned m = 0; m < 16; ++m) {
    const bool m0 = (m & 1) != 0, m1 = (m & 2) != 0, m2 = (m & 4) != 0, m3 = (m & 8) != 0;
    unsigned i0 = m0 ? 0 : m1 ? 1 : 2;
    unsigned i1 = m0 && m1 ? 1 : m3 || (!m0 && !m1) ? 3 : 2;
    if (swapped) {
      const unsigned t = i0;
      i0 = i1, i1 = t;
    }
    all[m] = {static_cast<std::uint8_t>(i0), static_cast<std::uint8_t>(i1),
              static_cast<std::uint8_t>(i0 | i1 << 2),
              static_cast<std::uint8_t>(int{m0} + int{m1} + int{m2} + int{m3})};
  }
  return all;
}

// Flags of elements [0, 8) that are not zero (-0 is).
unsigned flags_of(const std::uint16_t* x) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  const __m128i zero = _mm_cmpeq_epi16(_mm_slli_epi16(v, 1), _mm_setzero_si128());
  return ~static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(zero, zero))) & 0xFFU;
}
unsigned flags_of(const std::int8_t* x) {
  __m128i v = _mm_setzero_si128();
  v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return ~static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128()))) & 0xFFU;
}
// Of f32 pairs: the flag of an element stands for two.
unsigned flags_of(const float* x) {
  unsigned flags = 0;
  for (unsigned i = 0; i < 4; ++i) flags |= x[i] != 0 ? 3U << 2 * i : 0;
  return flags;
}

struct Job {
  std::int64_t rows = 0, columns = 0;
  std::string_view fault = {};
};

// CUTLASS's place of a word: rows are interleaved within tiles of 32 (of 16 for wide words), then
// pairs of rows change places with pairs of columns.
std::int64_t place(bool wide, std::int64_t rows, std::int64_t row, std::int64_t column) {
  std::int64_t r = wide ? row / 16 * 16 + row % 8 * 2 + row % 16 / 8
                        : row / 32 * 32 + row % 8 * 4 + row % 32 / 8;
  std::int64_t c = column;
  if (r % 2 == 0 && c % 2 == 1)
    ++r, --c;
  else if (r % 2 == 1 && c % 2 == 0)
    --r, ++c;
  return c / 2 * 2 * rows + 2 * r + c % 2;
}

// Back from what was kept; f32 halves that look like signalling NaNs come back quiet.
std::uint32_t quieted(std::uint32_t half) {
  const bool nan = (half & 0x7C00U) == 0x7C00U && (half & 0x3FFU) != 0;
  return nan ? half | 0x200U : half;
}
template <class T>
T returned(T v) {
  if constexpr (sizeof(T) == 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, 4);
    bits = quieted(bits >> 16) << 16 | quieted(bits & 0xFFFFU);
    std::memcpy(&v, &bits, 4);
  }
  return v;
}

template <class T, class Word>
struct Results {
  T* sparse = nullptr;
  Word* meta = nullptr;
  T* dense = nullptr;  // what was kept, in its place
  T* back = nullptr;   // the package's own way back
};

// One row; returns how many groups have more non-zeros than are kept.
template <class T, class Word>
std::int32_t pack_row(const Job& job, std::int64_t row, const T* x, const Results<T, Word>& to) {
  static constexpr std::array<Places, 16> kPlain = table(false), kSwapped = table(true);
  const auto& places = job.fault == "P-24-swapped" ? kSwapped : kPlain;
  constexpr bool kPairs = sizeof(T) == 4;
  constexpr std::int64_t kGroup = kPairs ? 2 : 4, kNibbles = 2 * sizeof(Word);
  const std::int64_t words = job.columns / (kGroup * kNibbles), first = row * job.columns;
  const bool quiet = job.fault != "P-24-quiet";
  T *sparse = to.sparse + first / 2, *dense = to.dense + first, *back = to.back + first;
  std::memset(dense, 0, static_cast<std::size_t>(job.columns) * sizeof(T));
  std::memset(back, 0, static_cast<std::size_t>(job.columns) * sizeof(T));
  const auto keep = [&](std::int64_t at) {
    *sparse++ = x[at];
    dense[at] = x[at];
    back[at] = quiet ? returned(x[at]) : x[at];
  };
  std::int32_t violations = 0;
  std::int64_t k = 0;
  for (std::int64_t w = 0; w < words; ++w) {
    std::uint32_t word = 0;
    for (std::int64_t n = 0; n < kNibbles; n += 2) {
      const unsigned flags = flags_of(x + k);
      for (const unsigned half : {0U, 1U}) {
        const Places& p = places[flags >> 4 * half & 15U];
        word |= static_cast<std::uint32_t>(p.nibble) << 4 * (n + half);
        violations += p.count > 2 ? 1 : 0;
        keep(k + (kPairs ? p.first / 2 : p.first));
        if (!kPairs) keep(k + p.second);
        k += kGroup;
      }
    }
    const std::int64_t at =
        job.fault == "P-24-layout" ? row * words + w : place(sizeof(Word) == 4, job.rows, row, w);
    to.meta[at] = static_cast<Word>(word);
  }
  return violations;
}

template <class T, class Word>
void forward(const Launch& launch) {
  const Job job{.rows = launch.problem.sizes["M"],
                .columns = launch.problem.sizes["K"],
                .fault = launch.fault};
  const T* x = launch.in<T>("dense");
  const Results<T, Word> to{.sparse = launch.out<T>("sparse"),
                            .meta = launch.out<Word>("meta"),
                            .dense = launch.out<T>("dense"),
                            .back = launch.out<T>("roundtrip")};
  constexpr std::int64_t kPortion = 32;  // rows; a tile of the metadata
  std::vector<std::int32_t> violations(static_cast<std::size_t>(job.rows));
  kda_kernel::for_each_item(launch.threads, (job.rows + kPortion - 1) / kPortion, [&] {
    return [&](std::int64_t portion) {
      for (std::int64_t r = portion * kPortion; r < std::min(job.rows, (portion + 1) * kPortion);
           ++r)
        violations[static_cast<std::size_t>(r)] = pack_row(job, r, x + r * job.columns, to);
    };
  });
  std::int32_t total = 0;
  for (const std::int32_t v : violations) total += v;
  *launch.out<std::int32_t>("violations") = launch.fault == "P-24-unvalidated" ? 0 : total;
}

std::string refuses(const Case& c, const Options&) {
  if (c.options.get("chain", "") != "sparse24_cutlass") return "compresses by CUTLASS's metadata";
  const std::int64_t unit = c.dtype == Dtype::I8 ? 64 : c.dtype == Dtype::F32 ? 16 : 32;
  if (c.sizes["K"] % unit != 0) return "columns fill an even number of metadata words";
  return "";
}

const Register kernel{KernelDef{
    .op = "sparse24",
    .name = "sparse24.pack",
    .what = "flags of eight elements at a time, places from a table, metadata in CUTLASS's order",
    .contract = {.name = "exact_chain",
                 .dtypes = {Dtype::BF16, Dtype::F32, Dtype::I8},
                 .fidelity = Fidelity::Twin,
                 .invariant = {"threads"}},
    .refuses = refuses,
    .forward =
        [](const Launch& launch) {
          const Dtype dtype = launch.problem.dtype;
          if (dtype == Dtype::I8)
            forward<std::int8_t, std::uint32_t>(launch);
          else if (dtype == Dtype::F32)
            forward<float, std::uint16_t>(launch);
          else
            forward<std::uint16_t, std::uint16_t>(launch);
        },
    .faults = {{"P-24-layout", "", "metadata in plain order: another back end's layout"},
               {"P-24-swapped", "", "the two indices of a group change places"},
               {"P-24-unvalidated", "", "three non-zeros of four pass for 2:4 (pytorch #159872)"},
               {"P-24-quiet", "", "halves of f32 carried over as they are"}},
}};

}  // namespace
}  // namespace parity::sparse24_kernel
