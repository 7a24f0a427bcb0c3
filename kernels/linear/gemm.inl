// The tile of gemm.hpp over a vector type `Lanes` (kLanes floats) with zero(), load(), madd(), sum()
// and decode(codes, part, table): the values of part `part` of 16 codes. Included by one file for
// each instruction set, inside its own anonymous namespace, after kRows and kColumns.

constexpr std::int64_t kParts = kStep / kLanes;

float scale_of(const Weights& w, std::int64_t row, std::int64_t k) {
  const std::int64_t at = row * (w.K / w.group) + k / w.group;
  return w.bytes != nullptr ? float_from_e4m3(w.bytes[at]) : w.scales[at];
}

template <unsigned R, unsigned C>
void tile(const Rows& rows, const Weights& w, std::int64_t m, std::int64_t n) {
  Lanes sums[R][C];
  for (auto& row : sums)
    for (Lanes& s : row) s = zero();
  const Table table = load_table(w.table);
  const std::uint8_t* codes = w.codes + n * (w.K / 2);
  for (std::int64_t k = 0; k < w.K; k += kStep) {
    float scales[C];
    for (unsigned c = 0; c < C; ++c) scales[c] = scale_of(w, n + c, k);
    for (std::int64_t part = 0; part < kParts; ++part) {
      Lanes weight[C];
      for (unsigned c = 0; c < C; ++c)
        weight[c] = times(decode(codes + c * (w.K / 2) + k / 2, part, table), scales[c]);
      for (unsigned r = 0; r < R; ++r) {
        const Lanes x = load(rows.x + (m + r) * w.K + k + part * kLanes);
        for (unsigned c = 0; c < C; ++c) sums[r][c] = madd(x, weight[c], sums[r][c]);
      }
    }
  }
  for (unsigned r = 0; r < R; ++r)
    for (unsigned c = 0; c < C; ++c) rows.y[(m + r) * rows.ldy + n + c] = sum(sums[r][c]);
}

template <unsigned C>
void strip(const Rows& rows, const Weights& w, std::int64_t n) {
  std::int64_t m = 0;
  for (; m + kRows <= rows.M; m += kRows) tile<kRows, C>(rows, w, m, n);
  for (; m < rows.M; ++m) tile<1, C>(rows, w, m, n);
}

void columns(const Rows& rows, const Weights& w, std::int64_t first, std::int64_t last) {
  std::int64_t n = first;
  for (; n + kColumns <= last; n += kColumns) strip<kColumns>(rows, w, n);
  for (; n < last; ++n) strip<1>(rows, w, n);
}
