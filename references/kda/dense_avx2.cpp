#include "references/kda/dense.hpp"

namespace parity::kda {
namespace {
#include "references/kda/dense.inl"
}  // namespace

const Dense kDenseAvx2 = {multiply, exp2_row};

}  // namespace parity::kda
