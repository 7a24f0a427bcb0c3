// Cases of sparse24: which two of four are kept, how they are named, where the words lie.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Small integers for int8, else normal values.
double value_at(const RowDraw& d, std::size_t i) {
  const double v = d.rng.normal(static_cast<std::uint64_t>(d.first) + i);
  return d.spec.dtype == Dtype::I8 ? std::nearbyint(40 * v) : v;
}

void dense(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_at(d, i);
}

// Two of four at places that go through all six pairs, one of four, none.
void two_of_four(const RowDraw& d, std::span<double> out) {
  constexpr unsigned kPatterns[] = {0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100,
                                    0b0001, 0b0010, 0b0100, 0b1000, 0b0000};
  dense(d, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto group = (static_cast<std::size_t>(d.first) + i) / 4;
    const unsigned pattern = kPatterns[(group * 7 + group / 11) % 11];
    if ((pattern >> (i % 4) & 1U) == 0) out[i] = 0;
    if (out[i] == 0 && (pattern >> (i % 4) & 1U) != 0) out[i] = 3;
  }
}

// Some groups have three or four non-zeros: 2:4 data that is none.
void not_two_of_four(const RowDraw& d, std::span<double> out) {
  two_of_four(d, out);
  if (d.row % 3 == 0)
    for (std::size_t i = 0; i < 3; ++i) out[i] = 2 + static_cast<double>(i);
}

// Integers from -3 to 3: ties in size and in value.
void few_integers(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(d.rng.integer(static_cast<std::uint64_t>(d.first) + i, -3, 3));
}

// f32 halves that look like signalling NaNs of 16 bits.
void loud_halves(const RowDraw& d, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto k = static_cast<double>((d.first + static_cast<std::int64_t>(i)) % 7);
    out[i] = i % 2 == 0 ? 1 + (0x7C01 + k * 16) * 0x1p-23 : 0;
  }
}

const Fill kDense{"dense", "four non-zeros a group: pruning decides", dense};
const Fill kPatterns{"patterns", "every pair of places, one element, none", two_of_four, true};
const Fill kBroken{"not_24", "three non-zeros of four", not_two_of_four, true};
const Fill kFew{"few_integers", "ties: which of equals is kept", few_integers, true};
const Fill kLoud{"loud_halves", "f32 whose halves are signalling NaNs", loud_halves, true};

Options chain(const char* name) { return {{"chain", name}}; }
Sizes matrix(std::int64_t M, std::int64_t K) { return {{"M", M, {}}, {"K", K, {}}}; }

std::string_view exempt(const Case&, std::string_view, std::string_view trivial) {
  if (trivial == "copy") return "what is kept is a copy";
  return "";
}

const Register compress{CaseSet{
    .op = "sparse24",
    .what = "Compression with CUTLASS's metadata",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(32, 64), matrix(64, 128)},
    .dtypes = {Dtype::BF16, Dtype::F32, Dtype::I8},
    .fills = {kPatterns, kBroken, kLoud},
    .options = {chain("sparse24_cutlass")},
}};

const Register prune{CaseSet{
    .op = "sparse24",
    .what = "Pruning by each source's rule",
    .lane = Lane::Smoke,
    .sizes = {matrix(64, 64)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kDense},
    .options = {chain("sparse24_weightnorm"), chain("sparse24_tile"),
                chain("sparse24_compressed_tensors")},
    .exempt = exempt,
    .zero_share = 0.60,
    .zero_share_why = "half of the elements are pruned",
}};

const Register ties{CaseSet{
    .op = "sparse24",
    .what = "Equal elements: which is kept",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {matrix(64, 32)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kFew, kPatterns},
    .options = {chain("sparse24_weightnorm"), chain("sparse24_tile"),
                chain("sparse24_compressed_tensors")},
}};

const Register wide{CaseSet{
    .op = "sparse24",
    .what = "Larger matrices",
    .lane = Lane::Long,
    .check = Check::Exact,
    .sizes = {matrix(256, 512)},
    .dtypes = {Dtype::BF16, Dtype::F32, Dtype::I8},
    .fills = {kPatterns, kBroken},
    .options = {chain("sparse24_cutlass")},
    .seeds = {0, 1},
}};

}  // namespace
}  // namespace parity
