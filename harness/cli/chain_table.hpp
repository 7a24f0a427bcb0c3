// How often chains differ from one of them: over draws of N(0,1), over draws with a forced amax,
// and over every pair of bf16 amaxes (a tensor's and a block's).
#pragma once

#include <string>
#include <vector>

#include "harness/cli/chain_trace.hpp"

namespace parity::cli {

struct DrawRequest {
  std::vector<ChainName> chains = {};  // the first is what the others are compared with
  Dtype dtype = Dtype::BF16;
  std::int64_t rows = 64;
  std::int64_t columns = 1024;
  int draws = 8;
  bool forced = false;  // 128 draws with the amax 4 (1 + m/128), m = 0..127, in place of `draws`
};

struct ChainRates {
  ChainName name = {};
  std::string refused = {};
  int draws = 0;
  int scales_in = 0;  // draws in which a scale differs
  double scales_max = 0, codes_median = 0, codes_max = 0;
  std::int64_t largest_code = 0;  // code steps where the scale byte is the same
  double sqnr_x = 0, sqnr_y = 0;  // dB, of the last draw
};

struct ChainTable {
  std::vector<ChainRates> rates = {};                   // as the chains of the request
  std::vector<std::vector<std::string>> agreeing = {};  // codes and scales equal in every draw
};
ChainTable table_of(const DrawRequest&);

// Of all bf16 pairs with a normal e4m3 scale: pairs that give another byte than the first chain,
// and mantissas of the tensor's amax that they need.
struct PairCount {
  ChainName name = {};
  std::int64_t pairs = 0, mantissas = 0, of = 0;
};
std::vector<PairCount> pairs_of(const std::vector<ChainName>&);

// NaN, infinities, -0, zero blocks, underflow: a Markdown table, one row a chain.
std::string special_values_table();

}  // namespace parity::cli
