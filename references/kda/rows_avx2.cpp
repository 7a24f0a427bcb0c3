#include "references/kda/rows.hpp"

namespace parity::kda {
namespace {
#include "references/kda/rows.inl"
}  // namespace

const Rows kRowsAvx2 = {decay, write, add, adjoint, close, dot};

}  // namespace parity::kda
