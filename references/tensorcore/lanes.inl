// Included by lanes*.cpp inside an anonymous namespace: compiled once for each instruction set.

using Ints = std::int32_t __attribute__((vector_size(64)));
using HalfInts = std::int32_t __attribute__((vector_size(32)));
using Floats = float __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
using Longs = std::int64_t __attribute__((vector_size(64)));

template <class V, class T>
inline __attribute__((always_inline)) void load(V& v, const T* from) {
  __builtin_memcpy(&v, from, sizeof v);
}
template <class V, class T>
inline __attribute__((always_inline)) void store(const V& v, T* to) {
  __builtin_memcpy(to, &v, sizeof v);
}

// Nominal exponents of accumulators; those of f16 have their least normal one at -14.
inline __attribute__((always_inline)) void accumulator_exponents(const float* c, int least,
                                                                 Ints& exponent) {
  Ints bits;
  load(bits, c);
  exponent = ((bits >> 23) & 255) - 127;
  exponent = exponent < least ? Ints{} + least : exponent;
  exponent = (bits & 0x7FFFFFFF) == 0 ? Ints{} + kNoExponent : exponent;
}

// Rounds sums of eight lanes, in units of `unit`, into the accumulators. Returns a bit for each lane
// that needs the scalar model.
inline __attribute__((always_inline)) unsigned keep(const LaneJob& job, const Doubles& total,
                                                    const Doubles& unit, float* c_of) {
  Longs bits;
  load(bits, &total);
  if (!job.f16) bits &= -(std::int64_t{1} << (52 - job.kept_bits));
  Doubles value;
  load(value, &bits);
  value *= unit;
  double values[8];
  store(value, values);
  unsigned odd = 0;
  for (int l = 0; l < 8; ++l) {
    const double size = __builtin_fabs(values[l]);
    const bool number = __builtin_fabsf(c_of[l]) <= 0x1.fffffep127F;
    const bool normal = size == 0 || (size >= 0x1p-126 && size < 0x1p128);
    odd |= static_cast<unsigned>(!(number && normal)) << l;
  }
  if (job.f16) {
    for (int l = 0; l < 8; ++l)
      c_of[l] = static_cast<float>(round_to(Dtype::F16, values[l]) + 0.0);
    return odd;
  }
  const Floats rounded = __builtin_convertvector(value, Floats);
  store(rounded, c_of);
  return odd;
}

// What adding the group's products left in eight lanes, and the accumulator, rounded into it.
inline __attribute__((always_inline)) unsigned finish(const LaneJob& job, const std::int32_t* top_of,
                                                      const std::int32_t* sum_of,
                                                      const std::int32_t* rest_of, float* c_of) {
  HalfInts top, sum, rest;
  Floats c;
  load(top, top_of);
  load(sum, sum_of);
  load(rest, rest_of);
  load(c, c_of);
  constexpr int kLowest = -320;  // below every sum of exponents: nothing was added
  top = top < kLowest ? HalfInts{} + kLowest : top;
  const Longs up_bits = __builtin_convertvector(1023 + job.fraction - top, Longs) << 52;
  const Longs down_bits = __builtin_convertvector(1023 - job.fraction + top, Longs) << 52;
  Doubles up, down;
  load(up, &up_bits);
  load(down, &down_bits);
  // Towards zero: |c| is below 2^(fraction + 1), an int.
  const HalfInts c_aligned = __builtin_convertvector(__builtin_convertvector(c, Doubles) * up,
                                                     HalfInts);
  const Doubles total = __builtin_convertvector(sum, Doubles) +
                        __builtin_convertvector(rest, Doubles) +
                        __builtin_convertvector(c_aligned, Doubles);
  return keep(job, total, down, c_of);
}

// Adds the products of elements [first, last) of a group, aligned to `top`: at most 16, so that the
// sum is an int.
template <unsigned kRows>
inline __attribute__((always_inline)) void add_products(const LaneJob& job, const LaneRow* rows,
                                                        std::int64_t k0, const std::int16_t* order,
                                                        int first, int last, const Ints* top,
                                                        Ints* sum) {
  for (int i = first; i < last; ++i) {
    const std::int64_t k = k0 + order[i];
    Ints e, size, sign;
    load(e, job.b.exponent + k * kLanes);
    load(size, job.b.size + k * kLanes);
    load(sign, job.b.sign + k * kLanes);
    for (unsigned r = 0; r < kRows; ++r) {
      Ints shift = top[r] - (e + rows[r].a.exponent[k]);
      shift = shift > 31 ? Ints{} + 31 : shift;
      const Ints kept = (size * rows[r].a.size[k]) >> shift;
      const Ints s = sign ^ rows[r].a.sign[k];
      sum[r] += (kept ^ s) - s;
    }
  }
}

