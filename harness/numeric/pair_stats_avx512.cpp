#include "harness/numeric/pair_stats_block.hpp"
namespace parity::pair_detail {
BlockFunction avx512_block(Dtype) { return nullptr; }
}  // namespace parity::pair_detail