// One group of products of kRows rows with 16 columns each.
template <unsigned kRows>
inline __attribute__((always_inline)) void step(const LaneJob& job, const LaneRow* rows,
                                                std::int64_t k0, float (*c)[kLanes],
                                                const std::int16_t* order, unsigned* odd) {
  Ints top[kRows], sum[kRows] = {}, rest[kRows] = {};
  for (unsigned r = 0; r < kRows; ++r) accumulator_exponents(c[r], job.f16 ? -14 : -126, top[r]);
  for (int i = 0; i < job.group; ++i) {
    const std::int64_t k = k0 + order[i];
    Ints e;
    load(e, job.b.exponent + k * kLanes);
    for (unsigned r = 0; r < kRows; ++r) {
      const Ints exponent = e + rows[r].a.exponent[k];
      top[r] = exponent > top[r] ? exponent : top[r];
    }
  }
  const int half = job.group < 16 ? job.group : 16;
  add_products<kRows>(job, rows, k0, order, 0, half, top, sum);
  add_products<kRows>(job, rows, k0, order, half, job.group, top, rest);
  for (unsigned r = 0; r < kRows; ++r) {
    std::int32_t tops[kLanes], sums[kLanes], rests[kLanes];
    store(top[r], tops);
    store(sum[r], sums);
    store(rest[r], rests);
    odd[r] |= finish(job, tops, sums, rests, c[r]) |
              finish(job, tops + 8, sums + 8, rests + 8, c[r] + 8) << 8;
  }
}

inline double power_of_two(int exponent) {
  const std::int64_t bits = static_cast<std::int64_t>(1023 + exponent) << 52;
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// An instruction of exact dot products: sizes are integers with their sign, `sign` is a scale's
// significand and `exponent` its exponent, those of the first element of a dot being looked at.
template <unsigned kRows>
void block_dots(const LaneJob& job, const LaneRow* rows, std::int64_t k0, float (*c)[kLanes],
                unsigned* odd) {
  constexpr int kDot = 16, kMostDots = 4;
  constexpr int kFaint = -900;  // nothing is left of a term that far below the greatest
  const int dots = job.k / kDot;
  for (unsigned r = 0; r < kRows; ++r) {
    Ints top, term[kMostDots], exponent[kMostDots];
    accumulator_exponents(c[r], job.f16 ? -14 : -126, top);
    for (int j = 0; j < dots; ++j) {
      const std::int64_t k = k0 + j * kDot;
      Ints sum = {}, significand;
      for (int i = 0; i < kDot; ++i) {
        Ints size;
        load(size, job.b.size + (k + i) * kLanes);
        sum += size * rows[r].a.size[k + i];
      }
      load(significand, job.b.sign + k * kLanes);
      load(exponent[j], job.b.exponent + k * kLanes);
      term[j] = sum * (significand * rows[r].a.sign[k]);
      exponent[j] += rows[r].a.exponent[k];
      top = exponent[j] > top ? exponent[j] : top;
    }
    for (int half = 0; half < kLanes; half += 8) {
      double total[8], unit[8];
      for (int l = 0; l < 8; ++l) {
        const int greatest = top[half + l] < kFaint ? kFaint : top[half + l];
        total[l] = __builtin_trunc(static_cast<double>(c[r][half + l]) *
                                   power_of_two(job.fraction - greatest));
        for (int j = 0; j < dots; ++j) {
          const int below = exponent[j][half + l] - greatest;
          if (below > kFaint)
            total[l] += __builtin_trunc(term[j][half + l] *
                                        power_of_two(job.fraction - job.term_bits + below));
        }
        unit[l] = power_of_two(greatest - job.fraction);
      }
      Doubles totals, units;
      load(totals, total);
      load(units, unit);
      odd[r] |= keep(job, totals, units, c[r] + half) << half;
    }
  }
}

template <unsigned kRows>
void run_rows(const LaneJob& job, const LaneRow* rows) {
  constexpr int kLongest = 64;
  std::int16_t order[kLongest];  // elements of an instruction, by group
  for (int i = 0; i < job.k; ++i)
    order[i] = static_cast<std::int16_t>(
        !job.via_half ? i : i < job.k / 2 ? i / 2 * 4 + i % 2 : (i - job.k / 2) / 2 * 4 + 2 + i % 2);
  float c[kRows][kLanes], before[kRows][kLanes];
  for (unsigned r = 0; r < kRows; ++r) __builtin_memcpy(c[r], rows[r].accumulator, sizeof c[r]);
  for (std::int64_t n = job.first; n < job.last; ++n) {
    unsigned odd[kRows] = {};
    __builtin_memcpy(before, c, sizeof c);
    if (job.via_half) __builtin_memset(c, 0, sizeof c);
    if (job.term_bits > 0)
      block_dots<kRows>(job, rows, n * job.k, c, odd);
    else
      for (int g = 0; g < job.k; g += job.group)
        step<kRows>(job, rows, n * job.k, c, order + g, odd);
    for (unsigned r = 0; r < kRows; ++r) {
      if (job.special_b[n] != 0 || rows[r].special[n] != 0) odd[r] = 0xFFFF;
      if (job.via_half)
        for (int l = 0; l < kLanes; ++l) {
          c[r][l] += before[r][l];
          if (job.f16) c[r][l] = static_cast<float>(round_to(Dtype::F16, c[r][l]) + 0.0);
          const float size = __builtin_fabsf(c[r][l]);
          if (!(size <= 0x1.fffffep127F)) odd[r] |= 1U << l;
        }
      for (unsigned left = odd[r]; left != 0; left &= left - 1) {
        const int l = __builtin_ctz(left);
        c[r][l] = job.exact(job.context, rows[r].row, l, n, before[r][l]);
      }
    }
  }
  for (unsigned r = 0; r < kRows; ++r) __builtin_memcpy(rows[r].accumulator, c[r], sizeof c[r]);
}

void run(const LaneJob& job, const LaneRow* rows, int count) {
  for (; count >= kTile; count -= kTile, rows += kTile) run_rows<kTile>(job, rows);
  for (; count > 0; --count, ++rows) run_rows<1>(job, rows);
}
